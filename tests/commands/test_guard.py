"""The protected range: the ring lies in it, and no command writes to it."""

from collections.abc import Callable

import numpy as np

from echo_npu.commands.builders import gather_packets, memcpy_packets
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import NpuCommandPacket, Opcode, Packet
from echo_npu.commands.vector_command import Stream
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ErrorCode, State
from echo_npu.vector.program import Builder, Program
from tb.drivers.commands import Path
from tb.testbench import RING_BASE, RING_SLOTS, NpuTestbench, npu_test
from tests.commands.outcomes import failed, protect, refused

BLOCK = 64
"""Bytes; base and size of the range are multiples of it."""


async def _give_free(tb: NpuTestbench) -> None:
    """Clear the range, and check that the device works as usual."""
    await protect(tb, 0, 0)
    await tb.probe()


def _copy(tb: NpuTestbench, source: int, dst: int, nbytes: int) -> list[Packet]:
    return [NpuCommandPacket(Opcode.MEMCPY, 0, source, 0, dst, m=nbytes)]


def _rows(tb: NpuTestbench, source: int, dst: int, nbytes: int) -> list[Packet]:
    """Copy the same bytes as rows of one byte, 2 bytes apart in the source."""
    return list(memcpy_packets(source, dst, 1, rows=nbytes, row_strides=(2, 1)))


