"""Keep open files until a card is closed, and out of the processes that are forked meanwhile."""

import contextlib
import os
from contextlib import ExitStack

from echo_npu.backends.board.files import SystemFiles

_KEPT: set[tuple[SystemFiles, int]] = set()


def kept(files: SystemFiles, fd: int, stack: ExitStack) -> int:
    """Return a descriptor, which `stack` closes at its end, and a forked child at its start.

    A lock, and the one use of a VFIO group, end with the last descriptor of an open file. A child that had
    one would keep them after its parent has ended.
    """
    stack.callback(_close, files, fd)
    _KEPT.add((files, fd))
    return fd


def _close(files: SystemFiles, fd: int) -> None:
    _KEPT.discard((files, fd))
    files.close(fd)


def _leave_to_parent() -> None:
    for files, fd in _KEPT:
        with contextlib.suppress(OSError):  # the parent has it still
            files.close(fd)
    _KEPT.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
