"""Committed cycles of the matrix products, and the docs that follow from them.

The cycles are the source of the table in docs/performance.md and of the picture docs/bench.svg.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import echo_npu
from echo_npu.benchmark.gemm import Measured, judged, workload_name
from echo_npu.benchmark.goals import Goal, find_goals
from echo_npu.benchmark.products import ATTENTION, TRANSPOSED, Product, choose_products, load_products
from echo_npu.benchmark.roofline import bus_bytes, peak_macs
from echo_npu.benchmark.summary import summarize
from echo_npu.driver.capabilities import Capabilities
from echo_npu.spec.data_types import DataType
from tb.committed_cycles import CommittedCycles
from tb.repository import ROOT

PAGE: Final = ROOT / "docs" / "performance.md"
PICTURE: Final = ROOT / "docs" / "bench.svg"
COMMAND: Final = "make bench UPDATE=1"
CONFIG: Final = "default"
CYCLES: Final = CommittedCycles(Path(__file__).with_name("gemm_cycles.json"), tolerance=0.01)


def all_products() -> dict[Product, str]:
    """Return every measured product, including those of attention, with the name of its set."""
    return choose_products(load_products())


def committed_products() -> list[Measured]:
    """Return all products in the types that have committed cycles, in the order of the sets."""
    with echo_npu.open("cmodel", config=CONFIG) as device:
        capabilities = device.capabilities
    cycles = CYCLES.load(CONFIG)
    return [
        judged(capabilities, product, dtype, cycles[name])
        for product in all_products()
        for dtype in DataType
        if (name := workload_name(product, dtype)) in cycles
    ]


def hardware(capabilities: Capabilities, dtypes: Iterable[DataType]) -> dict[str, Any]:
    """Return the hardware's figures for plots and report."""
    return {
        "array_rows": capabilities.array_rows,
        "array_cols": capabilities.array_cols,
        "vector_lanes": capabilities.vector_lanes,
        "bus_bytes": bus_bytes(capabilities),
        "peak": {dtype.label: peak_macs(capabilities, dtype) for dtype in dtypes},
    }


def judged_products(measured: Iterable[Measured]) -> list[Measured]:
    """Return the products that the goals are about: all except those repeated with a transposed operand."""
    sets = all_products()
    return [each for each in measured if sets[each.product] != TRANSPOSED]


def goal_lines(goals: Sequence[Goal]) -> list[str]:
    """Return the table of goals, wanted and reached."""
    lines = ["| goal | wanted | measured | of | |", "| --- | ---: | ---: | --- | --- |"]
    for goal in goals:
        verdict = "met" if goal.met else "**missed**"
        lines.append(f"| {goal.name} | {goal.meant} | {goal.shown} | {goal.product} | {verdict} |")
    return lines


def page_lines(measured: Sequence[Measured]) -> list[str]:
    """Return everything that is generated in docs/performance.md."""
    return [*goal_lines(find_goals(judged_products(measured))), "", *table(measured)]


def table(measured: Sequence[Measured]) -> list[str]:
    """Return the table of the docs: a row per product, with cycles, utilisation and roofline of each type."""
    dtypes = list(dict.fromkeys(each.dtype for each in measured))
    found = {(each.product, each.dtype): each for each in measured}
    lines = [
        f"| set | product | {' | '.join(dtype.label for dtype in dtypes)} |",
        f"| --- | --- |{' ---: |' * len(dtypes)}",
    ]
    previous = ""
    for product, name in all_products().items():
        cells = [_cell(found.get((product, dtype))) for dtype in dtypes]
        lines.append(f"| {name if name != previous else ''} | {product} | {' | '.join(cells)} |")
        previous = name
    sets = all_products()
    for title, chosen in (
        ("single products", [each for each in measured if sets[each.product] not in (TRANSPOSED, ATTENTION)]),
        (TRANSPOSED, [each for each in measured if sets[each.product] == TRANSPOSED]),
        (ATTENTION, [each for each in measured if sets[each.product] == ATTENTION]),
    ):
        means = summarize(chosen).means
        cells = [f"{means[dtype.label]:.3f}" if dtype.label in means else "-" for dtype in dtypes]
        lines.append(f"| mean roofline | {title} | {' | '.join(cells)} |")
    return lines


def _cell(measured: Measured | None) -> str:
    if measured is None:
        return "-"
    return f"{measured.cycles:,} {measured.utilisation:.2f} {measured.roofline:.2f}"
