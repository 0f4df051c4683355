"""Interrupts: what raises them, what hides them, what clears them."""

from cocotb.triggers import Timer

from echo_npu import registers as regs
from echo_npu.backends.base import ReadReg, WriteReg
from echo_npu.packets import Flags, NpuCommandPacket, Opcode
from echo_npu.status import State
from tb.bench import NpuBench, npu_test
from tb.drivers.commands import Path
from tb.drivers.registers import CLOCK_NS

DONE, ERROR, COMMAND = regs.IRQ_STATUS_DONE.mask, regs.IRQ_STATUS_ERROR.mask, regs.IRQ_STATUS_COMMAND.mask
ALL = DONE | ERROR | COMMAND

NOP = NpuCommandPacket(Opcode.NOP)
NOP_IRQ = NpuCommandPacket(Opcode.NOP, Flags.IRQ)
BAD = NpuCommandPacket(0x77)


async def settle(bench: NpuBench) -> int:
    """IRQ_STATUS once the device has nothing to do."""
    for _ in range(100):
        status, pending = await bench.registers.run([ReadReg(regs.STATUS), ReadReg(regs.IRQ_STATUS)])
        if regs.STATUS_STATE.get(status) != State.BUSY:
            return pending
        await Timer(20 * CLOCK_NS, "ns")
    raise AssertionError(f"the device does not finish: {await bench.commands.describe()}")


@npu_test(via=["window", "ring"])
async def test_done(bench: NpuBench, via: Path) -> None:
    """`done` rises when the last of the submitted work is finished, and stays until it is cleared."""
    await bench.registers.write(regs.IRQ_ENABLE, DONE)
    await bench.commands.submit([NOP] * 3, via)
    assert await bench.registers.wait_irq(5000)
    assert await settle(bench) == DONE
    assert bench.registers.irq
    await bench.registers.write(regs.IRQ_STATUS, DONE)
    assert not bench.registers.irq
    assert await bench.registers.read(regs.IRQ_STATUS) == 0
    await bench.check()


@npu_test()
async def test_error(bench: NpuBench) -> None:
    """`error` rises with the ERROR state, without `done`; clearing the error does not clear the interrupt."""
    await bench.registers.write(regs.IRQ_ENABLE, ALL)
    await bench.commands.submit([BAD])
    assert await bench.registers.wait_irq(5000)
    assert await settle(bench) == ERROR
    bench.monitor.sync()
    bench.scoreboard.check(bench.memory.shared, await bench.state())
    await bench.commands.clear_error()
    assert await bench.registers.read(regs.IRQ_STATUS) == ERROR
    await bench.registers.write(regs.IRQ_STATUS, ERROR)
    assert not bench.registers.irq
    await bench.probe()


@npu_test(via=["window", "ring"])
async def test_command(bench: NpuBench, via: Path) -> None:
    """`command` rises when a command with the flag retires: here before the long copy behind it is done."""
    nbytes = 20_000
    copy = NpuCommandPacket(Opcode.MEMCPY, 0, bench.alloc(nbytes), 0, bench.destination(nbytes), m=nbytes)
    await bench.registers.write(regs.IRQ_ENABLE, COMMAND)
    await bench.commands.submit([NOP, NOP_IRQ, copy], via)
    assert await bench.registers.wait_irq(100_000)
    status, pending = await bench.registers.run([ReadReg(regs.STATUS), ReadReg(regs.IRQ_STATUS)])
    assert pending & COMMAND  # the window is slow enough for `done` of the first two
    assert regs.STATUS_STATE.get(status) == State.BUSY
    await bench.check()


@npu_test(opcode=[Opcode.NOP, Opcode.SYNC, Opcode.MEMCPY, Opcode.ADD_TENSOR, Opcode.MATMUL])
async def test_flag_of_every_opcode(bench: NpuBench, opcode: int) -> None:
    """Every opcode knows the flag."""
    a, b, dst = bench.place(bench.floats(4)), bench.place(bench.floats(4)), bench.destination(16)
    await bench.commands.submit(
        [NpuCommandPacket(opcode, Flags.IRQ, a, b, dst, m=2, k=2, n=2 if opcode == 1 else 0)]
    )
    assert await settle(bench) == DONE | COMMAND
    await bench.check()


@npu_test(enabled=[0, DONE, ERROR, COMMAND, DONE | ERROR])
async def test_enable(bench: NpuBench, enabled: int) -> None:
    """The output follows the enabled bits only; a bit enabled later shows at once."""
    await bench.registers.run([WriteReg(regs.IRQ_ENABLE, enabled), WriteReg(regs.IRQ_STATUS, ALL)])
    await bench.commands.submit([NOP_IRQ])
    assert await settle(bench) == DONE | COMMAND
    assert bench.registers.irq == bool(enabled & (DONE | COMMAND))
    await bench.registers.write(regs.IRQ_ENABLE, ALL)
    assert bench.registers.irq
    await bench.registers.write(regs.IRQ_STATUS, DONE)
    assert bench.registers.irq, "command is still pending"
    await bench.registers.write(regs.IRQ_STATUS, COMMAND)
    assert not bench.registers.irq
    await bench.check()
