"""GATHER: rows of a table, chosen by indices."""

import numpy as np

from echo_npu.packets import NpuCommandPacket, Opcode, Packet, gather_packets
from echo_npu.status import ErrorCode, State
from tb.bench import NpuBench, npu_test
from tb.drivers.commands import Path


def gather(bench: NpuBench, rows: int, row_bytes: int, table_rows: int) -> list[Packet]:
    """A gather of random rows; table and destination lie at any byte, the indices at any word."""
    pick = bench.random.randrange
    table = bench.place(
        bench.rng.integers(0, 256, table_rows * row_bytes, dtype=np.uint8), "weight", offset=pick(70)
    )
    indices = bench.place(
        bench.rng.integers(0, table_rows, rows).astype(np.int32), align=4, offset=4 * pick(20)
    )
    dst = bench.destination(rows * row_bytes, offset=pick(70))
    return list(gather_packets(table, indices, dst, rows, row_bytes, table_rows))


@npu_test(via=["window", "ring"])
async def test_row_sizes(bench: NpuBench, via: Path) -> None:
    """Rows around the bus width and the burst, few and many, from tables of any height."""
    bus = bench.config.bus_bytes
    packets: list[Packet] = []
    for row_bytes in (1, 2, bus - 1, bus, bus + 1, 3 * bus, 255, 256, 1000, 4096, 5000):
        rows = bench.random.choice((1, 2, 9, 40))
        packets += gather(bench, rows, row_bytes, bench.random.choice((1, 2, 33)))
    assert await bench.run(packets, via) == State.DONE


@npu_test()
async def test_many_rows(bench: NpuBench) -> None:
    """Far more indices than are in flight; each row of the table, in order, backwards, and the same again."""
    height, row_bytes = 700, 20
    table = bench.place(bench.rng.integers(0, 256, (height, row_bytes), dtype=np.uint8))
    packets: list[Packet] = []
    for wanted in (np.arange(height), np.arange(height)[::-1], np.full(height, 5)):
        indices = bench.place(wanted.astype(np.int32), offset=4)
        dst = bench.destination(height * row_bytes)
        packets += gather_packets(table, indices, dst, height, row_bytes, height)
    packets += gather(bench, 3000, 4, 50)
    assert await bench.run(packets, "ring") == State.DONE


@npu_test()
async def test_indices_of_a_result(bench: NpuBench) -> None:
    """Indices, table and rows that the command before has just written."""
    table = bench.place(bench.floats(9, 17))
    first = bench.place(bench.rng.integers(0, 9, 30).astype(np.int32))
    here, rows = bench.destination(120), bench.destination(30 * 68)
    again = bench.destination(30 * 68)
    packets: list[Packet] = [
        NpuCommandPacket(Opcode.MEMCPY, 0, first, 0, here, m=120),
        *gather_packets(table, here, rows, 30, 68, 9),
        *gather_packets(rows, here, again, 30, 68, 30),
        NpuCommandPacket(Opcode.ADD_TENSOR, 0, again, rows, rows, m=30 * 17, alpha=2.0),
    ]
    assert await bench.run(packets, "window") == State.DONE


@npu_test(via=["window", "ring"])
async def test_bad_index(bench: NpuBench, via: Path) -> None:
    """The first index that is not one: BAD_INDEX with its address; what is behind it is not done."""
    height, count, row_bytes = 10, 60, 12
    table = bench.place(bench.rng.integers(0, 256, (height, row_bytes), dtype=np.uint8))
    for place in (0, 1, 17, count - 1):
        for value in (-1, height, 0x7FFF_FFFF, -(2**31)):
            wanted = bench.rng.integers(0, height, count).astype(np.int32)
            wanted[place] = value
            wanted[bench.random.randrange(place, count)] = value
            indices = bench.place(wanted)
            bad = gather_packets(
                table, indices, bench.destination(count * row_bytes), count, row_bytes, height
            )
            behind = gather_packets(table, indices, bench.destination(row_bytes), 1, row_bytes, height)
            assert await bench.run([*bad, *behind], via) == State.ERROR
            state = await bench.state()
            assert (state.error_code, state.error_address) == (ErrorCode.BAD_INDEX, indices + 4 * place)
            await bench.commands.clear_error()
    assert await bench.run(gather(bench, 5, row_bytes, height), via) == State.DONE
