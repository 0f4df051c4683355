"""Counts and strides far beyond the shapes of networks, at every power of two that is cheap to simulate."""

from collections.abc import Iterator, Sequence

import numpy as np

from echo_npu.commands.packets import NpuCommandPacket, Opcode, Packet
from echo_npu.spec import registers as regs
from echo_npu.spec.data_types import DataType
from echo_npu.spec.memory_map import ACTIVATION
from echo_npu.spec.status import ErrorCode, State
from tb.stimulus.magnitude import LEVELS, MOST_STRIDE_BITS, STRIDED, LargeMaker, Slots
from tb.testbench import NpuTestbench, npu_test, stalled


def most() -> int:
    """Return the largest count: beyond 16 bits, or less if memory stalls, which takes ten times as long."""
    return 1 << (10 if stalled() else 16)


async def run(tb: NpuTestbench, maker: LargeMaker, slots: Sequence[Packet]) -> None:
    """Execute the drawn command, and check it."""
    for address, data in maker.images.items():
        tb.memory.write(address, data)
    assert await tb.run(slots, "ring", timeout_cycles=8_000_000) == State.DONE
    maker.forget()


def sizes(tb: NpuTestbench) -> Iterator[int]:
    """Draw a size at, one below or one above each power of two from 2**8 to `most()`."""
    for bits in range(8, most().bit_length() - 1):
        yield (1 << bits) + tb.random.randint(-1, 1)


@npu_test(dtype=list(DataType), count=["m", "k", "n"])
async def test_matmul(tb: NpuTestbench, dtype: DataType, count: str) -> None:
    """One long dimension, in each type, in a random layout; in one type in the opposite layout too."""
    maker = LargeMaker(tb.random, tb.config)
    flips = [tb.random.random() < 0.5 for _ in range(3)]
    for flip in (False, True)[: 2 if dtype == DataType.FP32 else 1]:
        layout = dict(zip(("trans_a", "trans_b", "vectors"), (flip != each for each in flips), strict=True))
        size = most() + tb.random.randint(1, 40)
        if dtype == DataType.INT8 and count == "k":  # words of four elements, the last one partly used
            size = 4 * size - tb.random.randint(1, 3)
        await run(tb, maker, maker.long("matmul", count, size, dtype=dtype, **layout))
    slots: Slots = []
    for size in sizes(tb):
        slots += maker.long("matmul", count, size // 4, dtype=dtype)
    await run(tb, maker, slots)


@npu_test(kind=["matmul", "memcpy"], count=["batch0", "batch1"])
async def test_batches(tb: NpuTestbench, kind: str, count: str) -> None:
    """Thousands of batches of either level; the pyuvm sequence "magnitude" has the most that are legal."""
    maker = LargeMaker(tb.random, tb.config)
    slots: Slots = []
    for size in sizes(tb):
        slots += maker.long(kind, count, size // 16)
    await run(tb, maker, slots)


@npu_test(count=["bytes", "rows"])
async def test_memcpy(tb: NpuTestbench, count: str) -> None:
    """Long rows, and many rows."""
    maker = LargeMaker(tb.random, tb.config)
    for size in (*sizes(tb), most() + tb.random.randint(1, 40)):
        await run(tb, maker, maker.long("memcpy", count, size))


@npu_test()
async def test_add_tensor(tb: NpuTestbench) -> None:
    """Many elements."""
    maker = LargeMaker(tb.random, tb.config)
    for size in (*sizes(tb), most() + tb.random.randint(1, 40)):
        await run(tb, maker, maker.long("add", "elements", size))


@npu_test(kind=list(STRIDED), level=list(LEVELS))
async def test_strides(tb: NpuTestbench, kind: str, level: str) -> None:
    """Rows and batches up to the size of memory apart, in each operand."""
    maker = LargeMaker(tb.random, tb.config)
    for operand in STRIDED[kind]:
        slots: Slots = []
        for bits in range(6, MOST_STRIDE_BITS + 1):
            off = 4 * tb.random.randint(-1, 1) if bits < MOST_STRIDE_BITS else 0
            slots += maker.far(kind, operand, level, (1 << bits) + off)
        await run(tb, maker, slots)


async def run_ring(
    tb: NpuTestbench, base: int, slots: int, commands: int, *, fails: int | None = None
) -> None:
    """Play `count` commands through a ring of `slots`: NOPs, which empty memory is, with a few copies among
    them. Command number `fails`, a copy, meets a bus error."""
    await tb.restart()
    await tb.commands.setup_ring(base, slots)
    marks = {tb.random.randrange(commands) for _ in range(20)} | {commands - 1}
    if fails is not None:
        marks.add(fails)
    taken = 0
    while taken < commands:
        # A doorbell submits up to a full ring, and ends after the failing command.
        step = min(tb.random.randint(1, slots - 1), commands - taken)
        if fails is not None and taken <= fails:
            step = min(step, fails + 1 - taken)
        nops = bytes(64)
        for number in range(taken, taken + step):
            packet = nops
            if number in marks:
                data = tb.rng.integers(0, 256, 5, dtype=np.uint8)
                source, dst = tb.place(data), tb.destination(5)
                packet = NpuCommandPacket(Opcode.MEMCPY, 0, source, 0, dst, m=5).pack()
                if number == fails:
                    tb.dram.clear_statistics()
                    tb.dram.add_fault(source, source + 5, read=True)
            if packet != nops or number >= slots:
                tb.memory.write(base + number % slots * 64, packet)
        taken += step
        await tb.registers.write(regs.RING_TAIL, taken % slots)
        if fails == taken - 1:
            assert await tb.commands.wait(8_000_000) == State.ERROR
            assert await tb.registers.read(regs.RING_HEAD) == taken % slots
            await tb.check_bus_error(ErrorCode.READ_RESPONSE, fails)
            tb.dram.clear_faults()
            assert await tb.commands.clear_error() == taken % slots
        else:
            assert await tb.check(8_000_000) == State.DONE
            assert await tb.registers.read(regs.RING_HEAD) == taken % slots


@npu_test()
async def test_rings(tb: NpuTestbench) -> None:
    """Rings of every number of bits wrap more than once; a command fails in each."""
    for bits in range(1, 12):
        slots = max(2, (1 << bits) + tb.random.randint(-1, 1))
        commands = 2 * slots + tb.random.randint(1, slots)
        base = tb.alloc(64 * slots, tb.random.choice(("activation", "weight")))
        await run_ring(tb, base, slots, commands, fails=tb.random.randrange(commands))


@npu_test()
async def test_longest_ring(tb: NpuTestbench) -> None:
    """The largest ring wraps twice; a command fails whose number has more than 17 bits."""
    slots = (1 << 12) + 1 if stalled() else (1 << 16) - 1
    commands = 2 * slots + tb.random.randint(300, 600)
    base = ACTIVATION.end - 64 * slots
    await run_ring(tb, base, slots, commands, fails=2 * slots + tb.random.randint(10, 200))
    bad = NpuCommandPacket(0x55)
    assert await tb.run([bad], "window") == State.ERROR
    await tb.commands.clear_error()
    await tb.restart()
