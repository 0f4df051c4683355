"""Delivers every register write that the device accepted, in bus order."""

from collections import Counter
from collections.abc import Callable

from echo_npu.spec import registers as regs
from echo_sim.native import ObservedWrite, observed_writes, record_writes

Listener = Callable[[list[ObservedWrite]], None]


class RegisterMonitor:
    """Forward the writes that the simulator recorded natively, whatever their master.

    `sync()` delivers all writes since the last call; Python is not involved in between.
    """

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.doorbells: Counter[str] = Counter()
        """Doorbells seen, by "window" and "ring"."""
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
        """Discard the writes seen so far, to test the scoreboard."""
        observed_writes()
