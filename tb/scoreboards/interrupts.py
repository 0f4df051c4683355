"""Check of the interrupt when the device is idle."""

from echo_npu.spec import registers as regs
from tb.scoreboards.errors import ScoreboardError

DONE, ERROR, COMMAND = (
    regs.IRQ_STATUS_DONE.mask,
    regs.IRQ_STATUS_ERROR.mask,
    regs.IRQ_STATUS_COMMAND.mask,
)


class InterruptMismatchError(ScoreboardError):
    """The interrupt output or a cause differs from what the commands imply."""


def check_interrupt(
    status: int, enable: int, line: bool, *, model: int, causes: int, cleared: bool, failed: bool
) -> None:
    """Compare IRQ_STATUS, IRQ_ENABLE and the output of an idle device.

    The model has no clock: it is done after each command, but the device only when nothing waits. So `done`
    is not judged in an error state. If the host cleared causes while commands ran, each cause must have been
    raised, but may be gone.

    Args:
        status, enable, line: registers and output of the device.
        model: IRQ_STATUS of the functional model.
        causes: all causes that the model raised since both were 0.
        cleared: whether the host wrote IRQ_STATUS in the meantime.
        failed: whether the device is in state ERROR.

    Raises InterruptMismatchError.
    """
    shown = f"IRQ_STATUS 0x{status:x}, IRQ_ENABLE 0x{enable:x}, output {int(line)}"
    if line != bool(status & enable):
        raise InterruptMismatchError(f"{shown}: the output is not what the registers say")
    if status & ~causes:
        raise InterruptMismatchError(f"{shown}: nothing raised 0x{status & ~causes:x}")
    judged = ERROR | COMMAND if failed else DONE | ERROR | COMMAND
    if not cleared and (status ^ model) & judged:
        raise InterruptMismatchError(f"{shown}: the functional model's causes are 0x{model:x}")
