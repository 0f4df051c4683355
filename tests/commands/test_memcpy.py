"""MEMCPY: bytes from anywhere to anywhere, in one piece or in strided rows."""

import itertools
from collections.abc import Sequence

import numpy as np

from echo_npu.commands.packets import ExtensionPacket, Flags, NpuCommandPacket, Opcode, Packet
from echo_npu.spec.status import State
from tb.drivers.commands import Path
from tb.testbench import NpuTestbench, npu_test


def linear(src: int, dst: int, nbytes: int) -> NpuCommandPacket:
    """Return a copy of `nbytes` bytes."""
    return NpuCommandPacket(Opcode.MEMCPY, 0, src, 0, dst, m=nbytes)


def strided(src: int, dst: int, nbytes: int, **fields: int) -> Sequence[Packet]:
    """Return a copy of rows of `nbytes` bytes, shaped by the extension's `fields`."""
    packet = NpuCommandPacket(Opcode.MEMCPY, Flags.EXT, src, 0, dst, m=nbytes)
    return [packet, ExtensionPacket(**fields)]


def random_bytes(tb: NpuTestbench, count: int) -> np.ndarray:
    return tb.rng.integers(0, 256, count, dtype=np.uint8)


@npu_test(via=["window", "ring"])
async def test_sizes(tb: NpuTestbench, via: Path) -> None:
    """Around the bus width, the burst and the 4 KiB page, and far above."""
    bus = tb.config.bus_bytes
    sizes = [1, 2, bus - 1, bus, bus + 1, 3 * bus, 255, 256, 257, 4095, 4096, 4097, 20_000]
    packets = [linear(tb.place(random_bytes(tb, n)), tb.destination(n), n) for n in sizes]
    assert await tb.run(packets, via) == State.DONE


