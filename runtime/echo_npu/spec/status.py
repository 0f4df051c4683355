"""What the device reports about itself: its state, its error codes."""

from dataclasses import dataclass
from typing import Final

from echo_npu.spec.contract import ErrorCode, State
from echo_npu.spec.registers import IRQ_STATUS_DONE, IRQ_STATUS_ERROR, IRQ_STATUS_MASK

__all__ = ["ALL_IRQS", "END_IRQS", "ErrorCode", "NpuStatus", "State", "error_name"]

END_IRQS: Final = IRQ_STATUS_DONE.mask | IRQ_STATUS_ERROR.mask
"""The interrupts that say that the device has stopped working: it is done, or in error."""
ALL_IRQS: Final = IRQ_STATUS_MASK
"""Every interrupt: bits of IRQ_STATUS and of IRQ_ENABLE."""


def error_name(code: int) -> str:
    """The name of an error code; "code 77" for one that this version does not know."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"code {code}"


@dataclass(frozen=True, slots=True)
class NpuStatus:
    """A snapshot: state, error code, and the 64-bit cycle counter (0 where a backend has no cycles)."""

    state: State
    error_code: int
    cycle_count: int

    def __str__(self) -> str:
        return f"state {self.state.name}, error {error_name(self.error_code)}, cycle {self.cycle_count}"
