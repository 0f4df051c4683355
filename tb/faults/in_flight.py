"""Pairs of register writes of which the second is on its way before the first one is answered."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from echo_npu.spec import registers as regs

KINDS: Final = (
    *("clear_error", "soft_reset", "clear_counters", "ring_enable"),
    *("DOORBELL", "RING_TAIL", "IRQ_STATUS", "WATCHDOG"),
)
"""What a write may be: a bit of CONTROL, or a register."""
MOST_LATE: Final = 3
"""Clocks that may lie between the two addresses."""
MOST_IN_RESET: Final = 1
"""Likewise behind a soft reset, which an idle device completes within four clocks."""
_SUBMITTING: Final = frozenset(("DOORBELL", "RING_TAIL"))
_CONTROL: Final = {
    "clear_error": regs.CONTROL_CLEAR_ERROR.mask,
    "soft_reset": regs.CONTROL_SOFT_RESET.mask,
    "clear_counters": regs.CONTROL_CLEAR_COUNTERS.mask,
    "ring_enable": regs.CONTROL_RING_ENABLE.mask,
}


@dataclass(frozen=True, slots=True)
class WritePair:
    """Two writes.

    Attributes:
        first, second: what they are, of KINDS.
        late: clocks between the two addresses.
        in_error: whether the device is in state ERROR before.
        refused: whether a tail among them is one that the device refuses.
    """

    first: str
    second: str
    late: int
    in_error: bool
    refused: bool = False

    @property
    def is_predicted(self) -> bool:
        """Whether the outcome depends on nothing but the order of the writes."""
        if self.first == "soft_reset" and self.late > MOST_IN_RESET:
            return False
        # Outside of ERROR a refusal is raised between two commands, and clear_error must not come before it.
        alone = self.second == "RING_TAIL" and self.first not in _SUBMITTING
        return not self.refused or self.in_error or alone

    @property
    def is_second_ignored(self) -> bool:
        """Whether the second write finds the device in a soft reset, which undoes it."""
        return self.first == "soft_reset" and self.second in (*_SUBMITTING, "ring_enable")


def pairs() -> Iterator[WritePair]:
    """Yield each pair with a predicted outcome, in each distance and state."""
    for first in KINDS:
        for second in KINDS:
            for late in range(MOST_LATE + 1):
                for in_error in (False, True):
                    for refused in (False, True) if "RING_TAIL" in (first, second) else (False,):
                        pair = WritePair(first, second, late, in_error, refused)
                        if pair.is_predicted:
                            yield pair


def drawn(rng: random.Random, *, in_error: bool) -> WritePair:
    """Draw a pair; those that leave the state ERROR, and those that are close, more often than others."""
    while True:
        first = "clear_error" if in_error and rng.random() < 0.4 else rng.choice(KINDS)
        second = rng.choice((*KINDS, *_SUBMITTING))
        late = rng.choice((0, 0, 0, *range(1, MOST_LATE + 1)))
        pair = WritePair(first, second, late, in_error, rng.random() < 0.2)
        if pair.is_predicted:
            return pair


def control(kind: str, *, enabled: bool) -> int:
    """Return the value of CONTROL that sets one bit and leaves the ring enabled or not."""
    return _CONTROL[kind] | regs.CONTROL_RING_ENABLE.put(int(enabled))
