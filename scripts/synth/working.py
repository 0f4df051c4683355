"""Folders to run tools in: commands beside each other share none, and what a killed one leaves is removed."""

import contextlib
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from echo_sim.claims import own_folder

_owned: dict[Path, Path] = {}
_lock = threading.Lock()


@contextlib.contextmanager
def working_folder(work: Path) -> Iterator[Path]:
    """Make an empty folder below `work` that nobody else has, for the length of a `with` statement.

    It lies in a folder that belongs to this process. What a killed process left in that one is removed first.
    """
    with _lock:
        owned = _owned.get(work)
        if owned is None:
            owned = _owned[work] = own_folder(work / "working")
            shutil.rmtree(owned, ignore_errors=True)
        owned.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=owned, ignore_cleanup_errors=True) as name:
        yield Path(name)
