"""GATHER: rows of a table, chosen by indices."""

import numpy as np

from echo_npu.commands.builders import gather_packets
from echo_npu.commands.packets import NpuCommandPacket, Opcode, Packet
from echo_npu.spec.status import ErrorCode, State
from tb.drivers.commands import Path
from tb.testbench import NpuTestbench, npu_test
from tests.commands.outcomes import refused


def gather(tb: NpuTestbench, rows: int, row_bytes: int, table_rows: int) -> list[Packet]:
    """Return a gather of random rows: table and destination at any byte, indices at any word."""
    pick = tb.random.randrange
    table = tb.place(
        tb.rng.integers(0, 256, table_rows * row_bytes, dtype=np.uint8), "weight", offset=pick(70)
    )
    indices = tb.place(tb.rng.integers(0, table_rows, rows).astype(np.int32), align=4, offset=4 * pick(20))
    dst = tb.destination(rows * row_bytes, offset=pick(70))
    return list(gather_packets(table, indices, dst, rows, row_bytes, table_rows))


@npu_test(via=["window", "ring"])
async def test_row_sizes(tb: NpuTestbench, via: Path) -> None:
    """Rows around the bus width and the burst, few and many, from tables of any height."""
    bus = tb.config.bus_bytes
    packets: list[Packet] = []
    for row_bytes in (1, 2, bus - 1, bus, bus + 1, 3 * bus, 255, 256, 1000, 4096, 5000):
        rows = tb.random.choice((1, 2, 9, 40))
        packets += gather(tb, rows, row_bytes, tb.random.choice((1, 2, 33)))
    assert await tb.run(packets, via) == State.DONE


@npu_test()
async def test_many_rows(tb: NpuTestbench) -> None:
    """Far more indices than are in flight: each row of the table in order, backwards, and repeated."""
    height, row_bytes = 700, 20
    table = tb.place(tb.rng.integers(0, 256, (height, row_bytes), dtype=np.uint8))
    packets: list[Packet] = []
    for wanted in (np.arange(height), np.arange(height)[::-1], np.full(height, 5)):
        indices = tb.place(wanted.astype(np.int32), offset=4)
        dst = tb.destination(height * row_bytes)
        packets += gather_packets(table, indices, dst, height, row_bytes, height)
    packets += gather(tb, 3000, 4, 50)
    assert await tb.run(packets, "ring") == State.DONE


@npu_test()
async def test_indices_of_a_result(tb: NpuTestbench) -> None:
    """The command before has just written the indices, the table or the rows."""
    table = tb.place(tb.floats(9, 17))
    first = tb.place(tb.rng.integers(0, 9, 30).astype(np.int32))
    here, rows = tb.destination(120), tb.destination(30 * 68)
    again = tb.destination(30 * 68)
    packets: list[Packet] = [
        NpuCommandPacket(Opcode.MEMCPY, 0, first, 0, here, m=120),
        *gather_packets(table, here, rows, 30, 68, 9),
        *gather_packets(rows, here, again, 30, 68, 30),
        NpuCommandPacket(Opcode.ADD_TENSOR, 0, again, rows, rows, m=30 * 17, alpha=2.0),
    ]
    assert await tb.run(packets, "window") == State.DONE


@npu_test()
async def test_a_bad_index_far_down(tb: NpuTestbench) -> None:
    """The reported address is right wherever the index lies, also after the low half of the address wraps."""
    count = 20_000
    table = tb.place(tb.rng.integers(0, 256, (4, 1), dtype=np.uint8))
    for place in (tb.random.randrange(16_400, count - 1), count - 1):
        wanted = tb.rng.integers(0, 4, count).astype(np.int32)
        wanted[place] = 4
        indices = tb.place(wanted, offset=4 * tb.random.randrange(64))
        packets = gather_packets(table, indices, tb.destination(count), count, 1, 4)
        await refused(tb, packets, ErrorCode.BAD_INDEX, indices + 4 * place)


@npu_test(via=["window", "ring"])
async def test_bad_index(tb: NpuTestbench, via: Path) -> None:
    """The first bad index gives BAD_INDEX with its address; later commands are not executed."""
    height, count, row_bytes = 10, 60, 12
    table = tb.place(tb.rng.integers(0, 256, (height, row_bytes), dtype=np.uint8))
    for place in (0, 1, 17, count - 1):
        for value in (-1, height, 0x7FFF_FFFF, -(2**31)):
            wanted = tb.rng.integers(0, height, count).astype(np.int32)
            wanted[place] = value
            wanted[tb.random.randrange(place, count)] = value
            indices = tb.place(wanted)
            bad = gather_packets(table, indices, tb.destination(count * row_bytes), count, row_bytes, height)
            behind = gather_packets(table, indices, tb.destination(row_bytes), 1, row_bytes, height)
            await refused(tb, [*bad, *behind], ErrorCode.BAD_INDEX, indices + 4 * place, via=via)
    assert await tb.run(gather(tb, 5, row_bytes, height), via) == State.DONE
