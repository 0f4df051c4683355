"""Folders that one process has to itself while it lives, so that the same work can run twice in one tree."""

from __future__ import annotations

import fcntl
import itertools
from pathlib import Path
from typing import IO

_held: dict[Path, IO[str]] = {}


def claim(path: Path) -> bool:
    """Take `path` for this process unless another one has it; the kernel gives it back at its end."""
    if path in _held:
        return True
    lock = path.with_name(f".{path.name}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    file = open(lock, "w", encoding="utf-8")  # noqa: SIM115  (held while the process lives)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return False
    _held[path] = file
    return True


def own_folder(folder: Path) -> Path:
    """`folder`, or `folder-2`, `folder-3`, ...: the first that no other process has claimed. Not created."""
    for number in itertools.count(1):
        candidate = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        if claim(candidate):
            return candidate
    raise AssertionError
