"""Each count of a narrow command is large in its specified width: it crosses every smaller power of two, and
the whole result is compared."""

import math
from collections.abc import Callable

import numpy as np
from cocotb.triggers import Timer

from echo_npu.commands.builders import gather_packets, memcpy_packets
from echo_npu.commands.packets import Packet
from echo_npu.commands.vector_command import Stream, VectorCommand, vector_command
from echo_npu.spec.memory_map import WEIGHT
from echo_npu.spec.status import State
from echo_npu.vector.isa import OPERAND_CODES, Instruction, Op
from tb.drivers.registers import CLOCK_NS
from tb.testbench import NpuTestbench, npu_test, stalled
from tests.commands.outcomes import give_up
from tests.commands.programs import encoded, load, random_words

MOST_BATCHES = 65_535
TIMEOUT = 8_000_000
CODE = OPERAND_CODES

_WALK = (  # one segment for each iteration
    Instruction(Op.REPEAT),
    Instruction(Op.IADD, CODE["o"], CODE["s0"], CODE["rep"], one=True),
    Instruction(Op.NEXT, imm=1),
    Instruction(Op.END),
)
_NUMBER = (
    Instruction(Op.IADD, CODE["r0"], CODE["s0"], CODE["row"]),
    Instruction(Op.IADD, CODE["r0"], CODE["r0"], CODE["batch0"]),
    Instruction(Op.IADD, CODE["o"], CODE["r0"], CODE["batch1"]),
    Instruction(Op.END),
)
_NUMBER_COLUMNS = (
    Instruction(Op.CHUNKS),
    Instruction(Op.IADD, CODE["o"], CODE["s0"], CODE["iota"]),
    Instruction(Op.NEXT, imm=1),
    Instruction(Op.END),
)
_COUNT = (
    Instruction(Op.REPEAT),
    Instruction(Op.IADD, CODE["r0"], CODE["r0"], CODE["rep"]),
    Instruction(Op.NEXT),
    Instruction(Op.MOV, CODE["o"], CODE["r0"]),
    Instruction(Op.END),
)
_LOOK = (Instruction(Op.MOV, CODE["o"], CODE["s0"]), Instruction(Op.END))


def many() -> int:
    """Draw a count just above a power of two; a small one if memory stalls."""
    return (1 << 10) + 1 if stalled() else (1 << 16) + 3


def rows(tb: NpuTestbench) -> VectorCommand:
    """Return many rows of one element, each a word plus its own index."""
    count = many()
    source = Stream(random_words(tb, 2 * count), row_stride=tb.random.choice((4, 8)))
    output = Stream(tb.destination(4 * count), row_stride=4)
    return vector_command(0, rows=count, cols=1, inputs=[source], output=output)


def inner(tb: NpuTestbench) -> VectorCommand:
    """Return the most inner batches, each a word plus its own index."""
    count = min(MOST_BATCHES, many())
    source = Stream(random_words(tb, count), batch_strides=(4, 0))
    output = Stream(tb.destination(4 * count), batch_strides=(4, 0))
    return vector_command(0, rows=1, cols=1, batch=(count, 1), inputs=[source], output=output)


def outer(tb: NpuTestbench) -> VectorCommand:
    """Return the most outer batches, each a word plus its own index."""
    count = min(MOST_BATCHES, many())
    source = Stream(random_words(tb, count), batch_strides=(0, 4))
    output = Stream(tb.destination(4 * count), batch_strides=(0, 4))
    return vector_command(0, rows=1, cols=1, batch=(1, count), inputs=[source], output=output)


def columns(tb: NpuTestbench) -> VectorCommand:
    """Return a row of columns, each a word plus its own index; many are left after the first chunk, too."""
    count = many() + tb.config.vector_length
    source = Stream(random_words(tb, count))
    return vector_command(0, rows=1, cols=count, inputs=[source], output=Stream(tb.destination(4 * count)))


def segments(tb: NpuTestbench) -> VectorCommand:
    """Return a row of many segments of one element, read and written."""
    count = many()
    source = Stream(random_words(tb, count), seg_len=1, segs=count, seg_stride=4)
    output = Stream(tb.destination(4 * count), seg_len=1, segs=count, seg_stride=4)
    return vector_command(0, rows=1, cols=1, repeats=count, inputs=[source], output=output)


def repeats(tb: NpuTestbench) -> VectorCommand:
    """Return a loop of many iterations that adds up their numbers."""
    return vector_command(0, rows=1, cols=1, repeats=2 * many(), output=Stream(tb.destination(4)))


COUNTS: dict[str, tuple[tuple[Instruction, ...], Callable[[NpuTestbench], VectorCommand]]] = {
    "rows": (_NUMBER, rows),
    "inner": (_NUMBER, inner),
    "outer": (_NUMBER, outer),
    "columns": (_NUMBER_COLUMNS, columns),
    "segments": (_WALK, segments),
    "repeats": (_COUNT, repeats),
}


@npu_test(count=list(COUNTS))
async def test_vector(tb: NpuTestbench, count: str) -> None:
    """One count of a VECTOR command."""
    program, command = COUNTS[count]
    await load(tb, encoded(program))
    assert await tb.run(command(tb).packets(), timeout_cycles=TIMEOUT) == State.DONE


def copied_rows(tb: NpuTestbench) -> list[Packet]:
    """Many rows of a byte each."""
    count = many()
    source = tb.place(tb.rng.integers(0, 256, 3 * count, dtype=np.uint8), "weight")
    return list(memcpy_packets(source, tb.destination(2 * count), 1, rows=count, row_strides=(3, 2)))


