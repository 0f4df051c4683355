"""What the commands of `echo-npu` share: options, and how they report errors."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

import echo_npu
from echo_sim.messages import sentence
from echo_sim.numerals import Real, Whole, option

Backend = Annotated[
    str | None,
    typer.Option("--backend", help="One that `info` lists. Default: ECHO_NPU_BACKEND, else rtlmodel."),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", help="Simulations at a time (rtlfarm).", **option(Whole(1)))
]
Executor = Annotated[
    str | None,
    typer.Option("--executor", help="Dask scheduler whose workers simulate, tcp://host:port (rtlfarm)."),
]
Config = Annotated[
    str,
    typer.Option(
        "--config", help="Hardware configuration: a name in rtl/configs, random-<seed>, or a TOML file."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Latency = Annotated[
    int | None, typer.Option("--latency", help="Memory latency, cycles (rtlmodel).", **option(Whole()))
]
Bandwidth = Annotated[
    float | None,
    typer.Option(
        "--bandwidth", help="Memory bandwidth, bytes a cycle each way (rtlmodel).", **option(Real())
    ),
]
Stalls = Annotated[
    float | None,
    typer.Option(
        "--stalls",
        help="Chance 0..0.9 that a memory channel stalls in a cycle (rtlmodel).",
        **option(Real()),
    ),
]

Trace = Annotated[
    str | None,
    typer.Option("--trace", help="Write a timeline for Perfetto to this file (rtlmodel); .gz compresses it."),
]


@contextlib.contextmanager
def reported(*more: type[Exception]) -> Iterator[None]:
    """Report an error as one message and an exit status: 2 for wrong arguments, 1 for a failure.

    Args:
        more: exceptions that mean wrong arguments, beside ValueError and TypeError.
    """
    expected: tuple[type[Exception], ...] = (ValueError, TypeError, echo_npu.NpuError, *more)
    try:
        yield
    except expected as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(sentence(error))}", soft_wrap=True)
        usage = not isinstance(error, echo_npu.NpuError) or isinstance(error, echo_npu.BackendError)
        raise typer.Exit(2 if usage else 1) from None


def read_text(file: Path) -> str:
    """Return the text of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no UTF-8.
    """
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is no UTF-8 text: byte {error.start} begins no character") from None


def given(**options: Any) -> dict[str, Any]:
    """Return the options that were given; a backend refuses those that it does not have."""
    return {name: value for name, value in options.items() if value is not None}


def table_console() -> Console:
    """Return a console on standard output that is wide enough for a table if it is piped."""
    console = Console()
    return console if console.is_terminal else Console(width=140)


def shown(value: float | None, form: str) -> str:
    """Format a figure for a table; a dash for None."""
    return "-" if value is None else format(value, form)
