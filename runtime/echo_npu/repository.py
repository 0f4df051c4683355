"""Where the hardware sources are: configurations for every backend, and the simulation of rtlmodel."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Protocol

from echo_npu.errors import RepositoryError


class HardwareConfig(Protocol):
    """A named hardware configuration (tb/npu_config.py reads and validates it)."""

    @property
    def name(self) -> str: ...
    @property
    def array_rows(self) -> int: ...
    @property
    def array_cols(self) -> int: ...
    @property
    def vector_lanes(self) -> int: ...
    @property
    def vector_length(self) -> int: ...
    @property
    def row_elements(self) -> int: ...
    @property
    def program_words(self) -> int: ...
    @property
    def data_width(self) -> int: ...
    @property
    def block_m(self) -> int: ...
    @property
    def block_k_tiles(self) -> int: ...
    @property
    def block_n_tiles(self) -> int: ...
    @property
    def acc_entries(self) -> int: ...
    @property
    def queue_depth(self) -> int: ...


def find_repository() -> Path:
    """The directory that holds rtl/ and tb/: ECHO_NPU_HOME, or where this package is installed from.

    Raises:
        RepositoryError: neither has them.
    """
    home = os.environ.get("ECHO_NPU_HOME")
    if home:
        root = Path(home).resolve()
        if not _is_repository(root):
            raise RepositoryError(f"ECHO_NPU_HOME is {home!r}, which has no rtl/configs and tb/npu_config.py")
        return root
    root = Path(__file__).resolve().parents[2]
    if not _is_repository(root):
        raise RepositoryError(
            f"the NPU's sources (rtl/, tb/) are not at {root}: install the package from its repository with "
            "`pip install -e .`, or set ECHO_NPU_HOME to the repository"
        )
    return root


def _is_repository(root: Path) -> bool:
    return (root / "rtl" / "configs").is_dir() and (root / "tb" / "npu_config.py").is_file()


def import_testbench(module: str) -> ModuleType:
    """The module `tb.<module>` of the repository; RepositoryError if `tb` is another package."""
    root = find_repository()
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    tb = importlib.import_module("tb")
    places = [Path(place).resolve() for place in tb.__path__]
    if root / "tb" not in places:
        raise RepositoryError(
            f"the package `tb` was already imported from {places[0]}, not from {root / 'tb'}"
        )
    return importlib.import_module(f"tb.{module}")


def load_config(name: str) -> HardwareConfig:
    """The configuration called `name`.

    Raises:
        ValueError: there is none; the message lists those that exist.
        RepositoryError: the hardware sources are not there.
    """
    config: HardwareConfig = import_testbench("npu_config").load_config(name)
    return config
