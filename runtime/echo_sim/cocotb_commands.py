"""Get the commands with which cocotb's runner builds and starts a simulator, without executing them."""

import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import cocotb_tools.runner


@dataclasses.dataclass(frozen=True)
class Planned:
    """Commands in order, and the environment that they run in."""

    commands: list[list[str]]
    environment: dict[str, str]


class _PlannedSignal(Exception):  # noqa: N818  (not an error)
    """Leaves cocotb's runner once it has made its commands."""


class _PlanningRunner(cocotb_tools.runner.Verilator):
    """cocotb's Verilator runner, except that it hands its commands over instead of executing them."""

    planned: Planned

    def _execute(self, cmds: Sequence[Sequence[str]], cwd: object) -> None:
        self.planned = Planned([[str(word) for word in command] for command in cmds], dict(self.env))
        raise _PlannedSignal


_environment_lock = threading.Lock()


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Change os.environ for cocotb's runner, which also reads WAVES, GUI and pytest's variables."""
    with _environment_lock:
        saved = dict(os.environ)
        try:
            for name in (
                "WAVES",
                "GUI",
                "PYTEST_CURRENT_TEST",
                "MAKEFLAGS",
                "MFLAGS",
                "MAKELEVEL",
                "COCOTB_TEST_FILTER",
            ):
                os.environ.pop(name, None)
            os.environ.update(changes)
            yield
        finally:
            os.environ.clear()
            os.environ.update(saved)


def plan(changes: Mapping[str, str], method: Literal["build", "test"], **arguments: Any) -> Planned:
    """Return what `method` of cocotb's runner would execute with these changes of the environment."""
    with _environment(changes):
        runner = _PlanningRunner()
        with contextlib.suppress(_PlannedSignal):
            getattr(runner, method)(**arguments)
    return runner.planned
