"""The ring in device memory: commands that write to it, slots whose fetch is slow, tails out of order."""

from collections.abc import Sequence

import numpy as np
from cocotb.triggers import Timer

from echo_npu.commands.packets import (
    PACKET_BYTES,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
    Packet,
    packet_bytes,
)
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ErrorCode, State
from tb.drivers.commands import Path
from tb.drivers.registers import CLOCK_NS
from tb.testbench import DEFAULT_TIMING, RING_BASE, RING_SLOTS, NpuTestbench, npu_test

EXTENSION_TIMEOUT = 1 << 16


def nop() -> NpuCommandPacket:
    return NpuCommandPacket(Opcode.NOP)


def copy(tb: NpuTestbench, nbytes: int = 64) -> NpuCommandPacket:
    """Return a copy of fresh random bytes to a fresh place."""
    source = tb.place(tb.rng.integers(0, 256, nbytes, dtype=np.uint8), "weight")
    return NpuCommandPacket(Opcode.MEMCPY, 0, source, 0, tb.destination(nbytes), m=nbytes)


def overwrite(tb: NpuTestbench, slot: int, packets: Sequence[Packet]) -> NpuCommandPacket:
    """Return a copy of packets to the slots of the ring from number `slot` on."""
    raw = b"".join(map(packet_bytes, packets))
    source = tb.place(np.frombuffer(raw, dtype=np.uint8), "weight")
    return NpuCommandPacket(Opcode.MEMCPY, 0, source, 0, RING_BASE + slot * PACKET_BYTES, m=len(raw))


def extended(packet: NpuCommandPacket) -> list[Packet]:
    """Return a MEMCPY with an extension of zeros and defaults."""
    fields = (packet.src1_addr, packet.src2_addr, packet.dst_addr, packet.param)
    return [NpuCommandPacket(packet.opcode, packet.flags | Flags.EXT, *fields), ExtensionPacket()]


async def _move_tail(tb: NpuTestbench, slot: int) -> None:
    """Make the ring continue at `slot`."""
    head = await tb.registers.read(regs.RING_HEAD)
    count = (slot - head) % RING_SLOTS
    if count:
        assert await tb.run([nop()] * count, "ring") == State.DONE


@npu_test(between=["nothing", "sync", "copy"])
async def test_a_command_overwrites_a_later_slot(tb: NpuTestbench, between: str) -> None:
    """A slot's content when all commands before it have run is executed, fetched ahead or not."""
    for distance in range(1, 14):
        await _move_tail(tb, tb.random.randrange(RING_SLOTS))
        at = await tb.registers.read(regs.RING_HEAD)
        filler = {"nothing": [], "sync": [NpuCommandPacket(Opcode.SYNC)], "copy": [copy(tb)]}[between]
        behind: list[Packet] = [*filler, *(nop() for _ in range(distance))]
        slot = (at + len(behind)) % RING_SLOTS
        first = overwrite(tb, slot, [copy(tb)])
        # The old packet would be an error.
        program: list[Packet] = [first, *behind[:-1], NpuCommandPacket(0x42), nop()]
        assert await tb.run(program, "ring") == State.DONE


@npu_test()
async def test_a_command_of_the_window_overwrites_the_ring(tb: NpuTestbench) -> None:
    """The window's command comes first, so the ring runs what that command wrote, however late."""
    for delay in (1, 4, 20, 60, 150, 400):
        at = await tb.registers.read(regs.RING_HEAD)
        raw = b"".join(map(packet_bytes, (nop(), NpuCommandPacket(0x42))))
        tb.memory.write(RING_BASE + at * PACKET_BYTES, np.frombuffer(raw, dtype=np.uint8))
        await tb.commands.submit([copy(tb, 3000), overwrite(tb, at + 1, [copy(tb)])], "window")
        await Timer(delay * CLOCK_NS, "ns")
        await tb.registers.write(regs.RING_TAIL, at + 2)
        tb.commands.ring_moved(at + 2)
        assert await tb.check() == State.DONE


@npu_test(base=[0x0, 0x1000_0000, 0x1FFF_0000, 0xFFFF_FFC0])
async def test_a_command_overwrites_a_slot_of_a_ring_whose_registers_have_changed(
    tb: NpuTestbench, base: int
) -> None:
    """The ring is where it was at its last doorbell until it is empty, also for what commands overwrite."""
    for size in (2, 65535):
        await _move_tail(tb, 0)
        tb.dram.configure(
            {**DEFAULT_TIMING, "read_latency": 400}
        )  # the registers change before a command starts
        program: list[Packet] = [overwrite(tb, 2, [copy(tb)]), nop(), NpuCommandPacket(0x42), nop()]
        await tb.commands.submit(program, "ring")
        await tb.registers.write(regs.RING_BASE, base)
        await tb.registers.write(regs.RING_SIZE, size)
        assert await tb.commands.wait(100_000) == State.DONE
        tb.dram.configure(DEFAULT_TIMING)
        await tb.registers.write(regs.RING_BASE, RING_BASE)
        await tb.registers.write(regs.RING_SIZE, RING_SLOTS)
        assert await tb.check() == State.DONE


