"""The commands `echo-npu doctor`, `echo-npu cache` and `echo-npu replay`: what simulations need, what they
keep, and one of their chunks alone."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from echo_npu.backends.rtlfarm.replay import replay_chunk
from echo_npu.cli.support import AsJson, reported, table_console
from echo_npu.errors import NpuHostError
from echo_sim import cache as kept_builds
from echo_sim.doctor import findings
from echo_sim.places import SIM_BUILD


def doctor(as_json: AsJson = False) -> None:
    """Say what building and running the RTL needs, what of it is missing, and how to get that.

    Exit status 1 if anything is missing.
    """
    found = findings()
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], indent=2))
    else:
        table = Table(show_header=False, box=None)
        for each in found:
            table.add_row("ok" if each.found else "[bold red]MISSING[/]", each.name, escape(each.detail))
        table_console().print(table)
    if not all(each.found for each in found):
        raise typer.Exit(1)


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all of it.")] = False, as_json: AsJson = False
) -> None:
    """Show the simulators that were built and kept, or remove them."""
    with reported():
        try:
            entries = kept_builds.kept()
            freed = kept_builds.clear() if clear else 0
        except OSError as error:
            raise NpuHostError(f"access to the builds in {SIM_BUILD}", error) from None
    if as_json:
        facts = {"folder": str(SIM_BUILD), "kept": [asdict(each) for each in entries], "freed": freed}
        typer.echo(json.dumps(facts, indent=2))
        return
    table = Table(show_header=False, box=None)
    for each in entries:
        table.add_row(each.name, f"{each.nbytes / 1e6:,.1f} MB", each.label)
    table_console().print(table)
    total = freed if clear else sum(each.nbytes for each in entries)
    typer.echo(f"{'removed' if clear else 'kept'} {total / 1e6:,.1f} MB in {SIM_BUILD}")


def replay(
    file: Annotated[Path, typer.Argument(help="A chunk that a run on rtlfarm has left.")],
    waves: Annotated[bool, typer.Option("--waves", help="Write a waveform, waves/<file>.vcd.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a chunk alone on the RTL of this tree, and compare it with the functional model.

    The file is a pickle, which can run code as it is read: take it only from somebody you trust.

    Exit status: 0 nothing differs, 1 something does, 2 no such file.
    """
    with reported(OSError):
        found = replay_chunk(file, waves=waves)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
    else:
        typer.echo(str(found))
    if found.differs:
        raise typer.Exit(1)
