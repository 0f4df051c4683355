"""Scatters: VECTOR commands whose rows go to the rows of a table that a list of indices names."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from cocotb.triggers import Timer
from numpy.typing import NDArray

from echo_npu.commands.packets import MAX_TABLE, NpuCommandPacket, Opcode, Packet
from echo_npu.commands.vector_command import RowIndices, Stream, VectorExtension
from echo_npu.spec.memory_map import ACTIVATION
from echo_npu.spec.status import ErrorCode, State
from echo_npu.vector.program import Builder, Program
from tb.drivers.commands import Path
from tb.drivers.registers import CLOCK_NS
from tb.testbench import NpuTestbench, npu_test, stalled
from tests.commands.outcomes import bus_error, failed, give_up, protect, refused, spoil

INDEX_TYPES = {"int32": np.int32, "int64": np.int64}


def copy_program(half: bool = False) -> Program:
    """Return a program that copies s0, or rounds it to float16."""
    b = Builder("half_rows" if half else "rows")
    x = b.stream(0)
    with b.chunks(advance=[x]):
        if half:
            b.f2h(b.out, x)
        else:
            b.mov(b.out, x)
    return b.build()


COPY, HALF = copy_program(), copy_program(half=True)


class ScatterTrial:
    """A scatter of random rows, with the table that it must leave.

    Args:
        indices: [batch1, batch0, rows], [batch0, rows] or [rows].
        cols: elements of a row.
        table_rows: of the table.
        half: rows of float32 become float16; else they are copied.
        gap: bytes between two rows of the table, a multiple of an element.
        shared: all batches write one table; else each has its own.
        spread: bytes between two indices.
    """

    def __init__(
        self,
        tb: NpuTestbench,
        indices: NDArray[Any],
        cols: int,
        table_rows: int,
        *,
        half: bool = False,
        gap: int = 0,
        shared: bool = False,
        spread: int = 0,
    ) -> None:
        self.tb = tb
        listed = indices.reshape((1,) * (3 - indices.ndim) + indices.shape)
        outer, inner, rows = listed.shape
        source = tb.floats(outer, inner, rows, cols)
        size = 2 if half else 4
        self.row, self.stride, self.table_rows = size * cols, size * cols + gap, table_rows
        table = (table_rows - 1) * self.stride + self.row
        apart = 0 if shared else table + (-table % size)
        strides = (apart or size, apart * inner or size)
        counts = (inner, outer)
        # A batch that writes the same table again begins an element further on: a stride of 0 is refused.
        steps = tuple(stride if count > 1 else 0 for stride, count in zip(strides, counts, strict=True))
        self.extent = table + (inner - 1) * steps[0] + (outer - 1) * steps[1]
        self.dst = tb.destination(self.extent, offset=size * tb.random.randrange(20))
        width = listed.itemsize + spread
        spaced = np.zeros((*listed.shape, width), np.uint8)
        spaced[..., : listed.itemsize] = (
            np.ascontiguousarray(listed).view(np.uint8).reshape(*listed.shape, -1)
        )
        self.list = tb.place(spaced, align=4, offset=4 * tb.random.randrange(20))
        self.expected = tb.memory.read(self.dst, self.extent).copy()
        values = source.astype(np.float16) if half else source
        for place in np.ndindex(listed.shape):
            index = int(listed[place])
            if 0 <= index < table_rows:
                start = place[0] * steps[1] + place[1] * steps[0] + index * self.stride
                self.expected[start : start + self.row] = values[place].view(np.uint8)
        self.program = HALF if half else COPY
        self.fields: dict[str, Any] = {
            "rows": rows,
            "cols": cols,
            "batch": counts,
            "inputs": [
                Stream(
                    tb.place(source),
                    row_stride=4 * cols,
                    batch_strides=(4 * cols * rows, 4 * cols * rows * inner),
                )
            ],
            "output": Stream(self.dst, size=size, row_stride=self.stride, batch_strides=steps),
            "indices": RowIndices(
                self.list,
                table_rows,
                listed.itemsize == 8,
                width,
                (width * rows, width * rows * inner),
            ),
        }

    @property
    def packets(self) -> list[Packet]:
        """The command; its program is loaded."""
        return self.tb.vector_packets(self.program, **self.fields)

    def check(self) -> None:
        """Compare memory with the rows that the test itself has placed."""
        found = self.tb.memory.read(self.dst, self.extent)
        assert np.array_equal(found, self.expected), "rows are not where their indices say"


async def run_all(tb: NpuTestbench, trials: Sequence[ScatterTrial], via: Path = "ring") -> None:
    """Run scatters behind one another, and check them all."""
    await tb.load_programs(COPY, HALF)
    assert await tb.run([packet for trial in trials for packet in trial.packets], via) == State.DONE
    for trial in trials:
        trial.check()


def drawn(tb: NpuTestbench, kind: str, table_rows: int, *shape: int) -> NDArray[Any]:
    """Draw indices, the first and the last row of the table among them where there is room."""
    found = tb.rng.integers(0, table_rows, shape).astype(INDEX_TYPES[kind])
    found.reshape(-1)[tb.random.randrange(found.size)] = table_rows - 1
    return found


@npu_test(kind=list(INDEX_TYPES), via=["window", "ring"])
async def test_row_sizes(tb: NpuTestbench, kind: str, via: Path) -> None:
    """Rows around the lanes, the bus and a chunk, float32 and float16, in tables of any height."""
    lanes, length = tb.config.vector_lanes, tb.config.vector_length
    trials = []
    for cols in (1, 2, lanes - 1, lanes, lanes + 1, 33, length, length + 1, 3 * length + 5):
        rows, table_rows = tb.random.choice((1, 2, 9, 40)), tb.random.choice((1, 2, 33))
        gap = 4 * tb.random.choice((0, 0, 1, 7))
        spread = 4 * tb.random.choice((0, 0, 1, 5))
        indices = drawn(tb, kind, table_rows, rows)
        half = tb.random.random() < 0.5
        trials.append(ScatterTrial(tb, indices, cols, table_rows, half=half, gap=gap, spread=spread))
    await run_all(tb, trials, via)


@npu_test(kind=list(INDEX_TYPES))
async def test_many_rows(tb: NpuTestbench, kind: str) -> None:
    """Far more rows than are in flight: in order, backwards, all to one row, to two in turn, and anywhere."""
    height, dtype = 500, INDEX_TYPES[kind]
    wanted = (np.arange(height), np.arange(height)[::-1], np.full(height, 5), np.arange(height) % 2 * 499)
    trials = [
        ScatterTrial(tb, each.astype(dtype), 5, height, half=bool(n % 2)) for n, each in enumerate(wanted)
    ]
    trials.append(ScatterTrial(tb, drawn(tb, kind, 50, 2000), 1, 50))
    await run_all(tb, trials)


@npu_test(kind=list(INDEX_TYPES), shared=[False, True])
async def test_batches(tb: NpuTestbench, kind: str, shared: bool) -> None:
    """Each batch has its table and list, or all overlap: then the later batch wins, byte by byte."""
    trials = []
    for shape in ((2, 7), (5, 1), (3, 1, 6), (3, 2, 4), (1, 4, 1)):
        trials.append(ScatterTrial(tb, drawn(tb, kind, 9, *shape), 11, 9, half=True, gap=6, shared=shared))
    await run_all(tb, trials)


@npu_test()
async def test_shared_lists(tb: NpuTestbench) -> None:
    """A list that all batches use, and one index for all rows: strides of 0."""
    trial = ScatterTrial(tb, np.tile(drawn(tb, "int32", 6, 5), (3, 1)), 8, 6)
    old = trial.fields["indices"]
    trial.fields["indices"] = dataclasses.replace(old, batch_strides=(0, 0))
    same = ScatterTrial(tb, np.full(30, 3, np.int64), 8, 6)
    same.fields["indices"] = dataclasses.replace(same.fields["indices"], row_stride=0)
    await run_all(tb, [trial, same])


@npu_test()
async def test_a_high_table(tb: NpuTestbench) -> None:
    """Rows far from the table's beginning: all bits of an index and of a row stride count."""
    trials = []
    for table_rows, stride in ((1 << 20, 16), (3, 1 << 22), (70_000, 100)):
        indices = np.array([0, table_rows - 1, table_rows // 2, 1], np.int64)
        trial = ScatterTrial(tb, indices, 3, table_rows, gap=stride - 12)
        trials.append(trial)
    await run_all(tb, trials)


@npu_test()
async def test_large_counts(tb: NpuTestbench) -> None:
    """More rows, and more batches, than counters of 16 or of 8 bits hold; fewer if memory stalls."""
    count = 1 << (10 if stalled() else 16)
    rows = ScatterTrial(tb, drawn(tb, "int32", 7, count + 3), 1, 7)
    batches = ScatterTrial(tb, drawn(tb, "int64", 3, 2, 300, 1), 1, 3, half=True, shared=True)
    await run_all(tb, [rows, batches])


@npu_test()
async def test_one_row(tb: NpuTestbench) -> None:
    """A table of one row has no stride; one row of a high table has one."""
    single = ScatterTrial(tb, np.zeros(9, np.int32), 10, 1)
    single.fields["output"] = dataclasses.replace(single.fields["output"], row_stride=4)
    await run_all(tb, [single, ScatterTrial(tb, np.array([77], np.int64), 10, 100, half=True)])


@npu_test(via=["window", "ring"])
async def test_neighbours(tb: NpuTestbench, via: Path) -> None:
    """The command before writes the indices, the rows or the table; the one behind reads the table."""
    await tb.load_programs(COPY, HALF)
    trial = ScatterTrial(tb, drawn(tb, "int64", 12, 30), 17, 12)
    again = ScatterTrial(tb, drawn(tb, "int32", 12, 3), 17, 12)
    # Both write one table.
    again.fields["output"] = trial.fields["output"]
    indices, out = tb.memory.read(trial.list, 240), tb.destination(trial.extent)
    tb.memory.write(trial.list, np.zeros(240, np.uint8))
    packets: list[Packet] = [
        NpuCommandPacket(Opcode.MEMCPY, 0, tb.place(indices), 0, trial.list, m=240),
        *trial.packets,
        *again.packets,
        NpuCommandPacket(Opcode.MEMCPY, 0, trial.dst, 0, out, m=trial.extent),
        NpuCommandPacket(Opcode.MEMCPY, 0, trial.dst, 0, trial.list, m=240),
    ]
    assert await tb.run(packets, via) == State.DONE
    assert np.array_equal(tb.memory.read(out, trial.extent), tb.memory.read(trial.dst, trial.extent))


@npu_test(kind=list(INDEX_TYPES), via=["window", "ring"])
async def test_bad_index(tb: NpuTestbench, kind: str, via: Path) -> None:
    """The first bad index gives BAD_INDEX with its address, in any batch; later commands are not executed."""
    await tb.load_programs(COPY, HALF)
    height, shape = 10, (2, 3, 10)
    values = [-1, height, 2**31 - 1, -(2**31)]
    if kind == "int64":
        values += [1 << 32, (1 << 32) + 3, -(1 << 32), (1 << 63) - 1, -(2**63), 5 - (1 << 32)]
    for value in values:
        place = tb.random.choice((0, 1, 17, 59))
        wanted = drawn(tb, kind, height, 60)
        wanted[place] = value
        wanted[tb.random.randrange(place, 60)] = value
        trial = ScatterTrial(tb, wanted.reshape(shape), tb.random.choice((3, 70)), height)
        behind = ScatterTrial(tb, drawn(tb, kind, height, 4), 5, height)
        address = trial.list + place * wanted.itemsize
        await refused(
            tb, [*trial.packets, *behind.packets], ErrorCode.BAD_INDEX, address, via=via, name=value
        )
    await run_all(tb, [ScatterTrial(tb, drawn(tb, kind, height, 20), 9, height)], via)


@npu_test()
async def test_a_bad_first_index_of_long_rows(tb: NpuTestbench) -> None:
    """The first row has no place and is longer than the queue: the program ends it, then the index fails."""
    await tb.load_programs(COPY, HALF)
    cols = 20 * tb.config.vector_length
    for value in (-1, 2):
        trial = ScatterTrial(tb, np.array([value, 0], np.int32), cols, 2)
        await refused(tb, trial.packets, ErrorCode.BAD_INDEX, trial.list)


@npu_test()
async def test_a_bad_program_comes_before_a_bad_index(tb: NpuTestbench) -> None:
    """A program that breaks a rule is the error, whatever the indices are, in short and in long rows."""
    for cols in (3, 20 * tb.config.vector_length):
        b = Builder("late_fault")
        x, indices = b.stream(0), b.stream(3)
        with b.chunks(advance=[x]):
            b.mov(b.out, x)
        b.mov(b.vector(), indices)
        program = b.build()
        await tb.load_programs(program)
        for first in (0, -1):
            trial = ScatterTrial(tb, np.array([first, -1], np.int64), cols, 2)
            trial.program = program
            await tb.commands.submit(trial.packets, "window")
            await failed(tb, ErrorCode.BAD_PROGRAM)


@npu_test()
async def test_limits_of_memory(tb: NpuTestbench) -> None:
    """The table may end with its region. Its last row counts as written, whether or not an index names it."""
    await tb.load_programs(COPY, HALF)
    trial = ScatterTrial(tb, np.zeros(2, np.int32), 4, 5, gap=48)
    extent = 4 * 64 + 16
    for past, code in ((0, None), (16, ErrorCode.OUT_OF_RANGE)):
        address = ACTIVATION.end - extent + past
        trial.fields["output"] = dataclasses.replace(trial.fields["output"], address=address)
        if code is None:
            assert await tb.run(trial.packets) == State.DONE
        else:
            await refused(tb, trial.packets, code, address)
    # The most rows that there can be.
    small = ScatterTrial(tb, np.zeros(2, np.int32), 1, 2)
    small.fields["indices"] = dataclasses.replace(small.fields["indices"], table_rows=MAX_TABLE)
    await refused(tb, small.packets, ErrorCode.OUT_OF_RANGE, small.dst)


@npu_test()
async def test_protected_and_overlapping_tables(tb: NpuTestbench) -> None:
    """Any byte from the first to the last row counts, also one that no index names."""
    await tb.load_programs(COPY, HALF)
    trial = ScatterTrial(tb, np.array([0, 1], np.int32), 4, 9, gap=48)
    last = 8 * 64
    base = tb.alloc(1 << 12, align=64)
    for moved, code in (
        (-last, ErrorCode.PROTECTED),
        (-last - 64, None),
        (64, None),
        (63 // 4 * 4, ErrorCode.PROTECTED),
    ):
        guard = base + 2048
        await protect(tb, guard, 64)
        output = dataclasses.replace(trial.fields["output"], address=guard + moved)
        packets = tb.vector_packets(COPY, **{**trial.fields, "output": output})
        if code is None:
            assert await tb.run(packets) == State.DONE
        else:
            await refused(tb, packets, code, guard + moved)
        await protect(tb, 0, 0)
    source, listing = trial.fields["inputs"][0], trial.list
    for place, nbytes in ((source.address, 32), (listing, 8)):
        for address in (place, place + nbytes - 4, place - last - 12, place - last):
            output = dataclasses.replace(trial.fields["output"], address=address)
            packets = tb.vector_packets(COPY, **{**trial.fields, "output": output})
            await refused(tb, packets, ErrorCode.OVERLAP, address)


def changed(packets: list[Packet], name: str, place: int, value: int) -> list[Packet]:
    """Return a command with another word in its extensions."""
    extension = VectorExtension.unpack([bytes(each) for each in packets[1:]])
    words = list(extension.words)
    words[{"low": 17, "high": 33, "head": 0}[name] + place] = value
    return [packets[0], *VectorExtension(tuple(words)).pack()]


@npu_test()
async def test_refusals(tb: NpuTestbench) -> None:
    """Each rule of the list of indices and of the output, broken alone."""
    await tb.load_programs(COPY, HALF)
    trial = ScatterTrial(tb, drawn(tb, "int32", 8, 5), 6, 8)
    sound = 1 | 1 << 20 | 1 << 28  # segs, passes, enable
    last, length = 23 - 15, 22 - 15  # words of s3's descriptor in the second half
    stride, out_last = 24 - 15, 29 - 15
    for place, value in (
        (last, sound & ~(1 << 28)),  # not enabled
        (last, sound + 1),  # two segments
        (last, sound + (1 << 20)),  # two passes
        (last, sound | 1 << 24),  # elements of 2 bytes
        (last, sound | 2 << 24),
        (last, sound | 1 << 26),  # packed
        (last, sound | 1 << 27),  # broadcast
        (length, 3),
        (length, 0x8000_0001),
        (stride, 20),  # rows of the table overlap
        (stride, 0),
        (stride, 26),  # no multiple of an element
        (out_last, 2 | 1 << 28),  # an output of two segments
    ):
        packets = changed(trial.packets, "high", place, value)
        await refused(tb, packets, ErrorCode.BAD_EXTENSION, 0, name=(place, value))
    for value in (MAX_TABLE + 1, 0xFFFF_FFFF):
        await refused(tb, changed(trial.packets, "head", 15, value), ErrorCode.BAD_EXTENSION, 0)
    # One row of output still has the table's stride.
    one = ScatterTrial(tb, np.array([3], np.int32), 6, 8)
    for value in (20, 26):
        await refused(tb, changed(one.packets, "high", stride, value), ErrorCode.BAD_EXTENSION, 0)
    odd = changed(trial.packets, "head", 5, trial.list + 2)
    await refused(tb, odd, ErrorCode.MISALIGNED, trial.list + 2)
    await run_all(tb, [trial])


@npu_test()
async def test_bus_errors(tb: NpuTestbench) -> None:
    """Memory refuses an index, a row of the source or a row of the table: the error of the burst."""
    await tb.load_programs(COPY, HALF)
    for place in ("list", "source", "table"):
        trial = ScatterTrial(tb, drawn(tb, "int32", 8, 40), 6, 8)
        where = {
            "list": trial.list + 80,
            "source": trial.fields["inputs"][0].address + 480,
            "table": trial.dst,
        }
        spoil(tb, where[place], 4 if place != "table" else trial.extent, write=place == "table")
        code = ErrorCode.WRITE_RESPONSE if place == "table" else ErrorCode.READ_RESPONSE
        await bus_error(tb, trial.packets, code, "window", (await tb.state()).retired)
        await tb.probe()
        await tb.restart()
    await run_all(tb, [ScatterTrial(tb, drawn(tb, "int64", 8, 9), 6, 8)])


@npu_test()
async def test_soft_reset_in_the_middle(tb: NpuTestbench) -> None:
    """A scatter that is given up leaves nothing behind, wherever it was; the next one is whole."""
    await tb.load_programs(COPY, HALF)
    for _ in range(6):
        trial = ScatterTrial(tb, drawn(tb, "int32", 40, 300), 6, 40)
        await tb.commands.submit(trial.packets, "window")
        await Timer(tb.random.randrange(20, 400) * CLOCK_NS, "ns")
        await give_up(tb, (trial.dst, trial.extent))
        await run_all(tb, [ScatterTrial(tb, drawn(tb, "int64", 8, 9), 6, 8)])
