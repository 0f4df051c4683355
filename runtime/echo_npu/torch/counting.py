"""What ran where: counts of every operator, and their cycles while these are asked for."""

from dataclasses import dataclass, field
from typing import Final

NPU: Final = 0
CPU: Final = 1
VIEW: Final = 2
_NAMES: Final = ("npu", "cpu", "view")

counts: dict[str, list[int]] = {}
"""For each operator how often it ran on the NPU, on the CPU, and as a view."""


@dataclass
class Profile:
    """Cycles, bytes and seconds of each operator on one device.

    Attributes:
        enabled: whether launches are measured, which makes each wait for its end.
        rows: (launches, cycles, bytes, seconds) by operator.
    """

    enabled: bool = False
    rows: dict[str, tuple[int, int, int, float]] = field(default_factory=dict)

    def add(self, name: str, cycles: int, nbytes: int, seconds: float) -> None:
        """Include one launch."""
        launches, cycles_before, bytes_before, seconds_before = self.rows.get(name, (0, 0, 0, 0.0))
        self.rows[name] = (
            launches + 1,
            cycles_before + cycles,
            bytes_before + nbytes,
            seconds_before + seconds,
        )


def count(name: str, where: int) -> None:
    """Count one call of an operator."""
    entry = counts.get(name)
    if entry is None:
        entry = counts[name] = [0, 0, 0]
    entry[where] += 1


def op_counts() -> dict[str, dict[str, int]]:
    """Return how often each operator ran: `{op: {"npu": n, "cpu": n, "view": n}}`."""
    return {name: dict(zip(_NAMES, entry, strict=True)) for name, entry in sorted(counts.items())}


def reset_op_counts() -> None:
    """Forget all counts."""
    counts.clear()
