"""The command `echo-npu serve`."""

import logging
import os
import signal
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import echo_npu
from echo_npu import debug
from echo_npu.backends import get_backend_class
from echo_npu.backends.rtlfarm.options import FarmOptions
from echo_npu.cli.support import Backend, Config, Executor, Jobs, given, reported
from echo_npu.language.network import RING_SLOTS
from echo_npu.server.places import socket_path
from echo_npu.server.protocol import MOST_LENT
from echo_npu.server.server import DeviceServer
from echo_sim.config import load_config
from echo_sim.numerals import Real, Whole, option


def serve_command(
    backend: Backend = None,
    config: Config = "default",
    jobs: Jobs = None,
    executor: Executor = None,
    devices: Annotated[int, typer.Option(help="How many NPUs.", **option(Whole(1, MOST_LENT)))] = 1,
    path: Annotated[
        Path | None,
        typer.Option("--socket", help="Where to listen. Default: ECHO_NPU_SOCKET, else the user's place."),
    ] = None,
    idle: Annotated[
        float | None, typer.Option(help="End after so many seconds without a client.", **option(Real(0)))
    ] = None,
) -> None:
    """Lend simulated NPUs to other programs of this user: the C library, llama.cpp.

    Runs until Ctrl-C or SIGTERM, and then finishes the graphs under way; a second signal ends it at once. A
    device is opened for its first client.

    Exit status: 0 after a regular end, 1 a server listens there already, a second signal came or the RTL
    differs (rtlfarm), 2 wrong arguments.
    """
    with reported():
        level = logging.INFO if debug.level() else logging.WARNING
        logging.basicConfig(level=level, format="echo-npu serve: %(message)s")
        kind, options = get_backend_class(backend), given(jobs=jobs, executor=executor)
        chosen = kind.name
        if not kind.shares_memory:
            raise TypeError(f"the backend {chosen} cannot be lent: the host does not share its memory")
        if options and chosen != "rtlfarm":
            raise TypeError(f"the backend {chosen} has no option {next(iter(options))!r}")
        FarmOptions(**options)
        load_config(config)
        make = partial(echo_npu.open, backend, config, ring_slots=RING_SLOTS, **options)
        servers: list[DeviceServer] = []
        stop = _signalled(servers)
        try:
            server = DeviceServer(path or socket_path(), [make] * devices, idle_seconds=idle, stop=stop)
        except OSError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(1) from None
        servers.append(server)
    typer.echo(f"listening at {server.path}")
    server.serve()
    if server.differs:
        raise typer.Exit(1)


def _signalled(servers: Sequence[DeviceServer]) -> threading.Event:
    """Return an event that the first signal sets; the second one ends the process, without a socket left.

    The handlers are there before the socket is, so no signal leaves it behind.
    """
    stop = threading.Event()

    def end(*_: object) -> None:
        if stop.is_set():
            for server in servers:  # they may not have seen the first signal yet
                server.remove_socket()
            os._exit(1)  # threads still compute; simulators end with this process
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return stop
