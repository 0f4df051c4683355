"""The command `echo-npu`.

Exit status: 0 all right, 1 a result differs or the device failed, 2 wrong arguments.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

import echo_npu
from echo_npu.cli_support import (
    AsJson,
    Backend,
    Bandwidth,
    Config,
    Latency,
    Stalls,
    given,
    reported,
    table_console,
)
from echo_npu.measure import MatmulReport, measure_matmul
from echo_npu.models import cli as models_cli
from echo_npu.vector import cli as vector_cli

app = typer.Typer(
    help="Run things on the ECHO NPU, in RTL simulation or on its functional model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

BENCH_SHAPES: Final = ("16x16x16", "64x64x64", "128x128x128", "1x768x3072", "32x768x768", "100x150x16")


@app.command()
def info(backend: Backend = None, config: Config = "default", as_json: AsJson = False) -> None:
    """Show the backends, and what the device says about itself."""
    with reported(), echo_npu.open(backend, config=config) as device:
        facts = {"backends": echo_npu.list_backends(), **device.info()}
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    table = Table(show_header=False, box=None)
    table.add_row("backends", ", ".join(facts["backends"]))
    table.add_row("backend", f"{facts['backend']}: {facts['description']}")
    table.add_row("configuration", facts["config"])
    for name, value in facts["capabilities"].items():
        shown = ".".join(map(str, value)) if name == "version" else value
        table.add_row(name.replace("_", " "), ", ".join(value) if name == "data_types" else str(shown))
    for name, region in facts["memory"].items():
        table.add_row(f"{name} memory", f"0x{region['base']:08x}, {region['size'] >> 20} MiB")
    Console().print(table)


@app.command(context_settings={"ignore_unknown_options": True})  # so that -3 is a dimension, a wrong one
def matmul(
    m: Annotated[int, typer.Argument(help="Rows of a and c.")],
    k: Annotated[int, typer.Argument(help="Columns of a, rows of b.")],
    n: Annotated[int, typer.Argument(help="Columns of b and c.")],
    dtype: Annotated[str, typer.Option(help="Data type of the operands.")] = "fp32",
    backend: Backend = None,
    config: Config = "default",
    trans_a: Annotated[bool, typer.Option("--trans-a", help="a is stored transposed, k x m.")] = False,
    trans_b: Annotated[bool, typer.Option("--trans-b", help="b is stored transposed, n x k.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the matrices and of the memory's stalls.")] = 1,
    latency: Latency = None,
    bandwidth: Bandwidth = None,
    stalls: Stalls = None,
    waves: Annotated[bool, typer.Option("--waves", help="Write waves/matmul-MxKxN.vcd (rtlmodel).")] = False,
    as_json: AsJson = False,
) -> None:
    """Multiply random matrices, m x k by k x n, and check the result c = a @ b.

    cycles: busy cycles of the command. utilisation: macs / (cycles * array rows * array columns).

    roofline: bound / cycles, with bound = max(macs / (array rows * array columns), bytes of a and b * 8 /
    data width, bytes of c * 8 / data width).

    bit_exact: equal to the product in float32, in the contract's order, to the bit; else exit status is 1.

    max_rel_error: the largest |c - c64| / (|a| @ |b|), c64 being the product in float64.
    """
    with reported():
        options = given(latency=latency, bandwidth=bandwidth, stalls=stalls)
        if waves:
            options["waves"] = f"matmul-{m}x{k}x{n}"
        if (backend or echo_npu.get_backend_name()) == "rtlmodel":
            options["seed"] = seed
        with echo_npu.open(backend, config=config, **options) as device:
            report = measure_matmul(device, m, k, n, dtype=dtype, trans_a=trans_a, trans_b=trans_b, seed=seed)
    if as_json:
        typer.echo(json.dumps(asdict(report)))
    else:
        _print_reports([report])
    if not report.bit_exact:
        raise typer.Exit(1)


@app.command()
def bench(
    shapes: Annotated[list[str] | None, typer.Argument(help="Shapes MxKxN, e.g. 128x128x128.")] = None,
    backend: Backend = None,
    config: Config = "default",
    seed: Annotated[int, typer.Option(min=0, help="Of the matrices.")] = 1,
    latency: Latency = None,
    bandwidth: Bandwidth = None,
    stalls: Stalls = None,
    jobs: Annotated[int, typer.Option(min=0, help="Simulations at a time; 0: one a processor.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure matrix products of several shapes, each on a device of its own. Columns as in `matmul`."""
    with reported():
        wanted = [_shape(text) for text in shapes or BENCH_SHAPES]
        options = given(latency=latency, bandwidth=bandwidth, stalls=stalls)
        with echo_npu.open(backend, config=config, **options):
            pass  # builds, and refuses wrong arguments, once and here
        workers = min(jobs or os.cpu_count() or 1, len(wanted))
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            tasks = [pool.submit(_bench_one, shape, backend, config, seed, options) for shape in wanted]
            reports = [task.result() for task in tasks]
    if as_json:
        typer.echo(json.dumps([asdict(report) for report in reports], indent=2))
    else:
        _print_reports(reports)
    if not all(report.bit_exact for report in reports):
        raise typer.Exit(1)


def _shape(text: str) -> tuple[int, int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", text)
    if match is None:
        raise ValueError(f"shape {text!r}: it must be MxKxN, e.g. 128x128x128")
    return int(match[1]), int(match[2]), int(match[3])


def _bench_one(
    shape: tuple[int, int, int], backend: str | None, config: str, seed: int, options: dict[str, Any]
) -> MatmulReport:
    with echo_npu.open(backend, config=config, **options) as device:
        return measure_matmul(device, *shape, seed=seed)


def _print_reports(reports: list[MatmulReport]) -> None:
    table = Table()
    names = "m|k|n|cycles|macs|utilisation|roofline|bit exact|max rel error|wall s|cycles/s"
    for name in names.split("|"):
        table.add_column(name, justify="right")
    for r in reports:
        table.add_row(
            str(r.m),
            str(r.k),
            str(r.n),
            _shown(r.cycles, ",d"),
            f"{r.macs:,d}",
            _shown(r.utilisation, ".3f"),
            _shown(r.roofline, ".3f"),
            "yes" if r.bit_exact else "[bold red]NO[/]",
            f"{r.max_rel_error:.2e}",
            f"{r.wall_s:.3f}",
            _shown(r.cycles_per_s, ",.0f"),
        )
    table_console().print(table)


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


models_cli.register(app)
vector_cli.register(app)


def main() -> None:
    """Entry point of `echo-npu`."""
    app()
