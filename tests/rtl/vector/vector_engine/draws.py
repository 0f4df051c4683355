"""Random commands of the vector engine, of every kind, and what each of them must do."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.vector_command import INPUTS_OF_SCATTER, Descriptor, VectorCommand
from echo_npu.model.numerics import add_fp32
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.model.vector_control import ProgramFault
from echo_npu.model.vector_engine import VectorModel
from echo_npu.model.vector_scatter import first_bad_index, indices_of
from echo_npu.spec.instructions import BUILTIN_ENTRY, INPUTS
from echo_npu.vector.isa import OPERAND_CODES, Instruction, Op
from tb.blocks import parameter
from tests.rtl.streams import STREAM_BITS
from tests.rtl.vector.vector_core.commands import (
    LANES,
    ROW_ELEMENTS,
    VECTOR_LENGTH,
    UnfitError,
    walk,
)
from tests.rtl.vector.vector_core.commands import draw as draw_course
from tests.rtl.vector.vector_engine.commands import (
    COMMAND_WIDTHS,
    OUTPUT,
    EngineKind,
    Extent,
    command_bits,
    counted_stream,
    extent_of,
    program_stream,
)

BUS = parameter("DataWidth") // 8
PROGRAM_WORDS = parameter("ProgramWords")
LOAD_WORDS = BUS // 8
"""Words of a program in a beat."""
MEMORY_BYTES = 1 << 20
LARGEST = MEMORY_BYTES // 8
"""Most bytes from the first to the last of a stream."""
FAR = 1 << 16
"""A gap that an address of 16 bits does not bridge."""
FAR_ROW = 32
"""Bytes of a row of which not too many bridge it."""
MANY = 300
"""More than a counter of 8 bits counts."""
Counts = tuple[int, int, int]
"""Rows, inner and outer batches."""
MOST_READ = 100 * MANY
"""Elements of the inputs of a command with counts that are asked for, of all passes: each takes a clock."""

Memory = NDArray[np.uint8]


@dataclass(frozen=True)
class EngineJob:
    """A command and what it must do.

    Attributes:
        bits: the command as vector_command_t.
        base: what is added to addresses of the model for those of the device.
        reads: of each input the segments that may be read: first byte and bytes of each; none if it is not
            there. In this order if `ordered`.
        writes: the output; None if there is none.
        after: memory after the command. Undefined where it writes if it fails.
        fault: (by a row number, address); None if it succeeds.
        load: (first word, words) of a LOAD_PROGRAM.
        command: of a VECTOR command.
        numbers: of a gather or a scatter, the row numbers in order.
    """

    kind: EngineKind
    bits: int
    base: int
    reads: tuple[Extent | None, ...]
    ordered: list[int] | None
    writes: Extent | None
    after: Memory
    fault: tuple[bool, int] | None = None
    load: tuple[int, NDArray[np.uint64]] | None = None
    command: VectorCommand | None = None
    numbers: NDArray[np.int64] | None = None

    @property
    def large(self) -> bool:
        """Whether it has more rows or batches than eight bits count."""
        counts = self.numbers.size if self.numbers is not None else 0
        return counts >= MANY or (self.writes is not None and math.prod(self.writes.counts[1:]) >= MANY)


class Regions:
    """Disjoint parts of memory for the operands of a command, far apart and not."""

    def __init__(self) -> None:
        self._next = random.randrange(4096)

    def place(self, size: int, alignment: int) -> int:
        """Return the address of `size` free bytes. UnfitError: there is no room."""
        gap = random.choice((0, 1, 8, 100, random.randrange(FAR)))
        address = -(-(self._next + gap) // alignment) * alignment
        self._next = address + size
        if self._next > MEMORY_BYTES:
            raise UnfitError
        return address


def draw_base() -> int:
    """Draw the address of memory, which is a multiple of its size."""
    return random.choice((0, 0x1000_0000, 0x8FF0_0000, 0xFFF0_0000, random.getrandbits(12) << 20))


def _noise(bits: int) -> int:
    return random.getrandbits(bits)


def _absent() -> int:
    """Return a stream that is not enabled."""
    return _noise(STREAM_BITS) & ~1


def _bits(kind: EngineKind, streams: dict[int, int], **members: int) -> int:
    """Return a command in which everything that is not given is noise."""
    every = {name: _noise(width) for name, width in COMMAND_WIDTHS.items()}
    for stream in range(OUTPUT + 1):
        every[f"stream{stream}"] = streams.get(stream, _absent())
    return command_bits(**{**every, **members, "kind": kind})


# --- programs -----------------------------------------------------------------------------------------------


def plain_program(passes: int) -> Callable[[int, list[int]], list[Instruction]]:
    """Return the writer of a program that shows every element of its inputs, the last time of `passes`."""
    v0, v1, r0, a0, s0, out, iota = (
        OPERAND_CODES[name] for name in ("v0", "v1", "r0", "a0", "s0", "o", "iota")
    )

    def write(cols: int, streams: list[int]) -> list[Instruction]:
        mask = sum(1 << stream for stream in streams)
        listed = []
        for _ in range(passes - 1):
            listed.append(Instruction(Op.CHUNKS))
            listed += [Instruction(Op.IADD, a0 + stream, s0 + stream) for stream in streams]
            listed.append(Instruction(Op.NEXT, imm=mask))
        if passes > 1:
            listed += [Instruction(Op.FOLDIADD, r0 + stream, a0 + stream) for stream in streams]
        listed += [Instruction(Op.CHUNKS), Instruction(Op.MOV, v0, iota)]
        for stream in streams:
            listed.append(Instruction(Op.IADD, v1, s0 + stream, r0 + stream))
            listed.append(Instruction(Op.ISUB if stream == 2 else Op.XOR, v0, v1, v0))
        listed += [Instruction(Op.MOV, out, v0), Instruction(Op.NEXT, imm=mask), Instruction(Op.END)]
        return listed

    return write


def _apart(count: int, extent: int, size: int, *, loose: bool) -> int:
    """Draw a stride for `count` steps over `extent` bytes: dense, with a gap, and, if `loose`, any."""
    if count == 1:
        return 0
    if loose and random.random() < 0.35:
        return random.choice((0, 0, size, random.randrange(0, extent + 1, size)))
    return extent + size * random.choice((0, 0, 1, random.randint(1, 40), FAR // size * (extent < 100)))


def _laid_out(stream: Descriptor, counts: tuple[int, int, int], regions: Regions) -> Descriptor:
    """Give a stream a size of elements, strides and a place."""
    output, size = stream.passes == 0, random.choice((4, 4, 2, 1))
    length = stream.length
    divisors = [n for n in range(1, length + 1) if length % n == 0]
    if stream.segs == 1 and not stream.bcast and random.random() < 0.35:
        segs = random.choice((length, random.choice(divisors)))
        stream = replace(stream, segs=segs, seg_len=length // segs, pack=True)
    seg_stride = _apart(stream.segs, stream.seg_len * size, size, loose=not output)
    extent = (stream.segs - 1) * seg_stride + stream.seg_len * size
    strides, axes = [0, 0, 0], [0, 1, 2]
    if random.random() < 0.3:
        random.shuffle(axes)
    for axis in axes:
        loose = not output
        strides[axis] = _apart(counts[axis], extent, size, loose=loose)
        if output and counts[axis] > 1 and random.random() < 0.1:
            strides[axis] = random.randrange(size, extent + size, size)  # they overlap
        extent += (counts[axis] - 1) * strides[axis]
    if extent > LARGEST:
        raise UnfitError
    address = regions.place(extent, size)
    row, batch0, batch1 = strides
    return replace(
        stream,
        address=address,
        size=size,
        seg_stride=seg_stride,
        row_stride=row,
        batch_strides=(batch0, batch1),
    )


def draw_program(
    free: list[int], *, scatters: bool = False, counts: Counts | None = None
) -> tuple[VectorCommand, list[int]]:
    """Draw a VECTOR command and the words of its program.

    Args:
        free: entries for the program.
        scatters: it does.
        counts: how many rows and batches it has; None: any small numbers of them.
    """
    while True:
        try:
            return _draw_program(free, counts, scatters)
        except UnfitError:
            continue


def _draw_program(free: list[int], asked: Counts | None, scatters: bool) -> tuple[VectorCommand, list[int]]:
    plain = random.random() < 0.5
    share = random.choice((0.7, 0.7, 0.7, 1.0, 1.0, 0.0))
    passes = 1 if asked else random.choice((1, 1, 2, 3))
    course = draw_course(plain_program(passes) if plain or asked else None, share)
    while asked and course.command.cols > LANES:
        course = draw_course(plain_program(1))
    sound = 0.4 if scatters else 0.8
    while not (plain or asked) and course.outputs is None and random.random() < sound:
        course = draw_course()
    command, regions = course.command, Regions()
    if scatters and command.inputs[INPUTS_OF_SCATTER] is not None:
        raise UnfitError
    if asked:
        rows, *batch = asked
        read = sum(each.length * each.passes for each in command.inputs if each is not None)
        if read * math.prod(asked) > MOST_READ:
            raise UnfitError
        command = replace(command, rows=rows, batch=(batch[0], batch[1]))
    counts = (command.rows, *command.batch)
    inputs = [each and _laid_out(each, counts, regions) for each in command.inputs]
    output = _laid_out(command.output, counts, regions)
    words = [int(word) for word in course.programs.words[command.entry :]]
    fitting = [entry for entry in free if entry + len(words) <= PROGRAM_WORDS]
    if not fitting:
        raise UnfitError
    entry = random.choice(fitting)
    command = replace(
        command, entry=entry, inputs=(inputs[0], inputs[1], inputs[2], inputs[3]), output=output
    )
    if scatters:
        if output.segs > 1:
            raise UnfitError
        command = _scattered(command, regions)
    return command, words


def _scattered(command: VectorCommand, regions: Regions) -> VectorCommand:
    """Let a command scatter its rows into a table, by a list of indices of either size."""
    output, counts = command.output, (command.rows, *command.batch)
    table_rows = random.choice((1, 2, 7, random.randint(1, 100)))
    row = output.segment_bytes
    far = command.batch == (1, 1) and row >= FAR_ROW and random.random() < 0.6
    if far:
        table_rows = FAR // row + 9
    strides = [row if far else _apart(table_rows, row, output.size, loose=False)]
    extent = (table_rows - 1) * strides[0] + row
    for count in command.batch:
        strides.append(_apart(count, extent, output.size, loose=False))
        if count > 1 and random.random() < 0.3:
            strides[-1] = random.randrange(output.size, extent + output.size, output.size)  # they overlap
        extent += (count - 1) * strides[-1]
    words = random.choice((1, 2))
    listing = Descriptor(0, words, passes=1)
    steps, length = [], 4 * words
    for count in counts:
        steps.append(_apart(count, length, 4, loose=True))
        length += (count - 1) * steps[-1]
    if extent > LARGEST or length > LARGEST:
        raise UnfitError
    table = replace(
        output,
        address=regions.place(extent, output.size),
        row_stride=strides[0],
        batch_strides=(strides[1], strides[2]),
    )
    listing = replace(
        listing,
        address=regions.place(length, 4),
        row_stride=steps[0],
        batch_strides=(steps[1], steps[2]),
    )
    return replace(command, output=table, indices=listing, table_rows=table_rows)


def _place_indices(memory: Memory, command: VectorCommand, listing: Extent) -> None:
    """Write the indices of a scatter to memory, sometimes with a bad one; the last one at a place stays."""
    starts = listing.starts()
    source = np.random.default_rng(random.getrandbits(32))
    numbers = source.integers(0, command.table_rows, len(starts))
    numbers[random.randrange(numbers.size)] = command.table_rows - 1
    if random.random() < 0.2:
        numbers[random.randrange(numbers.size) :][:3] = numbers[0]
    if random.random() < 0.35:
        bad = random.choice((random.randrange(numbers.size), 0, numbers.size - 1))
        numbers[bad] = random.choice((-1, command.table_rows, -(2**31), 2**31 - 1))
        if listing.seg_bytes == 8 and random.random() < 0.5:
            numbers[bad] = random.choice((1, -1, 2**31 - 1)) << 32 | random.randrange(command.table_rows)
    for start, number in zip(starts, numbers.tolist(), strict=True):
        bits = number & (1 << 8 * listing.seg_bytes) - 1
        memory[start : start + listing.seg_bytes] = np.frombuffer(
            bits.to_bytes(listing.seg_bytes, "little"), np.uint8
        )


def program_job(memory: Memory, base: int, programs: ProgramMemory, command: VectorCommand) -> EngineJob:
    """Return the job of a VECTOR command. UnfitError: it is too long with what program memory holds."""
    walk(programs, command)
    rows, batch = command.rows, command.batch
    reads = tuple(None if each is None else extent_of(each, rows, batch) for each in command.sources)
    writes = extent_of(command.output, command.table_rows or rows, batch)
    numbers: NDArray[np.int64] | None = None
    bad: tuple[int, int] | None = None
    listing = reads[INPUTS_OF_SCATTER]
    if command.table_rows and listing is not None:
        _place_indices(memory, command, listing)
        bad = first_bad_index(memory, command)
        numbers = indices_of(memory, command, (0, 0, 0), (batch[1], batch[0], rows)).reshape(-1)
    after, fault = memory.copy(), bad and (True, base + bad[1])
    try:
        model = VectorModel(after, programs, VECTOR_LENGTH, ROW_ELEMENTS)
        if bad:
            model.check(command)
        else:
            model.execute(command)
    except ProgramFault as broken:
        fault = (False, broken.number)
    streams = {OUTPUT: program_stream(command.output, writes, base)}
    for stream, (descriptor, extent) in enumerate(zip(command.sources, reads, strict=True)):
        if descriptor is not None and extent is not None:
            streams[stream] = program_stream(descriptor, extent, base)
    bits = _bits(
        EngineKind.PROGRAM,
        streams,
        rows=rows,
        cols=command.cols,
        repeats=command.repeats,
        batch0=batch[0],
        batch1=batch[1],
        entry=command.entry,
        **{f"param{number}": value for number, value in enumerate(command.params)},
        table_rows=command.table_rows,
    )
    return EngineJob(
        EngineKind.PROGRAM, bits, base, reads, None, writes, after, fault, command=command, numbers=numbers
    )


def _floats(count: int) -> NDArray[np.float32]:
    source = np.random.default_rng(random.getrandbits(32))
    return (source.integers(-1000, 1000, count) / 8).astype(np.float32)


def add_job(memory: Memory, base: int) -> EngineJob:
    """Draw an ADD_TENSOR, also in place."""
    count = random.choice((1, 15, VECTOR_LENGTH, VECTOR_LENGTH + 1, random.randint(1, 4 * ROW_ELEMENTS)))
    regions = Regions()
    places = [regions.place(4 * count, 4) for _ in range(3)]
    if random.random() < 0.4:
        places[2] = random.choice(places[:2])
    if random.random() < 0.1:
        places[1] = places[0]
    first, second, result = (Extent(place, 4 * count, (1, 1, 1, 1), (0, 0, 0, 0)) for place in places)
    if random.random() < 0.7:
        for each in (first, second):
            memory[each.addr : each.end] = _floats(count).view(np.uint8)
    after = memory.copy()
    alpha = np.float32(random.choice((1, -1, 0.3, 0, random.uniform(-9, 9))))
    a, b = (memory[each.addr : each.end].view(np.float32) for each in (first, second))
    after[result.addr : result.end] = add_fp32(a, b, alpha).view(np.uint8)
    bits = _bits(
        EngineKind.PROGRAM,
        {
            0: counted_stream(first, count, base),
            1: counted_stream(second, count, base),
            OUTPUT: counted_stream(result, count, base),
        },
        rows=1,
        cols=count,
        repeats=1,
        batch0=1,
        batch1=1,
        entry=BUILTIN_ENTRY,
        param0=int(alpha.view(np.uint32)),
        table_rows=0,
    )
    return EngineJob(EngineKind.PROGRAM, bits, base, (first, second, None, None), None, result, after)


# --- commands without a program -----------------------------------------------------------------------------


def _row_bytes() -> int:
    return random.choice((1, BUS - 1, BUS, BUS + 1, random.randint(1, 4 * BUS), random.randint(1, 600)))


def copy_job(memory: Memory, base: int, many: float = 0.1) -> EngineJob:
    """Draw a MEMCPY with rows, batches and strides; with the chance `many` a count with more than eight
    bits."""
    while True:
        try:
            return _copy_job(memory, base, many)
        except UnfitError:
            continue


def _copy_job(memory: Memory, base: int, many: float) -> EngineJob:
    row, rows = _row_bytes(), random.choice((1, 1, 2, 3, random.randint(1, 12)))
    batch0, batch1 = random.choice(((1, 1), (1, 1), (2, 1), (1, 3), (3, 2)))
    if random.random() < many:
        row = random.randint(1, BUS)
        rows, batch0, batch1 = random.choice(((MANY, 1, 1), (MANY, 1, 1), (1, MANY, 1), (1, 1, MANY)))
    regions, extents = Regions(), []
    for output in (False, True):
        stride, extent = _apart(rows, row, 1, loose=False), row
        extent += (rows - 1) * stride
        strides = []
        for count in (batch0, batch1):
            strides.append(_apart(count, extent, 1, loose=not output))
            if output and count > 1 and random.random() < 0.1:
                strides[-1] = random.randint(1, extent)  # they overlap
            extent += (count - 1) * strides[-1]
        if extent > LARGEST:
            raise UnfitError
        counts = (rows, 1, batch0, batch1)
        extents.append(Extent(regions.place(extent, 1), row, counts, (stride, 0, strides[0], strides[1])))
    source, target = extents
    after = memory.copy()
    for start, end in zip(source.starts(), target.starts(), strict=True):
        after[end : end + row] = memory[start : start + row]
    bits = _bits(
        EngineKind.COPY,
        {0: counted_stream(source, row, base), OUTPUT: counted_stream(target, row, base)},
        rows=1,
        batch0=batch0,
        batch1=batch1,
    )
    return EngineJob(EngineKind.COPY, bits, base, (source, None, None, None), source.starts(), target, after)


def gather_job(memory: Memory, base: int, many: float = 0.1) -> EngineJob:
    """Draw a GATHER, sometimes with a bad row number; with the chance `many` more rows than eight bits
    count."""
    row, table_rows = _row_bytes(), random.choice((1, 2, 7, random.randint(1, 200)))
    count = random.choice((1, 2, BUS // 4, BUS // 4 + 1, random.randint(1, 30)))
    if row <= BUS and random.random() < many:
        count = MANY
    if random.random() < 0.2:
        table_rows = FAR // row + 9
    regions = Regions()
    table = Extent(regions.place(row * table_rows, 1), row, (table_rows, 1, 1, 1), (row, 0, 0, 0))
    indices = Extent(regions.place(4 * count, 4), 4 * count, (1, 1, 1, 1), (0, 0, 0, 0))
    target = Extent(regions.place(row * count, 1), row, (count, 1, 1, 1), (row, 0, 0, 0))
    source = np.random.default_rng(random.getrandbits(32))
    numbers = source.integers(0, table_rows, count)
    numbers[random.randrange(count)] = table_rows - 1
    fault = None
    if random.random() < 0.25:
        bad = random.choice((random.randrange(count), 0, count - 1))
        numbers[bad] = random.choice((-1, table_rows, -(2**31), 2**31 - 1, random.randint(-(2**31), -1)))
        fault = (True, base + indices.addr + 4 * bad)
    memory[indices.addr : indices.end] = numbers.astype(np.int32).view(np.uint8)
    after = memory.copy()
    if fault is None:
        rows = memory[table.addr : table.end].reshape(table_rows, row)
        after[target.addr : target.end] = rows[numbers].reshape(-1)
    bits = _bits(
        EngineKind.GATHER,
        {
            0: counted_stream(table, count, base),
            1: counted_stream(indices, count, base),
            OUTPUT: counted_stream(target, count, base),
        },
        rows=1,
        cols=table_rows,
        batch0=1,
        batch1=1,
    )
    wanted = [table.addr + row * int(number) for number in numbers]
    reads: tuple[Any, ...] = (table, indices, None, None)
    return EngineJob(EngineKind.GATHER, bits, base, reads, wanted, target, after, fault, numbers=numbers)


def load_job(memory: Memory, base: int, loaded: int, words: list[int], entry: int | None = None) -> EngineJob:
    """Return a LOAD_PROGRAM.

    Args:
        loaded: words of program memory that are loaded.
        words: those of a program; empty: noise of any length.
        entry: where they go; None: anywhere.
    """
    if not words:
        beats = (LOAD_WORDS - 1, LOAD_WORDS, LOAD_WORDS + 1, 2 * LOAD_WORDS, 2 * LOAD_WORDS + 1)
        count = max(1, random.choice((1, *beats, random.randint(1, 40))))
        if random.random() < 0.05:
            count = PROGRAM_WORDS
        words = [random.getrandbits(64) for _ in range(count)]
    if entry is None:
        most = PROGRAM_WORDS - len(words)
        near = (0, loaded, loaded + 1, loaded - 1, loaded - len(words), most, random.randint(0, most))
        entry = min(most, max(0, random.choice(near)))
    program = np.array(words, np.uint64)
    place = Regions().place(program.nbytes, 8)
    memory[place : place + program.nbytes] = program.view(np.uint8)
    source = Extent(place, program.nbytes, (1, 1, 1, 1), (0, 0, 0, 0))
    bits = _bits(
        EngineKind.LOAD,
        {0: counted_stream(source, len(words), base)},
        rows=1,
        batch0=1,
        batch1=1,
        entry=entry,
    )
    reads = (source, None, None, None)
    return EngineJob(EngineKind.LOAD, bits, base, reads, [place], None, memory.copy(), load=(entry, program))


def input_count(job: EngineJob) -> int:
    """Return how many inputs are there."""
    return sum(each is not None for each in job.reads[:INPUTS])
