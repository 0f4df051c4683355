"""Cycle numbers that are committed, so that they do not creep: a JSON file, by configuration and workload.

A change that moves them on purpose updates the file in the same breath: run what measures them with
ECHO_NPU_UPDATE=1.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

UPDATE_VARIABLE = "ECHO_NPU_UPDATE"


@dataclass(frozen=True, slots=True)
class CommittedCycles:
    """The numbers in one file.

    Attributes:
        path: of the file.
        tolerance: how far, as a part of the committed number, a measured one may be from it.
    """

    path: Path
    tolerance: float = 0.0

    def load(self, config: str) -> dict[str, int]:
        """The numbers of a configuration, by workload; none for one that the file does not have."""
        numbers: dict[str, dict[str, int]] = json.loads(self.path.read_text(encoding="utf-8"))
        return numbers.get(config, {})

    def compare(self, config: str, measured: Mapping[str, int]) -> None:
        """Compare with the committed numbers; with ECHO_NPU_UPDATE set, commit these.

        Raises:
            AssertionError: a number has moved, or is not in the file.
        """
        if os.environ.get(UPDATE_VARIABLE):
            self.update(config, measured)
        moved = self.moved(config, measured)
        assert not moved, (
            f"cycles moved, (committed, measured): {moved}; on purpose? Then update {self.path.name} with "
            f"{UPDATE_VARIABLE}=1"
        )

    def moved(self, config: str, measured: Mapping[str, int]) -> dict[str, tuple[int | None, int]]:
        """(committed, measured) of each workload that is off by more than the tolerance, either way."""
        committed = self.load(config)
        return {
            name: (committed.get(name), cycles)
            for name, cycles in measured.items()
            if name not in committed or abs(cycles - committed[name]) > self.tolerance * committed[name]
        }

    def update(self, config: str, measured: Mapping[str, int], *, replace: bool = False) -> None:
        """Store numbers; several processes may do so at once.

        Args:
            replace: forget all other workloads of the configuration.
        """
        with open(self.path, "a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            numbers = json.loads(text) if text else {}
            numbers[config] = {**({} if replace else numbers.get(config, {})), **measured}
            file.truncate(0)
            file.write(json.dumps(numbers, indent=2, sort_keys=True) + "\n")
