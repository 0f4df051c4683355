"""Hands every register write that the device accepted to whoever wants to know, in the order of the bus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from echo_npu.spec import registers as regs
from echo_sim.native import ObservedWrite, observed_writes, record_writes

Listener = Callable[[list[ObservedWrite]], None]


class RegisterMonitor:
    """Takes the writes that the testbench recorded natively, whoever their master was.

    `sync()` delivers what happened since the last call; nothing wakes Python in between.
    """

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.doorbells: Counter[str] = Counter()
        """How often work was announced: "window", "ring"."""
        record_writes()

    def sync(self) -> None:
        """Deliver the writes seen so far."""
        writes = observed_writes()
        for write in writes:
            if write.offset == regs.DOORBELL:
                self.doorbells["window"] += 1
            elif write.offset == regs.RING_TAIL:
                self.doorbells["ring"] += 1
        if writes:
            self.listener(writes)

    def drop(self) -> None:
        """Lose the writes seen so far: for tests of the scoreboard."""
        observed_writes()