@npu_test(below=[64, 128, 4096])
async def test_a_copy_that_begins_below_the_ring(tb: NpuTestbench, below: int) -> None:
    """A destination that begins before the ring and reaches into it counts as a write to the ring."""
    await _move_tail(tb, RING_SLOTS - 2)
    raw = bytes(below) + copy(tb).pack() * 2
    source = tb.place(np.frombuffer(raw, dtype=np.uint8), "weight")
    change = NpuCommandPacket(Opcode.MEMCPY, 0, source, 0, RING_BASE - below, m=len(raw))
    # The old packets at the ring's beginning would be errors.
    program: list[Packet] = [change, nop(), NpuCommandPacket(0x42), NpuCommandPacket(0x42)]
    assert await tb.run(program, "ring") == State.DONE


@npu_test()
async def test_waiting_for_extensions_does_not_add_up(tb: NpuTestbench) -> None:
    """Each extension of each command gets the whole waiting time."""
    for _ in range(3):
        head, extension = extended(copy(tb))
        await tb.commands.submit([head], "window")
        await Timer((EXTENSION_TIMEOUT // 2 + 3000) * CLOCK_NS, "ns")
        await tb.commands.submit([extension], "window")
        assert await tb.check() == State.DONE


@npu_test()
async def test_a_slow_fetch_is_no_missing_extension(tb: NpuTestbench) -> None:
    """A submitted extension arrives, however long memory takes: only one that the host owes times out."""
    await _move_tail(tb, RING_SLOTS - 1)  # so that the extension is a fetch of its own
    packets = extended(copy(tb))
    tb.dram.configure({**DEFAULT_TIMING, "read_latency": EXTENSION_TIMEOUT + 1000})
    await tb.commands.submit(packets, "ring")
    assert await tb.commands.wait(20 * EXTENSION_TIMEOUT) == State.DONE
    tb.dram.configure(DEFAULT_TIMING)
    assert await tb.check() == State.DONE


@npu_test()
async def test_an_extension_that_is_not_submitted(tb: NpuTestbench) -> None:
    """The time starts when nothing is submitted any more, and ends with BAD_EXTENSION."""
    await tb.commands.submit(extended(copy(tb))[:1], "ring")
    assert await tb.commands.wait(4 * EXTENSION_TIMEOUT) == State.ERROR
    tb.monitor.sync()
    tb.scoreboard.expect_no_extension()
    assert await tb.check() == State.ERROR
    assert (await tb.state()).error_code == ErrorCode.BAD_EXTENSION


@npu_test(via=["window", "ring"])
async def test_a_tail_written_in_error_is_dropped(tb: NpuTestbench, via: Path) -> None:
    """When the error is cleared, RING_HEAD and RING_TAIL become that tail, and the next doorbell runs only
    what follows it."""
    assert await tb.run([NpuCommandPacket(0x42)], via) == State.ERROR
    at = await tb.registers.read(regs.RING_HEAD)
    for slot, packet in enumerate((copy(tb), copy(tb))):
        raw = np.frombuffer(packet.pack(), dtype=np.uint8)
        tb.memory.write(RING_BASE + (at + slot) * PACKET_BYTES, raw)
    await tb.registers.write(regs.RING_TAIL, at + 2)
    for bad in (RING_SLOTS, 0xFFFF, at + 1):  # beyond the ring, and moved back
        await tb.registers.write(regs.RING_TAIL, bad)
    await Timer(300 * CLOCK_NS, "ns")
    assert await tb.registers.read(regs.RING_HEAD) == at
    await tb.commands.clear_error()
    head, tail = [await tb.registers.read(register) for register in (regs.RING_HEAD, regs.RING_TAIL)]
    assert (head, tail) == (at + 2, at + 2)
    retired = (await tb.state()).retired
    assert await tb.run([copy(tb)], "ring") == State.DONE
    assert (await tb.state()).retired == retired + 1


@npu_test(back=[1, 2, 3])
async def test_a_tail_that_is_moved_back_is_refused(tb: NpuTestbench, back: int) -> None:
    """RING_INDEX, once the command that waits for the copy has retired; what was submitted is dropped."""
    slow = copy(tb, 20_000)
    # The device takes the first NOP, which waits for the copy, and finds the error behind it.
    tb.scoreboard.expect_fault(ErrorCode.RING_INDEX, 0, command=2, before=True)
    await tb.commands.submit([slow, nop(), nop(), nop(), nop()], "ring")
    while await tb.registers.read(regs.RING_HEAD) != 2:
        await Timer(10 * CLOCK_NS, "ns")
    await tb.registers.write(regs.RING_TAIL, 5 - back)
    assert await tb.check() == State.ERROR
    assert await tb.registers.read(regs.RING_HEAD) == 2
    await tb.commands.clear_error()
    assert await tb.registers.read(regs.RING_HEAD) == 5
    assert await tb.registers.read(regs.RING_TAIL) == 5
    await tb.restart()
    await tb.probe()


@npu_test()
async def test_a_full_ring_and_the_same_tail_again(tb: NpuTestbench) -> None:
    """A tail one slot before the head is a full ring, and writing the same tail again submits nothing."""
    for _ in range(3):
        at = await tb.registers.read(regs.RING_HEAD)
        await tb.commands.submit([copy(tb, 3000), *(nop() for _ in range(RING_SLOTS - 2))], "ring")
        await tb.registers.write(regs.RING_TAIL, (at - 1) % RING_SLOTS)
        assert await tb.check() == State.DONE
