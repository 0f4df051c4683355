"""Claim folders for one process, so that the same work can run twice in one tree."""

import fcntl
import itertools
from pathlib import Path
from typing import IO

_held: dict[Path, IO[str]] = {}


def claim(path: Path) -> bool:
    """Claim `path` until this process ends; return False if another process has it."""
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
    """Claim and return the first free one of `folder`, `folder-2`, `folder-3`, ... It is not created."""
    for number in itertools.count(1):
        candidate = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        if claim(candidate):
            return candidate
    raise AssertionError
