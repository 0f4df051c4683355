"""Measure the NPU's performance and write a report: `make bench`.

Measured are matrix products of real networks and of attention in every type, a transformer layer, other
operations, and the simulation's speed. Results go to sim_build/bench/: results.json, report.html. Cycles are
compared with the committed ones; with ECHO_NPU_UPDATE set, cycles, table and picture of the docs are updated.

Exit status: 0 passed; 1 cycles moved, or a result is wrong.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

import echo_npu
from benchmarks import committed, operations, plots, sim_speed
from benchmarks.page import render
from echo_npu.benchmark.gemm import Measured, Session
from echo_npu.benchmark.goals import find_goals
from echo_npu.benchmark.products import ATTENTION, TRANSPOSED
from echo_npu.benchmark.summary import summarize
from echo_npu.cli.benchmark import results_table, summary_lines, to_dict
from echo_npu.cli.support import table_console
from echo_npu.device import Device
from echo_npu.models.model import run_model
from echo_npu.models.report import ProgressBar
from echo_npu.models.transformer import tiny_layer
from echo_npu.spec.data_types import DataType
from echo_sim.numerals import Whole
from spec.marked_page import replace_part
from tb.committed_cycles import UPDATE_VARIABLE
from tb.report import pictures
from tb.repository import ROOT
from tb.revision import revision

OUTPUT = ROOT / "sim_build" / "bench"

GEMM = "gemm"
GROUPS = (GEMM, TRANSPOSED, ATTENTION)
"""Groups of products that are judged separately: those two sets, and all others."""

QUICK_MACS = 1 << 21
"""Multiply-accumulates of the largest product of a short run."""


def measure(*, quick: bool, jobs: int, simulation: bool) -> tuple[dict[str, Any], list[Measured]]:
    """Measure everything.

    Args:
        quick: only products of at most `QUICK_MACS` multiply-accumulates.
        jobs: simulations at a time.
        simulation: also how fast the simulation is.

    Returns: the results as JSON holds them, and the matrix products.
    """
    with echo_npu.open("rtlmodel", config=committed.CONFIG) as device:
        capabilities = device.capabilities
        dtypes = [DataType.of(label) for label in capabilities.data_types]
        layer = _layer(device)
        measured_operations = [_operation(*each) for each in operations.measure_all(device)]
    products = {
        product: name
        for product, name in committed.all_products().items()
        if not quick or product.macs <= QUICK_MACS
    }
    work = [(product, dtype) for product in products for dtype in dtypes]
    session = Session(backend="rtlmodel", config=committed.CONFIG, jobs=jobs)
    with ProgressBar("matrix products", len(work)) as bar:
        measured = session.run(work, lambda done: bar.advance(done.name))
    results = {
        "config": committed.CONFIG,
        "revision": revision(),
        "quick": quick,
        "hardware": committed.hardware(capabilities, dtypes),
        "goals": []
        if quick
        else [goal.to_dict() for goal in find_goals(committed.judged_products(measured))],
        **_groups([(products[each.product], each) for each in measured]),
        "layer": layer,
        "operations": measured_operations,
        "simulation": _simulation(quick=quick) if simulation else None,
    }
    return results, measured


def _groups(named: list[tuple[str, Measured]]) -> dict[str, dict[str, Any]]:
    """Return products with their sets' names in groups that are judged separately, for printing and as
    JSON."""
    groups: dict[str, list[tuple[str, Measured]]] = {key: [] for key in GROUPS}
    for name, each in named:
        groups[name if name in GROUPS else GEMM].append((name, each))
    console = table_console()
    made = {}
    for key, chosen in groups.items():
        names, measured = [name for name, _ in chosen], [each for _, each in chosen]
        summary = summarize(measured)
        console.print(results_table(names, measured))
        for line in summary_lines(summary):
            console.print(line, soft_wrap=True)
        made[key] = to_dict(committed.CONFIG, names, measured, summary)
    return made


def _layer(device: Device) -> dict[str, Any]:
    model = tiny_layer(0)
    with (
        ProgressBar(model.name, model.steps) as bar,
        echo_npu.open("cmodel", config=committed.CONFIG) as twin,
    ):
        return run_model(model, device, twin, on_record=bar.step).to_dict()


def _operation(operation: operations.TimedOperation, figures: operations.OperationFigures) -> dict[str, Any]:
    name = operation.name.replace("`", "")
    return {"name": name, "shape": operation.shape, **asdict(figures), "bus": figures.bus}


def _simulation(*, quick: bool) -> dict[str, Any]:
    """Measure the simulation's speed; plain cocotb, which takes minutes to build, only in long runs."""
    report = sim_speed.measure(committed.CONFIG, quick=quick, cocotb=not quick)
    lines = sim_speed.lines(report)
    Console().print("\n".join(lines), soft_wrap=True, highlight=False, markup=False)
    return {
        "facts": lines,
        "speeds": {
            f"{program['name']}: {simulator}": program[simulator]["cycles_per_s"]
            for program in report["programs"]
            for simulator in ("harness", "bare", "cocotb")
            if simulator in program
        },
        "wrong": sim_speed.failures(report),
    }