def _add(tb: NpuTestbench, source: int, dst: int, nbytes: int) -> list[Packet]:
    return [NpuCommandPacket(Opcode.ADD_TENSOR, 0, source, source, dst, m=nbytes // 4, alpha=1.0)]


def _matmul(tb: NpuTestbench, source: int, dst: int, nbytes: int) -> list[Packet]:
    return list(matmul_packets(source, source, dst, 1, 3, nbytes // 4))


def _batches(tb: NpuTestbench, source: int, dst: int, nbytes: int) -> list[Packet]:
    """One element a batch, outer and inner."""
    inner = nbytes // 8
    return list(
        matmul_packets(source, source, dst, 1, 1, 1, batch=(inner, 2), dst_batch_strides=(4, 4 * inner))
    )


def _gather(tb: NpuTestbench, source: int, dst: int, nbytes: int) -> list[Packet]:
    indices = tb.place(np.zeros(nbytes // 4, dtype=np.int32))
    return list(gather_packets(source, indices, dst, nbytes // 4, 4, 1))


WRITERS: dict[str, Callable[[NpuTestbench, int, int, int], list[Packet]]] = {
    "memcpy": _copy,
    "rows": _rows,
    "add": _add,
    "matmul": _matmul,
    "batches": _batches,
    "gather": _gather,
}


@npu_test(op=list(WRITERS))
async def test_no_command_writes_to_it(tb: NpuTestbench, op: str) -> None:
    """PROTECTED, with dst, from the first byte of the range to the last. Next to the range, and without one,
    commands succeed."""
    nbytes, size = 64, 4 * BLOCK
    source = tb.place(tb.floats(1024), "weight")
    base = tb.destination(size + 4096) // BLOCK * BLOCK + 1024
    for place, legal in (
        (base - nbytes, True),
        (base - nbytes + 4, False),
        (base + BLOCK, False),
        (base + size - 4, False),
        (base + size, True),
    ):
        packets = WRITERS[op](tb, source, place, nbytes)
        await protect(tb, base, size)
        if not legal:
            await refused(tb, packets, ErrorCode.PROTECTED, place)
            await protect(tb, base, 0)
        assert await tb.run(packets) == State.DONE


@npu_test()
async def test_the_range_goes_to_the_end_of_the_address_space(tb: NpuTestbench) -> None:
    """Base and size whose sum is 2^32 and more protect everything from the base on."""
    dst = tb.destination(64) // BLOCK * BLOCK
    source = tb.place(tb.floats(16), "weight")
    for size in (0xFFFF_FFC0, (1 << 32) - dst):
        await protect(tb, dst, size)
        await refused(tb, _copy(tb, source, dst + 60, 4), ErrorCode.PROTECTED)
        assert await tb.run(_copy(tb, source, dst - 4, 4)) == State.DONE
    for size in (0xFFFF_FFC0, (1 << 32) - RING_BASE):
        await protect(tb, RING_BASE, size)
        assert await tb.run([NpuCommandPacket(Opcode.NOP)], "ring") == State.DONE


@npu_test()
async def test_it_comes_before_the_overlap(tb: NpuTestbench) -> None:
    """A command that breaks both rules is PROTECTED."""
    dst = tb.destination(128) // BLOCK * BLOCK
    await protect(tb, dst, BLOCK)
    await refused(tb, _copy(tb, dst, dst, 64), ErrorCode.PROTECTED)
    await _give_free(tb)


@npu_test(via=["window", "ring"])
async def test_the_ring_lies_in_it(tb: NpuTestbench, via: Path) -> None:
    """A ring that is not wholly in the range is RING_CONFIG; one that is in it works, and is not written."""
    end = RING_BASE + RING_SLOTS * BLOCK
    source = tb.place(tb.floats(16), "weight")
    for base, size, legal in (
        (RING_BASE, end - RING_BASE, True),
        (RING_BASE - BLOCK, end - RING_BASE + 2 * BLOCK, True),
        (RING_BASE + BLOCK, end - RING_BASE, False),
        (RING_BASE, end - RING_BASE - BLOCK, False),
        (0, BLOCK, False),
    ):
        await protect(tb, base, size)
        tail = (await tb.registers.read(regs.RING_TAIL) + 1) % RING_SLOTS
        tb.memory.write(
            RING_BASE + (tail - 1) % RING_SLOTS * BLOCK,
            np.frombuffer(NpuCommandPacket(Opcode.NOP).pack(), dtype=np.uint8),
        )
        await tb.registers.write(regs.RING_TAIL, tail)
        if legal:
            assert await tb.check() == State.DONE
        else:
            await failed(tb, ErrorCode.RING_CONFIG)
    await protect(tb, RING_BASE, end - RING_BASE)
    tb.commands.ring_moved(await tb.registers.read(regs.RING_HEAD))
    await refused(tb, _copy(tb, source, end - 4, 4), ErrorCode.PROTECTED, via=via)
    assert await tb.run(_copy(tb, RING_BASE, tb.destination(64), 64), via) == State.DONE


@npu_test()
async def test_a_soft_reset_keeps_it(tb: NpuTestbench) -> None:
    dst = tb.destination(128) // BLOCK * BLOCK
    source = tb.place(tb.floats(16), "weight")
    await protect(tb, dst, BLOCK)
    await tb.commands.soft_reset()
    tb.scoreboard.check_memory(tb.memory.shared)
    assert await tb.registers.read(regs.GUARD_SIZE) == BLOCK
    await refused(tb, _copy(tb, source, dst, 4), ErrorCode.PROTECTED)
    await tb.commands.setup_ring(RING_BASE, RING_SLOTS)
    await _give_free(tb)


def doubling() -> Program:
    builder = Builder("doubling")
    source = builder.stream(0)
    with builder.chunks([source]):
        builder.add(builder.out, source, source)
    return builder.build()


@npu_test()
async def test_a_program_is_held_to_it(tb: NpuTestbench) -> None:
    """The range also holds for the output stream of a VECTOR command, over all its rows."""
    rows, columns = 5, 16
    source = tb.place(tb.floats(rows, columns))
    dst = tb.destination(BLOCK * rows + BLOCK) // BLOCK * BLOCK + BLOCK
    await tb.load_programs(doubling())
    packets = tb.vector_packets(
        doubling(),
        rows=rows,
        cols=columns,
        inputs=[Stream(source, row_stride=4 * columns)],
        output=Stream(dst, row_stride=4 * columns),
    )
    await protect(tb, dst + 4 * BLOCK, BLOCK)
    await refused(tb, packets, ErrorCode.PROTECTED, dst)
    await protect(tb, dst + 5 * BLOCK, BLOCK)
    assert await tb.run(packets) == State.DONE
