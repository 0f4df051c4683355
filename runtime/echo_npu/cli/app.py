"""The command `echo-npu`.

Exit status: 0 all right, 1 a result differs or the device failed, 2 wrong arguments.
"""

import importlib.metadata
import json
import os
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

import echo_npu
from echo_npu.benchmark.measure import MatmulReport, check_size, measure_matmul
from echo_npu.cli import benchmark as bench_cli
from echo_npu.cli import chat as chat_cli
from echo_npu.cli import models as models_cli
from echo_npu.cli import perplexity as perplexity_cli
from echo_npu.cli import selftest as selftest_cli
from echo_npu.cli import serve as serve_cli
from echo_npu.cli import shard as shard_cli
from echo_npu.cli import simulation as simulation_cli
from echo_npu.cli import tune as tune_cli
from echo_npu.cli import vector as vector_cli
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
from echo_npu.model.memory import memory_map_of
from echo_npu.spec.data_types import DataType
from echo_sim.config import load_config
from echo_sim.numerals import SEED, Whole, option
from echo_sim.standard_error import lose_errors

app = typer.Typer(
    help="Run things on the ECHO NPU: in RTL simulation, on its functional model, on hardware.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


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
        text = ".".join(map(str, value)) if name == "version" else str(value)
        table.add_row(name.replace("_", " "), ", ".join(value) if name == "data_types" else text)
    for name, region in facts["memory"].items():
        table.add_row(f"{name} memory", f"0x{region['base']:08x}, {region['size'] >> 20} MiB")
    for group in ("card", "simulator"):
        for name, value in facts.get(group, {}).items():
            if value is not None:
                table.add_row(f"{group}: {name.replace('_', ' ')}", escape(_shown_fact(name, value)))
    table_console().print(table)


def _shown_fact(name: str, value: object) -> str:
    return f"0x{value:08x}" if name.endswith("address") and isinstance(value, int) else str(value)


@app.command(context_settings={"ignore_unknown_options": True})  # so that -3 is read as an illegal dimension
def matmul(
    m: Annotated[int, typer.Argument(help="Rows of a and c.", **option(Whole()))],
    k: Annotated[int, typer.Argument(help="Columns of a, rows of b.", **option(Whole()))],
    n: Annotated[int, typer.Argument(help="Columns of b and c.", **option(Whole()))],
    dtype: Annotated[str, typer.Option(help="Type of the operands: fp32, bf16, fp16 or int8.")] = "fp32",
    out_dtype: Annotated[
        str, typer.Option(help="Type of the result: fp32, that of the operands, or of int8 int32.")
    ] = "fp32",
    backend: Backend = None,
    config: Config = "default",
    trans_a: Annotated[bool, typer.Option("--trans-a", help="a is stored transposed, k x m.")] = False,
    trans_b: Annotated[bool, typer.Option("--trans-b", help="b is stored transposed, n x k.")] = False,
    seed: Annotated[
        int, typer.Option(help="Of the matrices and of the memory's stalls.", **option(SEED))
    ] = 1,
    latency: Latency = None,
    bandwidth: Bandwidth = None,
    stalls: Stalls = None,
    waves: Annotated[bool, typer.Option("--waves", help="Write waves/matmul-MxKxN.vcd (rtlmodel).")] = False,
    trace: Trace = None,
    as_json: AsJson = False,
) -> None:
    """Multiply random matrices, m x k by k x n, and check the result c = a @ b.

    cycles: busy cycles of the command. utilisation: macs / (cycles * peak), with peak = array rows * array
    columns, four times that for int8.

    roofline: bound / cycles, with bound = max(macs / peak, bytes of a and b * 8 / data width, bytes of c * 8
    / data width).

    bit_exact: equal to the product as docs/numerics.md defines it, to the bit; else exit status is 1.

    max_rel_error: the largest |c - c64| / (|a| @ |b|), c64 being the product in float64.
    """
    with reported():
        options = given(latency=latency, bandwidth=bandwidth, stalls=stalls, trace=trace)
        if waves:
            options["waves"] = f"matmul-{m}x{k}x{n}"
        if (backend or echo_npu.get_backend_name()) == "rtlmodel":
            options["seed"] = seed
        kinds = {kind.label: kind for kind in DataType}
        if dtype in kinds:  # before a device is built or opened; the device refuses a dtype that it lacks
            memory = memory_map_of(load_config(config))
            check_size(m, k, n, dtype=kinds[dtype], out_bytes=1, memory=memory)
        with echo_npu.open(backend, config=config, **options) as device:
            report = measure_matmul(
                device,
                m,
                k,
                n,
                dtype=dtype,
                out_dtype=out_dtype,
                trans_a=trans_a,
                trans_b=trans_b,
                seed=seed,
            )
    if as_json:
        typer.echo(json.dumps(asdict(report)))
    else:
        _print_report(report)
    if not report.bit_exact:
        raise typer.Exit(1)


def _print_report(r: MatmulReport) -> None:
    table = Table()
    names = "m|k|n|cycles|macs|utilisation|roofline|bit exact|max rel error|wall s|cycles/s"
    for name in names.split("|"):
        table.add_column(name, justify="right")
    table.add_row(
        str(r.m),
        str(r.k),
        str(r.n),
        shown(r.cycles, ",d"),
        f"{r.macs:,d}",
        shown(r.utilisation, ".3f"),
        shown(r.roofline, ".3f"),
        "yes" if r.bit_exact else "[bold red]NO[/]",
        f"{r.max_rel_error:.2e}",
        f"{r.wall_s:.3f}",
        shown(r.cycles_per_s, ",.0f"),
    )
    table_console().print(table)


app.add_typer(bench_cli.bench, name="bench")
app.add_typer(shard_cli.shard, name="shard")
app.command("layer")(models_cli.layer_command)
app.command("model")(models_cli.model_command)
app.command("chat")(chat_cli.chat_command)
app.command("perplexity")(perplexity_cli.perplexity_command)
app.command("lenet")(models_cli.lenet_command)
app.command("selftest")(selftest_cli.selftest_command)
app.command("serve")(serve_cli.serve_command)
app.command("asm")(vector_cli.asm_command)
app.command("disasm")(vector_cli.disasm_command)
app.command()(simulation_cli.doctor)
app.command()(simulation_cli.cache)
app.command("tune")(tune_cli.tune_command)
app.command()(simulation_cli.replay)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"echo-npu {importlib.metadata.version('echo-npu')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run things on the ECHO NPU: in RTL simulation, on its functional model, on hardware."""


def main() -> None:
    """Entry point of `echo-npu`."""
    lose_errors()
    if sys.stdout is None:  # closed when Python started
        sys.exit("error: standard output is closed")
    try:
        app()
        sys.stdout.flush()
    except OSError as error:  # what the commands do not report themselves: standard output is full or closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is flushed at exit
        sys.exit(f"error: standard output: {error.strerror}")
