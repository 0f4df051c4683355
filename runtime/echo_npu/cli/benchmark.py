"""The commands `echo-npu bench ...`."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.table import Table

from echo_npu.benchmark.gemm import Measured, Session
from echo_npu.benchmark.products import Product, choose_products
from echo_npu.benchmark.summary import Summary, floor_of, summarize
from echo_npu.cli.support import (
    AsJson,
    Backend,
    Bandwidth,
    Config,
    Latency,
    Stalls,
    Trace,
    given,
    reported,
    shown,
    table_console,
)
from echo_npu.models.report import ProgressBar
from echo_npu.spec.data_types import DataType
from echo_sim.numerals import SEED, Whole, option

bench = typer.Typer(
    help="Measure what the hardware reaches, against what it could reach.", no_args_is_help=True
)

ALL = "all"

MOST_MACS = 1 << 62
"""More than any product has."""


@bench.command()
def gemm(
    dtypes: Annotated[
        list[str] | None,
        typer.Option("--dtype", help="fp32, bf16, fp16, int8; again for several. Default: all of them."),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", help="A set of products; again for several."),
    ] = None,
    shapes: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="MxKxN", help="A shape of your own; again for several."),
    ] = None,
    trans_b: Annotated[
        bool, typer.Option("--trans-b", help="The right operand is stored transposed, n x k.")
    ] = False,
    check_limit: Annotated[
        int | None,
        typer.Option(
            help="Compare only products of at most so many MACs. Default: all.",
            **option(Whole(0, MOST_MACS)),
        ),
    ] = None,
    backend: Backend = None,
    config: Config = "default",
    seed: Annotated[int, typer.Option(help="Of the matrices.", **option(SEED))] = 1,
    latency: Latency = None,
    bandwidth: Bandwidth = None,
    stalls: Stalls = None,
    jobs: Annotated[
        int, typer.Option(help="Simulations at a time; 0: one a processor.", **option(Whole(0, 4096)))
    ] = 0,
    trace: Trace = None,
    as_json: AsJson = False,
) -> None:
    """Measure the matrix products of real networks, in every data type, each alone.

    Without --set and --shape: all sets but transposed and attention, some minutes.

    utilisation: macs / (cycles * peak), peak being array rows * array columns, for int8 four times that.

    bound: max(macs / peak, bytes of both operands / bus width, bytes of the float32 result / bus width).
    roofline: bound / cycles.

    With --trace all products run on one device, one after another.

    exact: equal to the functional model to the bit; else exit status is 1.
    """
    with reported():
        work = chosen_work(dtypes, sets, shapes, trans_b=trans_b)
        session = Session(
            backend=backend,
            config=config,
            options=given(latency=latency, bandwidth=bandwidth, stalls=stalls, trace=trace),
            check_limit=check_limit,
            seed=seed,
            jobs=1 if trace else jobs or os.cpu_count() or 1,
        )
        with ProgressBar("matrix products", len(work), enabled=not as_json) as bar:
            bar.say("opening the device; the first time, it is built")
            measured = session.run(list(work), lambda done: bar.advance(done.name))
    names = list(work.values())
    summary = summarize(measured)
    if as_json:
        typer.echo(json.dumps(to_dict(config, names, measured, summary), indent=2))
    else:
        console = table_console()
        console.print(results_table(names, measured))
        for line in summary_lines(summary):
            console.print(line, soft_wrap=True)
    if summary.wrong:
        raise typer.Exit(1)


def chosen_work(
    dtypes: Sequence[str] | None,
    sets: Sequence[str] | None,
    shapes: Sequence[str] | None,
    *,
    trans_b: bool = False,
) -> dict[tuple[Product, DataType], str]:
    """Return what to measure, with the name of its set ("-" for a shape of the caller).

    All types of a product are together.

    Args:
        dtypes: labels of types; None or "all" for all of them.
        sets: names of sets; None without shapes: all but transposed and attention.
        shapes: texts "MxKxN".
        trans_b: every right operand is stored transposed.

    Raises:
        ValueError: an unknown type or set, or a text that is no shape.
    """
    labels = list(dtypes) if dtypes else [ALL]
    types = list(DataType) if ALL in labels else [DataType.of(label) for label in labels]
    products = choose_products(sets) if sets or not shapes else {}
    for text in shapes or ():
        products.setdefault(Product.parse(text), "-")
    return {
        (replace(product, trans_b=product.trans_b or trans_b), dtype): name
        for product, name in products.items()
        for dtype in types
    }


def to_dict(
    config: str, names: Sequence[str], measured: Sequence[Measured], summary: Summary
) -> dict[str, Any]:
    """Return the results as data for JSON, with the keys `config`, `products` (a list) and `summary`."""
    products: list[Mapping[str, Any]] = [
        {"set": name, **each.to_dict()} for name, each in zip(names, measured, strict=True)
    ]
    return {"config": config, "products": products, "summary": summary.to_dict()}


def results_table(names: Sequence[str], measured: Sequence[Measured]) -> Table:
    """Return a table with a line for each product and type; red where it is below what it should reach."""
    table = Table()
    table.add_column("set")
    table.add_column("product")
    table.add_column("type")
    for name in ("cycles", "MACs", "utilisation", "bound"):
        table.add_column(name, justify="right")
    table.add_column("bound by")
    table.add_column("roofline", justify="right")
    table.add_column("exact")
    for name, each in zip(names, measured, strict=True):
        floor = floor_of(each)
        low = floor is not None and each.roofline is not None and each.roofline < floor
        roofline = shown(each.roofline, ".3f")
        table.add_row(
            name,
            str(each.product),
            each.dtype.label,
            shown(each.cycles, ",d"),
            f"{each.product.macs:,d}",
            shown(each.utilisation, ".3f"),
            f"{each.bound.cycles:,.0f}",
            each.bound.limit,
            f"[red]{roofline}[/]" if low else roofline,
            {None: "-", True: "yes", False: "[bold red]NO[/]"}[each.bit_exact],
        )
    return table


def summary_lines(summary: Summary) -> list[str]:
    """Return the summary in sentences."""
    lines = []
    if summary.means:
        parts = ", ".join(f"{name} {mean:.3f}" for name, mean in summary.means.items())
        lines.append(f"roofline, geometric mean: {parts}")
    if summary.below:
        parts = ", ".join(f"{each.name} {shown(each.roofline, '.3f')}" for each in summary.below)
        lines.append(f"below what they are meant to reach: {parts}")
    if summary.decode:
        lines.append(f"single rows: at least {shown(summary.decode.roofline, '.3f')} ({summary.decode.name})")
    if summary.latency:
        parts = ", ".join(f"{each.name} {shown(each.overhead, '.0f')}" for each in summary.latency)
        lines.append(f"small products, cycles beyond the bound: {parts}")
    if summary.wrong:
        parts = ", ".join(each.name for each in summary.wrong)
        lines.append(f"[bold red]DIFFERS FROM THE FUNCTIONAL MODEL:[/] {parts}")
    return lines
