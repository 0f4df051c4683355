"""The interrupt: that it comes, that it ends, and that it can be masked."""

from typing import Final

from echo_npu.commands.builders import nop_packet
from echo_npu.device import Device
from echo_npu.register_ops import WriteReg
from echo_npu.selftest.records import SelfTestError
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ALL_IRQS, END_IRQS

_LONG: Final = 1_000_000
_SHORT: Final = 10_000
_ROUNDS: Final = 20


def check_interrupts(npu: Device) -> str:
    """Wait for the interrupt of each of some commands; then mask it."""
    backend = npu.backend
    for number in range(_ROUNDS):
        backend.run([WriteReg(regs.IRQ_STATUS, ALL_IRQS)])
        if backend.wait_irq(0):
            raise SelfTestError(f"the interrupt is high although IRQ_STATUS was cleared (round {number})")
        npu.submit(nop_packet())
        if not backend.wait_irq(_LONG):
            raise SelfTestError(f"no interrupt within {_LONG} cycles of a doorbell (round {number})")
    npu.wait()
    try:
        backend.run([WriteReg(regs.IRQ_ENABLE, 0), WriteReg(regs.IRQ_STATUS, ALL_IRQS)])
        npu.submit(nop_packet())
        if backend.wait_irq(_SHORT):
            raise SelfTestError("the interrupt is high although IRQ_ENABLE is 0")
        if not backend.read_reg(regs.IRQ_STATUS) & END_IRQS:
            raise SelfTestError("IRQ_STATUS does not tell that the command has finished")
    finally:
        backend.run([WriteReg(regs.IRQ_ENABLE, END_IRQS)])
    if not backend.wait_irq(_SHORT):
        raise SelfTestError("the interrupt stays low although a bit of IRQ_STATUS is set and enabled")
    npu.wait()
    return f"{_ROUNDS} of {_ROUNDS} came; masked and unmasked"
