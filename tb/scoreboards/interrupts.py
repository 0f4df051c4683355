"""Checks the interrupt when the device has nothing to do."""

from __future__ import annotations

from echo_npu.spec import registers as regs
from tb.scoreboards.errors import ScoreboardError

DONE, ERROR, COMMAND = (
    regs.IRQ_STATUS_DONE.mask,
    regs.IRQ_STATUS_ERROR.mask,
    regs.IRQ_STATUS_COMMAND.mask,
)


class InterruptMismatchError(ScoreboardError):
    """The interrupt output or a cause is not what the commands make it."""


def check_interrupt(
    status: int, enable: int, line: bool, *, model: int, causes: int, cleared: bool, failed: bool
) -> None:
    """Compare IRQ_STATUS, IRQ_ENABLE and the output of a device that has nothing left to do.

    The model has no clock: it is done after each command, and the device when nothing else waits. So of a
    device that ends in an error `done` is not judged; and where the host cleared causes while commands ran,
    each cause must be one that came up, but need not be there any more.

    Args:
        status, enable, line: of the device.
        model: IRQ_STATUS of the functional model.
        causes: all that the model raised since both were 0.
        cleared: the host wrote IRQ_STATUS in the meantime.
        failed: the device is in state ERROR.

    Raises:
        InterruptMismatchError
    """
    shown = f"IRQ_STATUS 0x{status:x}, IRQ_ENABLE 0x{enable:x}, output {int(line)}"
    if line != bool(status & enable):
        raise InterruptMismatchError(f"{shown}: the output is not what the registers say")
    if status & ~causes:
        raise InterruptMismatchError(f"{shown}: nothing raised 0x{status & ~causes:x}")
    judged = ERROR | COMMAND if failed else DONE | ERROR | COMMAND
    if not cleared and (status ^ model) & judged:
        raise InterruptMismatchError(f"{shown}: the functional model's causes are 0x{model:x}")