@npu_test()
async def test_alignments(tb: NpuTestbench) -> None:
    """Every pair of source and destination offsets within a bus word, some sizes each."""
    bus = tb.config.bus_bytes
    packets = []
    for src_offset in range(0, bus, max(1, bus // 8)):
        for dst_offset in range(bus):
            nbytes = tb.random.choice((1, bus - 1, bus, bus + 1, 2 * bus, 3 * bus - 1, 100))
            src = tb.place(random_bytes(tb, nbytes), align=bus, offset=src_offset)
            packets.append(linear(src, tb.destination(nbytes, align=bus, offset=dst_offset), nbytes))
    assert await tb.run(packets, "ring") == State.DONE


@npu_test()
async def test_page_ends(tb: NpuTestbench) -> None:
    """Transfers that begin just before and end just after a 4 KiB boundary, on either side."""
    packets = []
    for before in (1, 3, 31, 32, 33, 64):
        for nbytes in (2, 40, 4096, 4133):
            src = tb.place(random_bytes(tb, nbytes), align=4096, offset=4096 - before)
            dst = tb.destination(nbytes, align=4096, offset=4096 - tb.random.randrange(1, 70))
            packets.append(linear(src, dst, nbytes))
    assert await tb.run(packets) == State.DONE


@npu_test()
async def test_dimensions_multiply(tb: NpuTestbench) -> None:
    """The byte count is M * max(K, 1) * max(N, 1)."""
    packets = []
    for m, k, n in ((5, 0, 0), (5, 3, 0), (5, 0, 7), (5, 3, 7), (1, 1, 1)):
        count = m * max(k, 1) * max(n, 1)
        src = tb.place(random_bytes(tb, count))
        packets.append(NpuCommandPacket(Opcode.MEMCPY, 0, src, 0, tb.destination(count), m=m, k=k, n=n))
    assert await tb.run(packets) == State.DONE


@npu_test()
async def test_region_edges(tb: NpuTestbench) -> None:
    """The first and the last byte of each region; address 0 is memory like any other."""
    nbytes = 77
    data = random_bytes(tb, nbytes)
    weight_end, activation, activation_end = 0x1000_0000, 0x1000_0000, 0x2000_0000
    tb.memory.write(0, data)
    tb.memory.write(weight_end - nbytes, data[::-1])
    packets = [
        linear(0, activation + 4096, nbytes),
        linear(weight_end - nbytes, activation_end - nbytes, nbytes),
        linear(activation + 4096, weight_end - nbytes, nbytes),
        linear(activation_end - nbytes, 0, nbytes),
        linear(0, activation, nbytes),
    ]
    assert await tb.run(packets, "window") == State.DONE  # the ring lies at the end of activation memory


@npu_test()
async def test_neighbours_are_no_overlap(tb: NpuTestbench) -> None:
    """Source and destination may touch, on either side and at any alignment."""
    packets = []
    for nbytes in (1, 31, 64, 100):
        for offset in (0, 1, 30):
            place = tb.alloc(3 * nbytes, offset=offset)
            tb.memory.write(place, random_bytes(tb, 3 * nbytes))
            packets += [linear(place + nbytes, place, nbytes), linear(place, place + nbytes, nbytes)]
            packets.append(linear(place + nbytes, place + 2 * nbytes, nbytes))
    assert await tb.run(packets) == State.DONE


@npu_test(via=["window", "ring"])
async def test_strided_rows(tb: NpuTestbench, via: Path) -> None:
    """Rows are gathered, scattered, both, or one source row is repeated."""
    packets: list[Packet] = []
    for rows, nbytes, src_stride, dst_stride in (
        (1, 10, 0, 0),
        (7, 13, 13, 40),
        (7, 13, 29, 13),
        (5, 64, 64, 64),
        (16, 4, 1000, 4),
        (3, 300, 4096, 513),
        (9, 21, 5, 21),  # source rows overlap: allowed, they are only read
        (40, 1, 3, 2),
    ):
        src = tb.place(random_bytes(tb, (rows - 1) * max(src_stride, nbytes) + nbytes))
        dst = tb.destination((rows - 1) * max(dst_stride, nbytes) + nbytes)
        packets += strided(src, dst, nbytes, rows=rows, src1_row_stride=src_stride, dst_row_stride=dst_stride)
    assert await tb.run(packets, via) == State.DONE


@npu_test(via=["window", "ring"])
async def test_batches(tb: NpuTestbench, via: Path) -> None:
    """Two levels of batches around the rows: the transposition of a [3, 2, 4] block's outer axes, and a
    broadcast."""
    nbytes = 12
    src = tb.place(random_bytes(tb, 3 * 2 * 4 * nbytes))
    transposed = tb.destination(3 * 2 * 4 * nbytes)
    repeated = tb.destination(5 * 3 * nbytes)
    packets = [
        *strided(
            src,
            transposed,
            nbytes,
            rows=4,
            batch0=2,
            batch1=3,
            src1_batch0_stride=4 * nbytes,
            src1_batch1_stride=8 * nbytes,
            dst_batch0_stride=12 * nbytes,
            dst_batch1_stride=4 * nbytes,
        ),
        *strided(src, repeated, nbytes, rows=3, batch0=5, src1_batch0_stride=0, dst_batch0_stride=3 * nbytes),
    ]
    assert await tb.run(packets, via) == State.DONE
    before = tb.memory.read(src, (3, 2, 4 * nbytes))
    assert np.array_equal(tb.memory.read(transposed, (2, 3, 4 * nbytes)), before.swapaxes(0, 1))


@npu_test(via=["window", "ring"])
async def test_chain(tb: NpuTestbench, via: Path) -> None:
    """Back to back, each command reading what the one before it wrote: no SYNC is needed between them."""
    nbytes = 999
    places = [tb.place(random_bytes(tb, nbytes))]
    for _ in range(20):
        places.append(tb.destination(nbytes, offset=tb.random.randrange(4)))
    packets = [linear(a, b, nbytes) for a, b in itertools.pairwise(places)]
    assert await tb.run(packets, via) == State.DONE
    assert np.array_equal(tb.memory.read(places[0], nbytes), tb.memory.read(places[-1], nbytes))