def failures(results: Mapping[str, Any]) -> list[str]:
    """Return violations that do not depend on speed."""
    wrong: list[str] = [name for key in GROUPS for name in results[key]["summary"]["wrong"]]
    if not results["layer"]["passed"]:
        wrong.append("the layer")
    if results["simulation"]:
        wrong += results["simulation"]["wrong"]
    return wrong


def update(measured: list[Measured]) -> None:
    """Commit the cycles and update the docs' table and picture."""
    cycles = {each.name: each.cycles for each in measured if each.cycles is not None}
    committed.CYCLES.update(committed.CONFIG, cycles, replace=True)
    write_docs()


def write_docs() -> None:
    """Write the docs' table and picture from the committed cycles."""
    products = committed.committed_products()
    replace_part(committed.PAGE, committed.COMMAND, committed.page_lines(products))
    committed.PICTURE.write_text(picture(products), encoding="utf-8")


def picture(products: list[Measured]) -> str:
    """Return the SVG of the docs."""
    with echo_npu.open("cmodel", config=committed.CONFIG) as device:
        facts = committed.hardware(device.capabilities, dict.fromkeys(each.dtype for each in products))
    shown = [each.to_dict() for each in products]
    return pictures.svg(plots.overview(shown, facts["bus_bytes"], facts["peak"]))


def main() -> int:
    """Command line entry point; returns the process's exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"only products of at most {QUICK_MACS:,} MACs")
    parser.add_argument(
        "--jobs", type=Whole(1, 4096), default=os.cpu_count() or 1, help="simulations at a time"
    )
    parser.add_argument(
        "--no-simulation",
        action="store_true",
        help="leave out the simulation's speed, whose builds take minutes",
    )
    options = parser.parse_args()
    updating = bool(os.environ.get(UPDATE_VARIABLE))
    if updating and options.quick:
        parser.error("a short run measures too little to commit")
    results, measured = measure(quick=options.quick, jobs=options.jobs, simulation=not options.no_simulation)
    write_report(results, OUTPUT)
    console = Console()
    for goal in find_goals(committed.judged_products(measured)) if not options.quick else ():
        verdict = "[green]met[/]" if goal.met else f"[red]missed[/] {goal.product}"
        line = f"{goal.name}: {goal.shown}, wanted {goal.meant}: {verdict}"
        console.print(line, soft_wrap=True, highlight=False)
    if wrong := failures(results):
        console.print(f"[bold red]WRONG:[/] {'; '.join(wrong)}", soft_wrap=True)
        return 1
    if updating:
        update(measured)
    moved = committed.CYCLES.moved(
        committed.CONFIG, {each.name: each.cycles for each in measured if each.cycles is not None}
    )
    for name, (before, now) in moved.items():
        console.print(
            f"[bold red]cycles moved:[/] {name}: committed {before}, measured {now}", soft_wrap=True
        )
    if moved:
        console.print(f"On purpose? Then {committed.COMMAND}, and commit what it writes.", soft_wrap=True)
    return 1 if moved else 0


def write_report(results: Mapping[str, Any], output: Path) -> None:
    """Write results.json and report.html into the folder `output`."""
    output.mkdir(parents=True, exist_ok=True)
    (output / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    report = output / "report.html"
    report.write_text(render(results), encoding="utf-8")
    Console().print(f"report: {report}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
