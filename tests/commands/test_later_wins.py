"""Rows or batches of a destination overlap: the later one wins, byte by byte (docs/packets.md).

Each result is also compared with plain loops, on a memory that answers in any order that AXI allows.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import ExtensionPacket, Flags, NpuCommandPacket, Opcode, Packet
from echo_npu.commands.vector_command import Stream
from echo_npu.spec.data_types import DataType, OutType
from echo_npu.spec.status import State
from echo_npu.vector.program import Builder, Program
from tb.drivers.commands import Path
from tb.testbench import NpuTestbench, npu_test
from tests.commands.products import elements

Loops = Sequence[tuple[int, int]]
"""(count, stride in bytes) of the rows, the inner and the outer batches of a destination."""


def expected(before: NDArray[np.uint8], runs: NDArray[np.uint8], loops: Loops) -> NDArray[np.uint8]:
    """Return `before` with the runs [outer, inner, row, bytes] written one after the other."""
    after = before.copy()
    (rows, step), (inner, step0), (outer, step1) = loops
    for b1, b0, row in itertools.product(range(outer), range(inner), range(rows)):
        start = b1 * step1 + b0 * step0 + row * step
        after[start : start + runs.shape[-1]] = runs[b1, b0, row]
    return after


def span(nbytes: int, loops: Loops) -> int:
    """Return the bytes from the first run's first to the last run's last."""
    return nbytes + sum((count - 1) * stride for count, stride in loops)


def shapes(tb: NpuTestbench, nbytes: int, unit: int) -> Iterator[Loops]:
    """Yield loops over rows, batches and all three, runs of `nbytes` bytes that are one `unit` or almost a
    row apart."""
    bus = tb.config.bus_bytes
    close = sorted({unit, nbytes - unit, min(nbytes - unit, bus), min(nbytes - unit, bus + unit)})
    for stride in close:
        if stride > 0:
            yield (5, stride), (1, 0), (1, 0)
            yield (2, nbytes + unit), (3, stride), (1, 0)
            yield (1, 0), (2, 3 * nbytes), (3, stride)
            yield (3, stride), (2, unit), (2, 2 * unit)


async def play(
    tb: NpuTestbench, wanted: dict[int, NDArray[np.uint8]], packets: list[Packet], via: Path
) -> None:
    """Run the packets and compare memory at each address with what is wanted."""
    tb.dram.configure({"reorder": 1, "write_latency": 20, "stall_b": 0.4})
    assert await tb.run(packets, via) == State.DONE
    for address, after in wanted.items():
        assert np.array_equal(tb.memory.read(address, after.size), after), f"0x{address:x}"


def moved() -> Program:
    """o = s0."""
    b = Builder("moved")
    with b.chunks(advance=[b.stream(0)]):
        b.mov(b.out, b.stream(0))
    return b.build()


@npu_test(size=[4, 2, 1], via=["window", "ring"])
async def test_vector(tb: NpuTestbench, size: int, via: Path) -> None:
    """Rows within a chunk and of several; batches of them; all three loops at once."""
    program = moved()
    await tb.load_programs(program)
    packets: list[Packet] = []
    wanted = {}
    for cols in (1, 2, 17, tb.config.vector_length + 5):
        nbytes = size * cols
        for loops in shapes(tb, nbytes, size):
            (rows, step), (inner, step0), (outer, step1) = loops
            data = tb.rng.integers(0, 256, (outer, inner, rows, nbytes), dtype=np.uint8)
            place = tb.destination(span(nbytes, loops), offset=size * tb.random.randrange(9))
            before = tb.memory.read(place, span(nbytes, loops))
            batches = (nbytes * rows, nbytes * rows * inner)
            source = Stream(tb.place(data), row_stride=nbytes, batch_strides=batches, size=size)
            output = Stream(place, row_stride=step, batch_strides=(step0, step1), size=size)
            packets += tb.vector_packets(
                program, rows=rows, cols=cols, inputs=[source], output=output, batch=(inner, outer)
            )
            wanted[place] = expected(before, data, loops)
    await play(tb, wanted, packets, via)


@npu_test()
async def test_vector_segments(tb: NpuTestbench) -> None:
    """Rows of segments, packed or not, that lie between or on those of the row before."""
    program = moved()
    await tb.load_programs(program)
    packets: list[Packet] = []
    wanted = {}
    segs, seg_len, gap = 3, 7, 2
    nbytes, stride = 4 * segs * seg_len, 4 * (seg_len + gap)
    for step in (4, 4 * gap, 4 * (seg_len - 1), stride, 2 * stride - 4):
        data = tb.rng.integers(0, 256, (6, nbytes), dtype=np.uint8)
        place = tb.destination(span(4 * seg_len, ((6, step), (segs, stride))))
        before = tb.memory.read(place, span(4 * seg_len, ((6, step), (segs, stride))))
        after = before
        for row in range(6):
            segments = data[row].reshape(1, 1, segs, 4 * seg_len)
            rest = expected(after[row * step :], segments, ((segs, stride), (1, 0), (1, 0)))
            after = np.concatenate([after[: row * step], rest])
        source = Stream(tb.place(data), row_stride=nbytes)
        output = Stream(place, row_stride=step, seg_len=seg_len, segs=segs, seg_stride=stride, pack=True)
        packets += tb.vector_packets(program, rows=6, cols=segs * seg_len, inputs=[source], output=output)
        wanted[place] = after
    await play(tb, wanted, packets, "ring")


@npu_test(via=["window", "ring"])
async def test_copies(tb: NpuTestbench, via: Path) -> None:
    """Batches of copies; rows of one copy do not overlap."""
    packets: list[Packet] = []
    wanted = {}
    for nbytes in (1, 3, tb.config.bus_bytes + 1, 300):
        for loops in shapes(tb, nbytes, 1):
            (rows, step), (inner, step0), (outer, step1) = loops
            if rows > 1 and step < nbytes:
                rows, step = 2, nbytes + 1
                loops = ((rows, step), *loops[1:])
            data = tb.rng.integers(0, 256, (outer, inner, rows, nbytes), dtype=np.uint8)
            place = tb.destination(span(nbytes, loops), offset=tb.random.randrange(9))
            before = tb.memory.read(place, span(nbytes, loops))
            extension = ExtensionPacket(
                rows=rows,
                dst_row_stride=step,
                batch0=inner,
                batch1=outer,
                src1_batch0_stride=nbytes * rows,
                src1_batch1_stride=nbytes * rows * inner,
                dst_batch0_stride=step0,
                dst_batch1_stride=step1,
            )
            source = tb.place(data)
            packets += [NpuCommandPacket(Opcode.MEMCPY, Flags.EXT, source, 0, place, m=nbytes), extension]
            wanted[place] = expected(before, data, loops)
    await play(tb, wanted, packets, via)


@npu_test(via=["window", "ring"])
async def test_products(tb: NpuTestbench, via: Path) -> None:
    """Batches of products of one or several tiles, in any type: each has its own result except where a later
    one overwrites it."""
    rows, columns = tb.config.array_rows, tb.config.array_cols
    packets: list[Packet] = []
    alone: list[tuple[int, int, int, Loops]] = []
    for m, k, n in ((1, 3, 1), (2, 5, columns + 3), (rows + 1, 2, 2 * columns + 1)):
        for dtype, out in ((DataType.FP32, OutType.FLOAT32), (DataType.INT8, OutType.OWN)):
            size = out.itemsize(dtype)
            nbytes = m * n * size
            for step0, step1 in ((size, 2 * size), (nbytes, size), (size, nbytes), (n * size, 3 * size)):
                inner, outer = 3, 2
                a = tb.place(elements(tb, dtype, outer, inner, m, k))
                b = tb.place(elements(tb, dtype, outer, inner, k, n), "weight")
                loops: Loops = ((1, 0), (inner, step0), (outer, step1))
                place = tb.destination(span(nbytes, loops))
                apart = tb.destination(nbytes * inner * outer)
                for dst, steps in ((apart, (nbytes, nbytes * inner)), (place, (step0, step1))):
                    packets += matmul_packets(
                        a, b, dst, m, k, n,
                        dtype=dtype.name.lower(),
                        out=out,
                        batch=(inner, outer),
                        src1_batch_strides=(a_bytes := m * k * dtype.itemsize, a_bytes * inner),
                        src2_batch_strides=(b_bytes := k * n * dtype.itemsize, b_bytes * inner),
                        dst_batch_strides=steps,
                    )  # fmt: skip
                alone.append((apart, place, nbytes, loops))
    tb.dram.configure({"reorder": 1, "write_latency": 20, "stall_b": 0.4})
    assert await tb.run(packets, via) == State.DONE
    for apart, place, nbytes, loops in alone:
        (_, (inner, _), (outer, _)) = loops
        runs = tb.memory.read(apart, outer * inner * nbytes).reshape(outer, inner, 1, nbytes)
        after = tb.memory.read(place, span(nbytes, loops))
        assert np.array_equal(after, expected(after, runs, loops)), f"0x{place:x}"
