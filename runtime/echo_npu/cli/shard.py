"""The commands `echo-npu shard linear` and `echo-npu shard layer`."""

import contextlib
import json
from collections.abc import Iterator
from typing import Annotated, Literal

import typer

import echo_npu
from echo_npu.cli.support import AsJson, Backend, Config, reported, table_console
from echo_npu.device import Device
from echo_npu.devices import MOST_DEVICES
from echo_npu.language.share import check_shares
from echo_npu.sharding.report import SMOLLM2, TINY, ShardReport, report_layer, report_linear, usual_format
from echo_sim.numerals import SEED, Whole, option

shard = typer.Typer(help="Divide a layer among several NPUs, and compare with one.", no_args_is_help=True)

Devices = Annotated[int, typer.Option(help="How many NPUs.", **option(Whole(1, MOST_DEVICES)))]
Seed = Annotated[int, typer.Option(help="Of weights and tokens.", **option(SEED))]

LAYERS = {"tiny": TINY, "smollm2": SMOLLM2}


@shard.command("linear")
def linear_command(
    m: Annotated[int, typer.Argument(help="Rows.", **option(Whole(1)))],
    k: Annotated[int, typer.Argument(help="Columns of the rows.", **option(Whole(1)))],
    n: Annotated[int, typer.Argument(help="Columns of the result, divided.", **option(Whole(1)))],
    devices: Devices = 2,
    seed: Seed = 1,
    backend: Backend = None,
    config: Config = "default",
    as_json: AsJson = False,
) -> None:
    """Multiply m rows by a k x n matrix of random float32 whose columns are divided.

    Exit status: 0 all right, 1 a bit differs or a device failed, 2 wrong arguments.
    """
    with reported():
        if n % devices:
            raise ValueError(f"n is {n}, which {devices} devices cannot divide equally")
        with _opened(devices, backend, config) as opened:
            report = report_linear(opened, m, k, n, seed)
    _show(report, as_json=as_json)


@shard.command("layer")
def layer_command(
    name: Annotated[str, typer.Argument(help=f"Shape of the layer: {', '.join(LAYERS)}.")] = "tiny",
    devices: Devices = 2,
    tokens: Annotated[int, typer.Option(help="At once.", **option(Whole(1)))] = 1,
    position: Annotated[int, typer.Option(help="Tokens in the cache before.", **option(Whole()))] = 0,
    weights: Annotated[
        Literal["q4_1", "q4_0", "q8_0", "half"] | None,
        typer.Option(help="How the matrices are held. Default: q4_1 where the hardware has it, else half."),
    ] = None,
    seed: Seed = 1,
    backend: Backend = None,
    config: Config = "default",
    as_json: AsJson = False,
) -> None:
    """Bring tokens through a llama layer with random weights whose heads and columns are divided.

    Exit status: 0 all right, 1 a bit differs or a device failed, 2 wrong arguments.
    """
    with reported():
        if name not in LAYERS:
            raise ValueError(f"there is no layer {name!r}; there are {', '.join(LAYERS)}")
        check_shares(LAYERS[name], devices)
        with _opened(devices, backend, config) as opened:
            block_format = usual_format(opened[0]) if weights is None else weights
            report = report_layer(
                opened,
                name,
                LAYERS[name],
                tokens=tokens,
                position=position,
                block_format=None if block_format == "half" else block_format,
                seed=seed,
            )
    _show(report, as_json=as_json)


@contextlib.contextmanager
def _opened(devices: int, backend: str | None, config: str) -> Iterator[list[Device]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(echo_npu.open(backend, config=config)) for _ in range(devices)]


def _show(report: ShardReport, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2))
    else:
        table_console().print(report.render())
    if not report.bit_exact:
        raise typer.Exit(1)
