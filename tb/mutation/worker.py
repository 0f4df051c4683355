"""A simulator that judges changes one after the other."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from echo_sim.designs import Design
from echo_sim.run import RUNS, SimulationError, TestOutcome, launch, read_results
from tb.mutation.broken_rules import broken_rule
from tb.mutation.dispatcher import SOCKET_VARIABLE, Order, Trial, TrialAnswer
from tb.suites import suites
from tb.uvm.suite import REQUESTS_VARIABLE

START_TIMEOUT_S = 300.0
POLL_S = 1.0
NOT_OF_THE_RTL = ("testbench",)
"""Suites that test the testbench itself, which say nothing about the RTL."""


@dataclasses.dataclass(frozen=True)
class TrialVerdict:
    """Outcome of a change under some trials.

    Attributes:
        trial: the one that found it; None if all passed.
        how: message of that trial.
        seconds: wall time.
        passed: cycles of the passed trials, in order.
    """

    trial: Trial | None
    how: str
    seconds: float
    passed: tuple[int, ...] = ()

    @property
    def killed(self) -> bool:
        """Whether a trial found it."""
        return bool(self.how)


class Worker:
    """A simulator of `design` that waits for orders; a context manager.

    Args:
        name: unique among concurrent runs.
        requests: file with the pyuvm programs that also serve as tests.

    Raises SimulationError: it does not start. BuildError, ToolMissingError: as `echo_sim.build.build`.
    """

    def __init__(self, design: Design, config: str, name: str, seed: int, requests: Path) -> None:
        self._folder = RUNS / name
        # A socket's path must be short.
        self._sockets = Path(tempfile.mkdtemp(prefix="npu-mutation-"))
        address = str(self._sockets / "orders")
        regression = [suite.module for suite in suites().values() if suite.name not in NOT_OF_THE_RTL]
        modules = ["tb.mutation.dispatcher", *regression, "tb.uvm.suite"]
        try:
            with Listener(address, family="AF_UNIX") as listener:
                self._child = launch(
                    design,
                    test_module=modules,
                    name=name,
                    env={
                        "ECHO_NPU_CONFIG": config,
                        SOCKET_VARIABLE: address,
                        REQUESTS_VARIABLE: str(requests),
                        "COCOTB_MAX_FAILURES": "1",
                    },
                    seed=seed,
                    quiet=True,
                )
                self._connection = self._accepted(listener, name)
            self.tests: list[str] = self._connection.recv()
        except BaseException:
            shutil.rmtree(self._sockets, ignore_errors=True)
            raise

    def _accepted(self, listener: Listener, name: str) -> Connection:
        """Wait for the simulator's connection. Raise SimulationError if it ends or takes too long."""
        listener._listener._socket.settimeout(POLL_S)  # type: ignore[attr-defined]
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._child.poll() is None:
            with contextlib.suppress(TimeoutError):
                return listener.accept()
        tail = self._child.log_tail()
        self._child.stop()
        raise SimulationError(f"{name} did not ask for orders\n{tail}")

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._child.stop()
        shutil.rmtree(self._sockets, ignore_errors=True)

    def judge(self, number: int, trials: Sequence[Trial], seconds: float) -> TrialVerdict:
        """Run trials with change `number` up to the first that fails.

        Raises SimulationError: the simulator has ended.
        """
        folder = self._folder / f"{number}"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            self._connection.send(Order(number, tuple(trials), seconds, folder))
            answer: TrialAnswer = self._connection.recv()
        except (EOFError, OSError):
            raise SimulationError(f"the simulator has ended\n{self._child.log_tail()}") from None
        verdict = _verdict(trials, answer, folder)
        shutil.rmtree(folder, ignore_errors=True)
        return verdict


def _verdict(trials: Sequence[Trial], answer: TrialAnswer, folder: Path) -> TrialVerdict:
    results, log = folder / "results.xml", folder / "simulator.log"
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    # The file is sorted by suite, so order is kept only among runs of one test.
    by_test: dict[str, deque[TestOutcome]] = defaultdict(deque)
    for outcome in read_results(results) if results.exists() else []:
        by_test[f"{outcome.module}.{outcome.name}"].append(outcome)
    passed: list[int] = []
    for trial in trials:
        if not by_test[trial.test]:
            break
        outcome = by_test[trial.test].popleft()
        if not outcome.passed:
            how = broken_rule(text) or outcome.message or "failed"
            return TrialVerdict(trial, how, answer.seconds, tuple(passed))
        passed.append(outcome.cycles)
    if answer.status == 0 and len(passed) == len(trials):
        return TrialVerdict(None, "", answer.seconds, tuple(passed))
    # The fork died or was stopped within a test.
    begun = len(re.findall(r"running tests\.\S+ \(\d+/\d+\)|running tb\.uvm\.\S+ \(\d+/\d+\)", text))
    trial = trials[max(begun - 1, 0)]
    if answer.status is None:
        how = f"no end after {answer.seconds:.0f} s"
    else:
        complaints = re.findall(r"%Error: (?:\S+:\d+: )?(.*)", text)
        how = (
            broken_rule(text) or complaints[0] if complaints else f"the simulator ended with {answer.status}"
        )
    return TrialVerdict(trial, how, answer.seconds)
