"""Steps that limit what commands may do, and take the limits back."""

from __future__ import annotations

from typing import Final

from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import Region
from tb.stimulus.steps import HostWrite, RegisterWrite, Step

GUARD: Final = Region("guard", 0x1FFF_0000, 0x1_0000)
"""The protected range, where there is one: the ring, and memory around it that no legal command touches."""
BARRIER: Final = 0x0310_0000
"""The host writes here between two groups of steps; nobody else does."""


def _alone(*writes: RegisterWrite) -> list[Step]:
    """Register writes that are done before anything behind them begins."""
    return [*writes, HostWrite(BARRIER, bytes(4), alone=True)]


def guarded() -> list[Step]:
    """From here on GUARD is protected."""
    base, size = RegisterWrite(regs.GUARD_BASE, GUARD.base), RegisterWrite(regs.GUARD_SIZE, GUARD.size)
    return _alone(base, size)


def watched(cycles: int) -> list[Step]:
    """From here on no command may take more than so many cycles; 0: it may take any number."""
    return _alone(RegisterWrite(regs.WATCHDOG, cycles))
