"""List and remove the builds that are kept."""

import contextlib
import dataclasses
import os
import re
import shutil
from pathlib import Path
from typing import Final

from echo_sim.places import SIM_BUILD

_FOLDERS: Final = {
    "netlists": "gates of configurations",
    "objects": "compiled parts of simulators",
    "runs": "directories in which simulators run",
    "zig": "what the C++ compiler of ziglang keeps",
}
"""What folders beside the simulators hold. A name may end with a number: runs-2."""


@dataclasses.dataclass(frozen=True)
class Kept:
    """A folder of the cache: its name, its size in bytes, and whether it is a finished simulator."""

    name: str
    nbytes: int
    simulator: bool

    @property
    def label(self) -> str:
        """What it holds, in words; empty for a folder of others, or of a build that was interrupted."""
        return "simulator" if self.simulator else _FOLDERS.get(re.sub(r"-\d+$", "", self.name), "")


def kept() -> list[Kept]:
    """Return the folders of the cache, sorted by name."""
    if not SIM_BUILD.is_dir():
        return []
    return [
        Kept(path.name, _bytes(path), (path / "fingerprint").is_file())
        for path in sorted(SIM_BUILD.iterdir())
        if path.is_dir()
    ]


def clear() -> int:
    """Remove every folder of the cache and return the bytes freed. Running simulators go on running.

    Raises OSError: a folder cannot be removed.
    """
    freed = 0
    for entry in kept():
        shutil.rmtree(SIM_BUILD / entry.name)
        freed += entry.nbytes
    return freed


def _bytes(folder: Path) -> int:
    """Return the bytes of its files. A simulator that runs may remove some of them meanwhile."""
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                total += Path(parent, name).lstat().st_size
    return total
