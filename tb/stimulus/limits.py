"""Steps that set and lift limits on commands."""

from typing import Final

from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import ACTIVATION, Region
from tb.stimulus.steps import HostWrite, RegisterWrite, Step

GUARD: Final = Region("guard", ACTIVATION.end - 0x1_0000, 0x1_0000)
"""Protected range, if any: the ring and its surroundings, which no legal command touches."""
BARRIER: Final = 0x0310_0000
"""Only the host writes here, to separate groups of steps."""


def _alone(*writes: RegisterWrite) -> list[Step]:
    """Return register writes that take effect before any later step."""
    return [*writes, HostWrite(BARRIER, bytes(4), alone=True)]


def guarded() -> list[Step]:
    """Return the steps that protect GUARD from now on."""
    base, size = RegisterWrite(regs.GUARD_BASE, GUARD.base), RegisterWrite(regs.GUARD_SIZE, GUARD.size)
    return _alone(base, size)


def watched(cycles: int) -> list[Step]:
    """Return the steps that limit each later command to `cycles`; 0 for no limit."""
    return _alone(RegisterWrite(regs.WATCHDOG, cycles))
