"""Interrupts: what raises, masks and clears them."""

from cocotb.triggers import Timer

from echo_npu.commands.packets import Flags, NpuCommandPacket, Opcode
from echo_npu.register_ops import ReadReg, WriteReg
from echo_npu.spec import registers as regs
from echo_npu.spec.status import State
from tb.drivers.commands import Path
from tb.drivers.registers import CLOCK_NS
from tb.scoreboards.interrupts import COMMAND, DONE, ERROR
from tb.testbench import NpuTestbench, npu_test

ALL = DONE | ERROR | COMMAND

NOP = NpuCommandPacket(Opcode.NOP)
NOP_IRQ = NpuCommandPacket(Opcode.NOP, Flags.IRQ)
BAD = NpuCommandPacket(0x77)


async def settle(tb: NpuTestbench) -> int:
    """Wait until the device is idle and return IRQ_STATUS."""
    for _ in range(100):
        status, pending = await tb.registers.run([ReadReg(regs.STATUS), ReadReg(regs.IRQ_STATUS)])
        if regs.STATUS_STATE.get(status) != State.BUSY:
            return pending
        await Timer(20 * CLOCK_NS, "ns")
    raise AssertionError(f"the device does not finish: {await tb.commands.describe()}")


@npu_test(via=["window", "ring"])
async def test_done(tb: NpuTestbench, via: Path) -> None:
    """`done` rises when the last of the submitted work is finished, and stays until it is cleared."""
    await tb.registers.write(regs.IRQ_ENABLE, DONE)
    await tb.commands.submit([NOP] * 3, via)
    assert await tb.registers.wait_irq(5000)
    assert await settle(tb) == DONE
    assert tb.registers.irq
    await tb.registers.write(regs.IRQ_STATUS, DONE)
    assert not tb.registers.irq
    assert await tb.registers.read(regs.IRQ_STATUS) == 0
    await tb.check()


@npu_test()
async def test_error(tb: NpuTestbench) -> None:
    """`error` rises with the ERROR state, without `done`; clearing the error does not clear the interrupt."""
    await tb.registers.write(regs.IRQ_ENABLE, ALL)
    await tb.commands.submit([BAD])
    assert await tb.registers.wait_irq(5000)
    assert await settle(tb) == ERROR
    tb.monitor.sync()
    tb.scoreboard.check(tb.memory.shared, await tb.state())
    await tb.commands.clear_error()
    assert await tb.registers.read(regs.IRQ_STATUS) == ERROR
    await tb.registers.write(regs.IRQ_STATUS, ERROR)
    assert not tb.registers.irq
    await tb.probe()


@npu_test(via=["window", "ring"])
async def test_command(tb: NpuTestbench, via: Path) -> None:
    """`command` rises when a command with the flag retires: here, before the long copy after it is done."""
    nbytes = 20_000
    copy = NpuCommandPacket(Opcode.MEMCPY, 0, tb.alloc(nbytes), 0, tb.destination(nbytes), m=nbytes)
    await tb.registers.write(regs.IRQ_ENABLE, COMMAND)
    await tb.commands.submit([NOP, NOP_IRQ, copy], via)
    assert await tb.registers.wait_irq(100_000)
    status, pending = await tb.registers.run([ReadReg(regs.STATUS), ReadReg(regs.IRQ_STATUS)])
    assert pending & COMMAND  # the window is slow enough for `done` of the first two
    assert regs.STATUS_STATE.get(status) == State.BUSY
    await tb.check()


@npu_test(opcode=[Opcode.NOP, Opcode.SYNC, Opcode.MEMCPY, Opcode.ADD_TENSOR, Opcode.MATMUL])
async def test_flag_of_every_opcode(tb: NpuTestbench, opcode: int) -> None:
    """Every opcode accepts the flag."""
    a, b, dst = tb.place(tb.floats(4)), tb.place(tb.floats(4)), tb.destination(16)
    await tb.commands.submit(
        [NpuCommandPacket(opcode, Flags.IRQ, a, b, dst, m=2, k=2, n=2 if opcode == 1 else 0)]
    )
    assert await settle(tb) == DONE | COMMAND
    await tb.check()


@npu_test(enabled=[0, DONE, ERROR, COMMAND, DONE | ERROR])
async def test_enable(tb: NpuTestbench, enabled: int) -> None:
    """The output follows the enabled bits only; enabling a pending bit raises it at once."""
    await tb.registers.run([WriteReg(regs.IRQ_ENABLE, enabled), WriteReg(regs.IRQ_STATUS, ALL)])
    await tb.commands.submit([NOP_IRQ])
    assert await settle(tb) == DONE | COMMAND
    assert tb.registers.irq == bool(enabled & (DONE | COMMAND))
    await tb.registers.write(regs.IRQ_ENABLE, ALL)
    assert tb.registers.irq
    await tb.registers.write(regs.IRQ_STATUS, DONE)
    assert tb.registers.irq, "command is still pending"
    await tb.registers.write(regs.IRQ_STATUS, COMMAND)
    assert not tb.registers.irq
    await tb.check()
