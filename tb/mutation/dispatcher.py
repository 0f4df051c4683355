"""Simulator side of mutation: fork a running simulator for each change.

Starting a simulator and importing everything takes longer than most changes survive, so it is done once. The
first test waits for orders and forks for each. The fork selects the change, which takes effect with the reset
that begins each test. It then puts the order's tests into cocotb's queue and continues as any regression,
with its own log and results, while the parent waits for its end.
"""

import contextlib
import copy
import ctypes
import dataclasses
import gc
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import cocotb
import cocotb.regression

from tb.drivers.registers import CLOCK_NS
from tb.mutation.schemata import SELECTOR_VARIABLE
from tb.testbench import STALLS_VARIABLE

SOCKET_VARIABLE = "ECHO_NPU_MUTATION_SOCKET"
_PR_SET_PDEATHSIG = 1
_IONBF = 2
_POLL_S = 0.005


@dataclasses.dataclass(frozen=True)
class Trial:
    """One test under mutation.

    Attributes:
        test: full name in cocotb.
        stalls: whether memory stalls.
        cycles: device cycles after which it is stopped.
    """

    test: str
    stalls: bool
    cycles: int


@dataclasses.dataclass(frozen=True)
class Order:
    """Run `trials` with change `number` up to the first failure, for at most `seconds` of wall time.

    Log and results go to `folder`.
    """

    number: int
    trials: tuple[Trial, ...]
    seconds: float
    folder: Path


@dataclasses.dataclass(frozen=True)
class TrialAnswer:
    """End of the fork: wall seconds and exit status (negative: signal; None: stopped after its time)."""

    status: int | None
    seconds: float


def _tests(queue: list[Any]) -> dict[str, Any]:
    return {test.fullname: test for test in queue}


def _with_memory(body: Callable[..., Awaitable[None]], stalls: bool) -> Callable[..., Awaitable[None]]:
    async def run(dut: Any, *arguments: Any, **values: Any) -> None:
        os.environ[STALLS_VARIABLE] = "1" if stalls else "0"
        await body(dut, *arguments, **values)

    return run


def _become(order: Order, queue: list[Any], available: Mapping[str, Any]) -> None:
    """Turn the fork into the run of this order."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Verilator's threads do not survive the fork, so leave without waiting for them, and do not buffer
    # output.
    libc.on_exit(libc._exit, None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, _IONBF, 0)
    order.folder.mkdir(parents=True, exist_ok=True)
    log = os.open(order.folder / "simulator.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.environ["COCOTB_RESULTS_FILE"] = str(order.folder / "results.xml")
    os.environ[SELECTOR_VARIABLE] = str(order.number)
    chosen = []
    for trial in order.trials:
        test = copy.copy(available[trial.test])
        test.func = _with_memory(test.func, trial.stalls)
        test.timeout = (trial.cycles * CLOCK_NS, "ns")
        chosen.append(test)
    queue[:] = chosen


def _wait(child: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_POLL_S)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


@cocotb.test(stage=-1)
async def dispatch(dut: Any) -> None:
    """Serve orders until None arrives or the connection closes."""
    queue = cocotb.regression._manager_inst._test_queue
    available = _tests(queue)
    connection = Client(os.environ[SOCKET_VARIABLE], family="AF_UNIX")
    connection.send(sorted(available))
    gc.freeze()  # forks share memory that the collector does not touch
    with contextlib.suppress(EOFError):
        while (order := connection.recv()) is not None:
            started = time.monotonic()
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                connection.close()
                _become(order, queue, available)
                return
            status = _wait(child, order.seconds)
            connection.send(TrialAnswer(status, time.monotonic() - started))
    queue.clear()
