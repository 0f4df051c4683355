"""What was built and kept: how much it is, and how it is removed."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from echo_sim.places import SIM_BUILD


@dataclasses.dataclass(frozen=True)
class Kept:
    """A folder of the cache: its name, its size in bytes, and whether it is a finished simulator."""

    name: str
    nbytes: int
    simulator: bool


def kept() -> list[Kept]:
    """The folders of the cache, by name."""
    if not SIM_BUILD.is_dir():
        return []
    return [
        Kept(path.name, _bytes(path), (path / "fingerprint").is_file())
        for path in sorted(SIM_BUILD.iterdir())
        if path.is_dir()
    ]


def clear() -> int:
    """Remove every folder of the cache; the bytes that were freed. What runs from it goes on running."""
    freed = 0
    for entry in kept():
        shutil.rmtree(SIM_BUILD / entry.name, ignore_errors=True)
        freed += entry.nbytes
    return freed


def _bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
