"""Trace lines for people, chosen by ECHO_NPU_DEBUG_LEVEL.

    1  what ran where: [NPU] operations, [CPU] operations of the host
    2  also every copy: [COPY]
    3  also every view and every packet: [VIEW], [NPU]

Lines go to standard error, coloured unless NO_COLOR is set.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Final

_COLOURS: Final = {"NPU": "32", "CPU": "33", "COPY": "36", "VIEW": "35"}
_LEVELS: Final = {"NPU": 1, "CPU": 1, "COPY": 2, "VIEW": 3}
_silent: ContextVar[bool] = ContextVar("silent", default=False)


def level() -> int:
    """Return the level in force, 0 to 3; ValueError if ECHO_NPU_DEBUG_LEVEL is anything else."""
    if "ECHO_NPU_DEBUG_LEVEL" not in os.environ:  # this is asked often, and `get` of what is missing is slow
        return 0
    text = os.environ.get("ECHO_NPU_DEBUG_LEVEL", "0") or "0"
    if text not in ("0", "1", "2", "3"):
        raise ValueError(f"ECHO_NPU_DEBUG_LEVEL is {text!r}; it is one of 0, 1, 2, 3")
    return int(text)


def trace(tag: str, message: str, *, at: int | None = None) -> None:
    """Print `[tag] message` if the level is at least `at` (by default the tag's own level)."""
    if _silent.get() or level() < (_LEVELS[tag] if at is None else at):
        return
    head = f"[{tag}]"
    if not os.environ.get("NO_COLOR"):
        head = f"\x1b[{_COLOURS[tag]}m{head}\x1b[0m"
    print(f"{head} {message}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Print nothing inside the `with` block, for a second device that repeats what the first one does."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def npu(message: str) -> None:
    """Print an operation that ran on the device."""
    trace("NPU", message)


def packet(message: str) -> None:
    """Print a packet that was submitted."""
    trace("NPU", message, at=3)


def cpu(message: str) -> None:
    """Print an operation that ran on the host."""
    trace("CPU", message)


def copy(message: str) -> None:
    """Print a copy of bytes."""
    trace("COPY", message)


def view(message: str) -> None:
    """Print a view: a new shape over the same bytes."""
    trace("VIEW", message)
