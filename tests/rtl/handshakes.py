"""Handshakes that a testbench advances clock by clock, together with a model."""

import random
from collections import deque
from collections.abc import Iterable
from typing import Any

from tests.rtl.stimulus import BEHIND, CHANCES


class HandshakeSource:
    """Offer values one after another; what is offered stays until it is taken.

    A value is the concatenation of the signals `data`, the first one highest.

    Attributes: values (not yet taken), chance (of the next value being there in a clock).
    """

    def __init__(self, dut: Any, valid: str, ready: str, *data: str) -> None:
        self.values: deque[int] = deque()
        self.chance = 1.0
        self._valid, self._ready, *self._data = (getattr(dut, name) for name in (valid, ready, *data))
        self._offering = False

    @property
    def offering(self) -> bool:
        """Whether a value is offered at the coming clock edge, or was at the one just passed."""
        return self._offering

    def drive(self) -> None:
        """Choose the inputs of the coming clock edge."""
        if not self._offering:
            self._offering = bool(self.values) and random.random() < self.chance
        self._valid.value = int(self._offering)
        value = self.values[0] if self._offering else random.getrandbits(sum(map(len, self._data)))
        for signal in reversed(self._data):
            signal.value = value & (1 << len(signal)) - 1
            value >>= len(signal)

    def taken(self) -> int | None:
        """Return the value that was taken at the clock edge just passed, if one was."""
        if not (self._offering and self._ready.value):
            return None
        self._offering = False
        return self.values.popleft()

    def withdraw(self) -> None:
        """Forget all values, for a reset."""
        self.values.clear()
        self._offering = False


class Ready:
    """Accept with a chance in each clock.

    Attributes: chance, behind (only behind a clock in which something was valid and was not taken).
    """

    def __init__(self, dut: Any, valid: str, ready: str, data: Iterable[str]) -> None:
        self.chance = 1.0
        self.behind = False
        self._valid, self._ready = getattr(dut, valid), getattr(dut, ready)
        self._data = [getattr(dut, name) for name in data]
        self._room = False

    def drive(self, *, allowed: bool = True) -> None:
        """Choose the input of the coming clock edge."""
        waits = self.behind and not (self._valid.value and not self._room)
        self._room = allowed and not waits and random.random() < self.chance
        self._ready.value = int(self._room)

    def took(self) -> tuple[int, ...] | None:
        """Return the values that were taken at the clock edge just passed, if any were."""
        if not (self._room and self._valid.value):
            return None
        return tuple(int(signal.value) for signal in self._data)


def vary(*sides: HandshakeSource | Ready) -> None:
    """Draw a pace for each side of a handshake."""
    for side in sides:
        side.chance = random.choice((*CHANCES, 0.02))
        if isinstance(side, Ready):
            side.behind = random.random() < BEHIND