def copied_inner(tb: NpuTestbench) -> list[Packet]:
    """The most inner batches of a byte each."""
    count = min(MOST_BATCHES, many())
    source = tb.place(tb.rng.integers(0, 256, 3 * count, dtype=np.uint8), "weight")
    dst = tb.destination(2 * count)
    return list(
        memcpy_packets(source, dst, 1, batch=(count, 1), src_batch_strides=(3, 0), dst_batch_strides=(2, 0))
    )


def copied_outer(tb: NpuTestbench) -> list[Packet]:
    """Many outer batches of two inner ones each."""
    count = min(MOST_BATCHES, many()) // 2
    source = tb.place(tb.rng.integers(0, 256, 3 * count, dtype=np.uint8), "weight")
    dst = tb.destination(2 * count)
    return list(
        memcpy_packets(source, dst, 1, batch=(2, count), src_batch_strides=(1, 3), dst_batch_strides=(1, 2))
    )


def copied_bytes(tb: NpuTestbench) -> list[Packet]:
    """A long row, at another alignment."""
    size = 16 * many()
    source = tb.place(tb.rng.integers(0, 256, size, dtype=np.uint8), "weight", offset=3)
    return list(memcpy_packets(source, tb.destination(size, offset=6), size))


def gathered_rows(tb: NpuTestbench) -> list[Packet]:
    """Many rows of a byte each."""
    count = many()
    table = tb.place(tb.rng.integers(0, 256, 999, dtype=np.uint8), "weight")
    indices = tb.place(tb.rng.integers(0, 999, count).astype(np.int32))
    return list(gather_packets(table, indices, tb.destination(count), count, 1, 999))


def gathered_indices(tb: NpuTestbench) -> list[Packet]:
    """Rows of a table as large as a region, around each power of two, and the last one."""
    table, places = WEIGHT.base, []
    for bit in range(16, 28):
        places += [(1 << bit) + beside for beside in (-1, 0, 1)]
    places.append(WEIGHT.size - 1)
    for place in places:
        tb.memory.write(table + place, tb.rng.integers(1, 256, 1, dtype=np.uint8))
    indices = tb.place(np.array(places, dtype=np.int32))
    return list(gather_packets(table, indices, tb.destination(len(places)), len(places), 1, WEIGHT.size))


def gathered_bytes(tb: NpuTestbench) -> list[Packet]:
    """Long rows, of any alignment."""
    size = 4 * many() + 1
    table = tb.place(tb.rng.integers(0, 256, 3 * size, dtype=np.uint8), "weight")
    indices = tb.place(np.array([2, 0, 1], dtype=np.int32))
    return list(gather_packets(table, indices, tb.destination(3 * size), 3, size, 3))


MOVES: dict[str, Callable[[NpuTestbench], list[Packet]]] = {
    maker.__name__: maker
    for maker in (
        copied_rows,
        copied_inner,
        copied_outer,
        copied_bytes,
        gathered_rows,
        gathered_indices,
        gathered_bytes,
    )
}


@npu_test(move=list(MOVES))
async def test_moves(tb: NpuTestbench, move: str) -> None:
    """One count of a MEMCPY or a GATHER."""
    assert await tb.run(MOVES[move](tb), timeout_cycles=TIMEOUT) == State.DONE


LARGEST = (1 << 32) - 1
_PRIMES = (3, 5, 17, 257)  # of LARGEST, with 65537


@npu_test()
async def test_far_rows(tb: NpuTestbench) -> None:
    """Rows of up to 2^32 - 1 elements, which are one segment in memory, and up to 15 passes. The first row
    shows its elements; the program waits for the second one, which never comes."""
    await load(tb, encoded(_LOOK))
    rng, cols = tb.random, 16
    data = tb.rng.integers(0, 256, 4 * cols, dtype=np.uint8)
    source, result = WEIGHT.base + (1 << 20), tb.alloc(8 * cols)
    tb.memory.write(source, data)
    for draw in range(16):
        size = rng.choice((1, 1, 2, 4))
        segs = (1 << rng.randint(7, 19)) + rng.choice((-1, 0, 1))
        seg_len = LARGEST // size // segs >> rng.choice((0, 0, 1, 4))
        if draw % 4 == 0:
            size, segs = 1, math.prod(rng.sample(_PRIMES, 3)) * rng.choice((1, 1, 2))
            seg_len = LARGEST // segs
        stream = Stream(source, seg_len, segs, size=size, pack=rng.random() < 0.7, passes=rng.randint(1, 15))
        tb.memory.write(result, np.full(8 * cols, 0xA5, dtype=np.uint8))
        tb.monitor.sync()
        tb.scoreboard.resynchronise(tb.memory.shared, [(result, result + 8 * cols)])
        command = vector_command(
            0, rows=2, cols=cols, inputs=[stream], output=Stream(result, row_stride=4 * cols)
        )
        await tb.commands.submit(command.packets())
        await Timer(1500 * CLOCK_NS, "ns")
        assert (await tb.state()).state == State.BUSY
        found = tb.memory.shared.bytes[result : result + 8 * cols]
        wanted = data.view({1: np.int8, 2: np.int16, 4: np.int32}[size])[:cols].astype(np.int32)
        assert np.array_equal(found[: 4 * cols].view(np.int32), wanted), stream
        assert (found[4 * cols :] == 0xA5).all(), stream
        tb.monitor.drop()  # the model would execute it to its end
        await give_up(tb, (result, 8 * cols))
    await tb.probe()
