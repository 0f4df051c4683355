"""The command `echo-npu selftest`."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

import echo_npu
from echo_npu.backends.board.options import CLOCK_MHZ
from echo_npu.cli.support import AsJson, Backend, Config, given, reported, table_console
from echo_npu.selftest import SelfTest, run_selftest
from echo_sim.numerals import Real, Whole, option

_PLACE = Whole(0, (1 << 63) - 1)
"""An offset or an address. The backend knows of what it must be a multiple."""


def selftest_command(
    backend: Backend = None,
    config: Config = "default",
    device: Annotated[
        str | None, typer.Option(help="Device file or PCI address. Default: ECHO_NPU_DEVICE (fpga, asic).")
    ] = None,
    transport: Annotated[
        str | None, typer.Option(help="xdma or uio. Default: ECHO_NPU_TRANSPORT, else xdma (fpga).")
    ] = None,
    registers: Annotated[
        int | None,
        typer.Option(
            help="Offset of the register window in the BAR or in the first UIO map (fpga, asic).",
            **option(_PLACE),
        ),
    ] = None,
    memory_base: Annotated[
        int | None,
        typer.Option(help="Where device memory begins for the DMA engines (fpga, xdma).", **option(_PLACE)),
    ] = None,
    memory_file: Annotated[
        str | None,
        typer.Option(help="The u-dma-buf that is device memory. Default: /dev/udmabuf0 (fpga, uio)."),
    ] = None,
    bar: Annotated[
        int | None, typer.Option(help="The number of the BAR with the registers (asic).", **option(Whole()))
    ] = None,
    iova: Annotated[
        int | None,
        typer.Option(help="Where the device finds its memory on its bus (asic).", **option(_PLACE)),
    ] = None,
    clock_mhz: Annotated[
        float | None, typer.Option(help="The NPU's clock (fpga, asic).", **option(Real(*CLOCK_MHZ)))
    ] = None,
    march: Annotated[
        int, typer.Option(help="MiB of each memory region to march over.", **option(Whole(1, 256)))
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Try a device: registers, memory, interrupts, each engine, and its speed.

    It is the first thing to run on a new board. Exit status: 0 all right, 1 a check failed or the device
    cannot be opened, 2 wrong arguments.
    """
    with (
        reported(),
        echo_npu.open("cmodel", config=config) as twin,
        echo_npu.open(
            backend,
            config=config,
            **given(
                device=device,
                transport=transport,
                registers=registers,
                memory_base=memory_base,
                memory_file=memory_file,
                bar=bar,
                iova=iova,
                clock_mhz=clock_mhz,
            ),
        ) as npu,
        Progress(
            SpinnerColumn(), TextColumn("{task.description}"), console=Console(stderr=True), transient=True
        ) as progress,
    ):
        task = progress.add_task("starting")

        def show(name: str) -> None:
            progress.update(task, description=name)

        done = run_selftest(npu, twin, march_bytes=march << 20, on_start=show)
    if as_json:
        typer.echo(json.dumps({**asdict(done), "passed": done.passed}))
    else:
        _print(done)
    if not done.passed:
        raise typer.Exit(1)


def _print(done: SelfTest) -> None:
    table = Table(title=f"{done.backend}, configuration {done.config}")
    for name in ("check", "result", "what", "s"):
        table.add_column(name, justify="right" if name == "s" else "left")
    for check in done.checks:
        result = "passed" if check.passed else "[bold red]FAILED[/]"
        table.add_row(check.name, result, escape(check.detail), f"{check.seconds:.2f}")
    for speed in done.speeds:
        table.add_row(speed.name, f"{speed.value:,.1f}", speed.unit, "")
    table_console().print(table)
