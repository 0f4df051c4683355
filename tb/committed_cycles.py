"""Committed cycle counts, which keep performance from degrading unnoticed.

A JSON file maps configuration and workload to a number of cycles. Set ECHO_NPU_UPDATE=1 and rerun the
measurement to commit an intended change.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

UPDATE_VARIABLE = "ECHO_NPU_UPDATE"


@dataclass(frozen=True, slots=True)
class CommittedCycles:
    """Cycle counts in the JSON file `path`.

    `tolerance` is the greatest accepted deviation, as a fraction of the committed number.
    """

    path: Path
    tolerance: float = 0.0

    def load(self, config: str) -> dict[str, int]:
        """Return the cycles of a configuration by workload; empty if the file lacks the configuration."""
        numbers: dict[str, dict[str, int]] = json.loads(self.path.read_text(encoding="utf-8"))
        return numbers.get(config, {})

    def compare(self, config: str, measured: Mapping[str, int]) -> None:
        """Compare measured cycles with the committed ones; with ECHO_NPU_UPDATE set, commit them first.

        Raises AssertionError: a number moved, or is not in the file.
        """
        if os.environ.get(UPDATE_VARIABLE):
            self.update(config, measured)
        moved = self.moved(config, measured)
        assert not moved, (
            f"cycles moved, (committed, measured): {moved}; on purpose? Then update {self.path.name} with "
            f"{UPDATE_VARIABLE}=1"
        )

    def moved(self, config: str, measured: Mapping[str, int]) -> dict[str, tuple[int | None, int]]:
        """Return (committed, measured) of each workload outside the tolerance, in either direction."""
        committed = self.load(config)
        return {
            name: (committed.get(name), cycles)
            for name, cycles in measured.items()
            if name not in committed or abs(cycles - committed[name]) > self.tolerance * committed[name]
        }

    def update(self, config: str, measured: Mapping[str, int], *, replace: bool = False) -> None:
        """Store numbers; safe to call from several processes. `replace` drops the configuration's other
        workloads."""
        with open(self.path, "a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            numbers = json.loads(text) if text else {}
            numbers[config] = {**({} if replace else numbers.get(config, {})), **measured}
            file.truncate(0)
            file.write(json.dumps(numbers, indent=2, sort_keys=True) + "\n")
