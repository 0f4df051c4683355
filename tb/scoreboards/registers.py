"""Check of register reads while the device works."""

from collections.abc import Callable

from echo_npu.spec import registers as regs
from echo_npu.spec.status import State
from tb.scoreboards.errors import ScoreboardError

CONSTANT = tuple(
    register.offset
    for name, register in regs.REGISTERS.items()
    if name in ("ID", "VERSION") or name.startswith("CAP_")
)
STORED = (
    regs.CONTROL,
    regs.IRQ_ENABLE,
    regs.WATCHDOG,
    regs.AXI_PROT,
    regs.GUARD_BASE,
    regs.GUARD_SIZE,
    regs.RING_BASE,
    regs.RING_SIZE,
    regs.RING_TAIL,
    *range(regs.CMD_WINDOW, regs.CMD_WINDOW + 64, 4),
)
"""Registers that only the host's writes change."""


class RegisterMismatchError(ScoreboardError):
    """A register read disagrees with the functional model."""


class RegisterScoreboard:
    """Compares reads with `expected(offset)`, the model's register after all earlier writes.

    Constants and registers that only the host writes must be equal. The model has no clock and has retired
    everything submitted, so RETIRED must lie between its last value and the model's. STATUS may be BUSY or
    DONE, but ERROR only if the model's is. A cause in IRQ_STATUS stays until the host clears it. Other
    registers depend on time and are not judged.
    """

    def __init__(self, expected: Callable[[int], int]) -> None:
        self._expected = expected
        self.restart()
        self.checked = 0
        """Number of reads judged."""

    def restart(self) -> None:
        """Record that the device was reset."""
        self._retired = 0
        self._causes = 0

    def cleared(self, causes: int) -> None:
        """Record that the host cleared these causes in IRQ_STATUS."""
        self._causes &= ~causes

    def check(self, offset: int, value: int) -> None:
        """Judge the value read at `offset`. Raises RegisterMismatchError."""
        if offset in CONSTANT or offset in STORED:
            good = value == self._expected(offset)
        elif offset == regs.RETIRED:
            good = self._retired <= value <= self._expected(offset)
            self._retired = value
        elif offset == regs.STATUS:
            failed = regs.STATUS_STATE.get(self._expected(offset)) == State.ERROR
            good = failed or regs.STATUS_STATE.get(value) != State.ERROR
        elif offset == regs.IRQ_STATUS:
            good = not self._causes & ~value
            self._causes = value
        else:
            return
        if not good:
            raise RegisterMismatchError(
                f"register 0x{offset:03x}: device 0x{value:x}, functional model 0x{self._expected(offset):x}"
            )
        self.checked += 1
