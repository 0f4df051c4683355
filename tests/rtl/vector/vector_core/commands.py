"""Random commands of the vector engine with their programs, and their results by the functional model."""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.vector_command import Descriptor, VectorCommand
from echo_npu.model.program_memory import Decoded, ProgramMemory
from echo_npu.model.vector_control import OutputPlace, ProgramFault, Sequencer
from echo_npu.model.vector_engine import VectorModel
from echo_npu.spec.instructions import INPUTS
from echo_npu.vector.isa import (
    ACCUMULATING,
    CHUNK_MULTIPLE,
    OPERAND_CODES,
    Form,
    Instruction,
    Kind,
    Op,
    form_of,
    kind_of,
    source_count,
)
from tb.blocks import parameter
from tests.rtl.vector.special import SPECIAL
from tests.rtl.windows import Shape

LANES, VECTOR_LENGTH, ROW_ELEMENTS = (parameter(name) for name in ("Lanes", "VectorLength", "RowElements"))
PROGRAM_WORDS = 128
MOST_WORDS = 400
"""Limit of the words that a row issues."""
ANY_PASSES = 1 << 20
MOST_PASSES = 15
MEMORY_BYTES = 1 << 18

_V0, _R0, _S0, _A0, _W0, _OUT, _IMM, _IOTA = (
    OPERAND_CODES[name] for name in ("v0", "r0", "s0", "a0", "w0", "o", "imm", "iota")
)
_COUNTERS = [OPERAND_CODES[name] for name in ("row", "batch0", "batch1", "cols", "rep")]
_PARAMETERS = [OPERAND_CODES[f"p{i}"] for i in range(8)]
_LANE_OPS = [op for op in Op if form_of(op) == Form.ALU]
_FOLDS = [op for op in Op if form_of(op) == Form.FOLD]
# Values stay distinct under these; float32 operations would soon give only NaN.
_BITS = [Op.MOV, Op.SWAP, Op.IADD, Op.ISUB, Op.XOR, Op.SEL]
_SPECIAL_FLOATS = (0, 1, 0x8000_0000, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0x3F80_0000, 0x80_0000)
_SPECIAL = (*_SPECIAL_FLOATS, 0xFFFF_FFFF, 0x7FFF_FFFF)


class ProgramRule(Enum):
    """The rules that a running program can break."""

    LOADED = "an instruction behind what is loaded"
    OPCODE = "an unknown opcode"
    OPERAND = "an operand that the opcode may not have"
    CHUNKS = "a chunk loop in another"
    REPEAT = "a repeat loop in another"
    NEXT = "NEXT without a loop"
    END = "END in a loop"
    INCOMPLETE = "END with an incomplete output"
    ABSENT = "a read of a stream that is not there"
    USED_UP = "a read of a stream whose passes are used up"
    ROW = "a row register beyond its end"
    OUT_COMPLETE = "a write to an output that is complete"
    OUT_PLACE = "a write in the midst of sixteen elements of the output"
    OUT_END = "a write across the end of a segment"


@dataclass(frozen=True)
class ReachedInstruction:
    """An instruction in the course of a row.

    Attributes: number (in program memory), decoded (None if it is illegal), elements (of the
    chunk), base (first element of the chunk), rep, windows ((segment, offset, passes made) of each stream
    that is there), done (elements of the output's row written before), broken (the rule it breaks).
    """

    number: int
    decoded: Decoded | None
    elements: int
    base: int
    rep: int
    windows: tuple[tuple[int, int, int] | None, ...]
    done: int
    broken: ProgramRule | None = None

    @property
    def control(self) -> bool:
        """It has no words."""
        return self.decoded is not None and self.decoded.form in (Form.LOOP, Form.STEP, Form.END)

    @property
    def words(self) -> int:
        """Estimate how many words it issues, or clocks it takes."""
        if self.decoded is None or self.control:
            return 1
        if self.decoded.form == Form.FOLD:
            return CHUNK_MULTIPLE
        return 1 if self.decoded.single else -(-self.elements // LANES)


@dataclass(frozen=True)
class CommandCourse:
    """A command, the steps of each of its rows, and the expected results.

    Attributes: steps (the same in each row; the last one is END or breaks a rule), inputs (of each stream
    that is there int32 [rows, segments, length]), outputs (uint32 [rows, elements]; None if a rule is
    broken).
    """

    command: VectorCommand
    programs: ProgramMemory
    steps: tuple[ReachedInstruction, ...]
    inputs: tuple[NDArray[np.int32] | None, ...]
    outputs: NDArray[np.uint32] | None

    @property
    def rows(self) -> int:
        """Of all batches."""
        return self.command.rows * self.command.batch[0] * self.command.batch[1]

    def shape(self, stream: int) -> Shape:
        """Return how programs see an enabled stream."""
        descriptor = self.command.inputs[stream]
        assert descriptor is not None
        return Shape(
            LANES, VECTOR_LENGTH, descriptor.length, descriptor.segments, descriptor.passes, descriptor.bcast
        )


class UnfitError(Exception):
    """A random choice that gives no usable command."""


class _Watched(ProgramMemory):
    """Program memory that records the last fetched word."""

    def __init__(self, programs: ProgramMemory, fetched: Callable[[int], None]) -> None:
        super().__init__(programs.size)
        self.load(0, programs.words)
        self._fetched = fetched

    def __getitem__(self, number: int) -> Decoded | None:
        self._fetched(number)
        return super().__getitem__(number)


class _AnyPlace(OutputPlace):
    """An output that takes everything, to record what a program writes.

    Attributes: sizes (of the writes).
    """

    def __init__(self) -> None:
        super().__init__(1 << 40, 1)
        self.sizes: list[int] = []

    @property
    def complete(self) -> bool:
        return True

    def takes(self, elements: int) -> bool:
        return True

    def advance(self, elements: int) -> None:
        self.sizes.append(elements)


def walk(
    programs: ProgramMemory, command: VectorCommand, place: OutputPlace | None = None
) -> list[ReachedInstruction]:
    """Return what the functional model executes in a row. UnfitError: it is too long."""
    steps: list[ReachedInstruction] = []
    words = 0

    def fetched(number: int) -> None:
        nonlocal words
        decoded = programs[number]
        elements = min(VECTOR_LENGTH, command.cols - sequencer.base)
        windows = tuple(each and (each.segment, each.offset, each.turn) for each in sequencer.windows)
        done = sequencer.place.segment * sequencer.place.length + sequencer.place.offset
        steps.append(
            ReachedInstruction(number, decoded, elements, sequencer.base, sequencer.rep, windows, done)
        )
        words += steps[-1].words
        if words > MOST_WORDS:
            raise UnfitError

    sequencer = Sequencer(_Watched(programs, fetched), command, VECTOR_LENGTH, ROW_ELEMENTS)
    if place is not None:
        sequencer.place = place
    try:
        for _ in sequencer:
            pass
    except ProgramFault:
        steps[-1] = replace(steps[-1], broken=_broken(programs, steps[-1], command, sequencer.place))
    return steps


def _broken(
    programs: ProgramMemory, step: ReachedInstruction, command: VectorCommand, place: OutputPlace
) -> ProgramRule:
    """Return the rule that a faulting instruction breaks."""
    decoded = step.decoded
    if decoded is None:
        if step.number >= programs.loaded:
            return ProgramRule.LOADED
        known = int(programs.words[step.number]) & 0x7F in set(Op)
        return ProgramRule.OPERAND if known else ProgramRule.OPCODE
    instruction = decoded.instruction
    if decoded.form == Form.END:
        return ProgramRule.END if place.complete else ProgramRule.INCOMPLETE
    if decoded.form in (Form.LOOP, Form.STEP):
        return ProgramRule[instruction.op.name]
    for stream in decoded.streams:
        window, descriptor = step.windows[stream], command.inputs[stream]
        if window is None or descriptor is None:
            return ProgramRule.ABSENT
        if window[2] >= descriptor.passes:
            return ProgramRule.USED_UP
    if decoded.row_register and step.base + (1 if decoded.single else step.elements) > ROW_ELEMENTS:
        return ProgramRule.ROW
    if place.complete:
        return ProgramRule.OUT_COMPLETE
    return ProgramRule.OUT_PLACE if place.offset % 16 else ProgramRule.OUT_END


# --- programs -----------------------------------------------------------------------------------------------


class _Style(Enum):
    """The way in which a program writes its output so that the writes fill segments."""

    ANYWHERE = 0
    IN_CHUNKS = 1
    OUTSIDE = 2
    SINGLE = 3


class _Writer:
    """Writes a random program, mostly a legal one, for a number of columns and these streams."""

    def __init__(self, cols: int, streams: list[int]) -> None:
        self._cols, self._streams = cols, streams
        if cols <= VECTOR_LENGTH or cols % VECTOR_LENGTH == 0:
            self._style = random.choice((_Style.ANYWHERE, _Style.ANYWHERE, _Style.SINGLE))
        else:
            self._style = random.choice(list(_Style)[1:])
        self._vectors = random.sample(range(_V0, _V0 + 16), random.choice((2, 3, 5, 16)))
        self._scalars = random.sample(range(_R0, _R0 + 16), random.choice((2, 3, 16)))
        self._accumulators = random.sample(range(_A0, _A0 + 4), random.choice((1, 2, 4)))
        self._recent: deque[int] = deque(maxlen=3)
        self._ops = random.choice(
            (_LANE_OPS, _BITS + _LANE_OPS, 4 * _BITS + _LANE_OPS, 10 * [*SPECIAL] + _LANE_OPS)
        )
        # A word of a row register in a later chunk is waited for only if it is alone.
        self._in_rows = VECTOR_LENGTH < cols <= ROW_ELEMENTS and random.random() < 0.5
        self._rows_share, self._ones_share = (
            (0.6, 0.6) if self._in_rows else (0.1, random.choice((0.05, 0.5)))
        )
        self._beyond = random.random() < 0.1  # row registers are used where they may end
        self._chunks = self._repeat = False
        self._written = False  # to the output, in this chunk loop

    def program(self) -> list[Instruction]:
        """With END."""
        begin = self._loop() if self._in_rows else []
        return [*begin, *self._block(random.randint(2, 9)), Instruction(Op.END)]

    def _block(self, count: int) -> list[Instruction]:
        listed: list[Instruction] = []
        for _ in range(count):
            if not (self._chunks and self._repeat) and random.random() < 0.2:
                listed += self._loop()
            elif random.random() < 0.05:
                listed.append(Instruction(Op.ADVANCE, imm=self._mask()))
            elif random.random() < 0.08:
                listed += self._in_part()
            else:
                listed.append(self._data())
        return listed

    def _loop(self) -> list[Instruction]:
        chunks = not self._chunks if self._repeat or self._chunks else random.random() < 0.7
        if chunks:
            self._chunks, self._written = True, False
        else:
            self._repeat = True
        body = self._block(random.choice((0, 1, 2, 3, 5)))
        if chunks:
            self._chunks = False
        else:
            self._repeat = False
        return [
            Instruction(Op.CHUNKS if chunks else Op.REPEAT),
            *body,
            Instruction(Op.NEXT, imm=self._mask()),
        ]

    def _mask(self) -> int:
        return random.choice((0xF, random.getrandbits(4), 0)) | random.getrandbits(28) << 4

    def _data(self) -> Instruction:
        chance = random.random()
        if chance < 0.06:
            a = random.choice((random.choice(self._scalars), _IMM, *_COUNTERS, *_PARAMETERS))
            return Instruction(Op.ASET, dst=random.choice(self._accumulators), a=a, imm=_number())
        if chance < 0.12:
            dst = self._note(random.choice(self._scalars))
            return Instruction(random.choice(_FOLDS), dst, a=random.choice(self._accumulators))
        op = random.choice(self._ops)
        if random.random() < 0.12:
            op = random.choice(list(ACCUMULATING))
            dst = random.choice(self._accumulators)
        else:
            dst = self._destination()
        one = random.random() < self._ones_share if dst != _OUT else self._style == _Style.SINGLE
        # Writes to the output show the latest results.
        near = 0.8 if dst == _OUT else 0.5
        sources = [self._source(op, near) for _ in range(source_count(op, dst))]
        self._note(dst)
        return _instruction(op, dst, sources, one)

    def _in_part(self) -> list[Instruction]:
        """Write a register, then its first element alone, and show it."""
        rows = [_W0, _W0 + 1] if self._rows_fit() else []
        dst = random.choice((random.choice(self._vectors), *rows))
        listed = []
        for one in (False, True):
            op = random.choice([Op.IADD, Op.ISUB, Op.XOR])
            sources = [self._source(op, 0.3) for _ in range(source_count(op, dst))]
            listed.append(_instruction(op, dst, sources, one))
        self._note(dst)
        if self._output_here():
            listed.append(_instruction(Op.MOV, _OUT, [dst], self._style == _Style.SINGLE))
        return listed

    def _output_here(self) -> bool:
        """Whether the output may be written here; then it is."""
        wanted = {
            _Style.ANYWHERE: True,
            _Style.SINGLE: True,
            _Style.IN_CHUNKS: self._chunks and not self._written,
            _Style.OUTSIDE: not self._chunks,
        }
        self._written |= wanted[self._style]
        return wanted[self._style]

    def _destination(self) -> int:
        if random.random() < 0.35 and self._output_here():
            return _OUT
        chance = random.random()
        if chance < self._rows_share and self._rows_fit():
            return random.choice((_W0, _W0 + 1))
        return random.choice(self._scalars if chance > 0.72 else self._vectors)

    def _rows_fit(self) -> bool:
        return self._cols <= ROW_ELEMENTS or not self._chunks or self._beyond

    def _note(self, dst: int) -> int:
        if kind_of(dst) in (Kind.VECTOR, Kind.SCALAR, Kind.ROW_REGISTER):
            self._recent.append(dst)
        return dst

    def _source(self, op: Op, near: float) -> int:
        fits = [code for code in self._recent if self._rows_fit() or kind_of(code) != Kind.ROW_REGISTER]
        if op == Op.SWAP:
            fits = [code for code in fits if kind_of(code) != Kind.SCALAR]
        if fits and random.random() < near:
            return random.choice(fits)
        streams = [_S0 + stream for stream in self._streams]
        rows = [_W0, _W0 + 1] if self._rows_fit() else []
        kinds = [self._vectors, streams, streams, rows]
        if op != Op.SWAP:
            kinds += [self._scalars, self._vectors, [_IMM], [_IOTA], _COUNTERS, _PARAMETERS]
        return random.choice(random.choice([codes for codes in kinds if codes]))


def _instruction(op: Op, dst: int, sources: list[int], one: bool) -> Instruction:
    """With noise in the fields that are not used."""
    fields = [*sources, *(random.choice((0, random.getrandbits(6))) for _ in range(3 - len(sources)))]
    return Instruction(op, dst, *fields, imm=_number(), one=one)


def _number() -> int:
    """Draw 32 bits that are meaningful as an integer or as a float32."""
    small = random.randint(-9, 40)
    as_float = int(np.float32(small / 8).view(np.uint32))
    return random.choice((small & 0xFFFF_FFFF, as_float, random.getrandbits(32), random.choice(_SPECIAL)))


def _numbers(count: int) -> NDArray[np.uint32]:
    chance = random.random()
    source = np.random.default_rng(random.getrandbits(32))
    if chance < 0.3:
        return (source.integers(-64, 64, count).astype(np.float32) / 8).view(np.uint32)
    if chance < 0.55:
        return source.integers(-9, 40, count).astype(np.int32).view(np.uint32)
    bits: NDArray[np.uint32] = source.integers(0, 1 << 32, count, np.uint32)
    if chance > 0.85:
        special = source.choice(np.array(_SPECIAL, np.uint32), count)
        bits = np.where(source.random(count) < 0.5, special, bits)
    return bits


# --- commands -----------------------------------------------------------------------------------------------


def draw(
    write: Callable[[int, list[int]], list[Instruction]] | None = None, share: float = 0.7
) -> CommandCourse:
    """Draw a command, mostly a legal one.

    Args:
        write: returns the program, with END, for a number of columns and the numbers of the input streams; it
            must be legal. None: a random one.
        share: the chance of each input stream.
    """
    while True:
        try:
            return _draw(write, share)
        except UnfitError:
            continue


def _draw(write: Callable[[int, list[int]], list[Instruction]] | None, share: float) -> CommandCourse:
    longest = 3 * VECTOR_LENGTH
    cols = random.choice(
        (
            random.choice((1, 2, LANES, LANES + 1, 16)),
            random.randint(1, VECTOR_LENGTH),
            VECTOR_LENGTH * random.randint(1, 3),
            VECTOR_LENGTH * random.randint(1, 2) + random.randint(1, 2 * LANES),
            random.randint(VECTOR_LENGTH, longest),
            random.randint(1, longest),
        )
    )
    streams = [stream for stream in range(INPUTS) if random.random() < share]
    listed = write(cols, streams) if write else _Writer(cols, streams).program()
    if not write and random.random() < 0.05 and all(each.op != Op.CHUNKS for each in listed):
        cols = random.choice(((1 << 32) - 1, random.randint(longest, (1 << 32) - 1)))
    entry = random.choice((0, random.randint(1, 9)))
    programs = _loaded(entry, [each.encode() for each in listed])
    inputs = [_input(cols) if stream in streams else None for stream in range(INPUTS)]
    command = VectorCommand(
        entry,
        random.choice((1, 2, 3)),
        cols,
        (inputs[0], inputs[1], inputs[2], inputs[3]),
        Descriptor(0, 1, passes=0),
        tuple(_number() for _ in range(8)),
        random.choice((1, 1, 2, 3, 4)),
        (random.choice((1, 1, 2, 3)), random.choice((1, 1, 2))),
    )
    command = _fitted(programs, command)
    if not write and random.random() < 0.45:
        programs, command = _changed(programs, command)
    return _job(programs, command)


def _loaded(entry: int, words: list[int]) -> ProgramMemory:
    programs = ProgramMemory(PROGRAM_WORDS)
    if entry + len(words) > PROGRAM_WORDS:
        raise UnfitError
    programs.load(entry, np.array(words, np.uint64))
    return programs


def _input(cols: int) -> Descriptor:
    if random.random() < 0.15:
        return Descriptor(0, 1, bcast=True, passes=ANY_PASSES)
    most = min(cols, 3 * VECTOR_LENGTH)
    length = random.choice((most, most, random.randint(1, most), random.randint(1, 3 * VECTOR_LENGTH)))
    return Descriptor(0, length, random.choice((1, 1, 2, 3)), passes=ANY_PASSES)


def _fitted(programs: ProgramMemory, command: VectorCommand) -> VectorCommand:
    """Give the streams as many passes as the program reads, or more, and the output the size of its writes.

    A program that goes beyond a row register stays as it is. UnfitError: it breaks another rule, or its
    writes fill no segments.
    """
    place = _AnyPlace()
    steps = walk(programs, command, place)
    if steps[-1].broken not in (None, ProgramRule.ROW):
        raise UnfitError
    inputs = []
    for stream, descriptor in enumerate(command.inputs):
        passes = 1 + max(
            (
                window[2]
                for step in steps
                if step.decoded and stream in step.decoded.streams and (window := step.windows[stream])
            ),
            default=0,
        )
        if passes > MOST_PASSES:
            raise UnfitError
        more = random.choice((0, 0, random.randint(0, MOST_PASSES - passes)))
        inputs.append(descriptor and replace(descriptor, passes=passes + more))
    total, lengths = 0, []
    for size in place.sizes:
        total += size
        lengths.append(total)
    if steps[-1].broken:
        fitting = [total + 16]
    else:
        fitting = [length for length in lengths if total % length == 0 and _fills(place.sizes, length, total)]
    if not fitting:
        raise UnfitError
    length = random.choice(fitting)
    output = replace(command.output, seg_len=length, segs=max(1, total // length))
    return replace(command, inputs=(inputs[0], inputs[1], inputs[2], inputs[3]), output=output)


def _fills(sizes: list[int], length: int, total: int) -> bool:
    """Return whether the writes fill segments of `length` elements."""
    place = OutputPlace(length, total // length)
    for size in sizes:
        if not place.takes(size):
            return False
        place.advance(size)
    return place.complete


def _changed(programs: ProgramMemory, command: VectorCommand) -> tuple[ProgramMemory, VectorCommand]:
    """Return the command with one change, which may break a rule."""
    words = [int(word) for word in programs.words[command.entry :]]
    at = random.randrange(len(words))
    word = words[at]
    of_program = ("opcode", "field", "insert", "insert", "advance", "delete", "cut")
    what = random.choice((*of_program, "passes", "absent", "length", "segs", "cols"))
    inputs, output = list(command.inputs), command.output
    again = [stream for stream, each in enumerate(inputs) if each and each.passes > 1]
    if what == "opcode":
        words[at] = word & ~0x7F | random.getrandbits(7)
    elif what == "field":
        field = random.choice((8, 14, 20, 26))
        words[at] = word & ~(0x3F << field) | random.getrandbits(6) << field
    elif what == "insert":
        op = random.choice((Op.CHUNKS, Op.REPEAT, Op.NEXT, Op.END))
        words.insert(at, Instruction(op, imm=random.getrandbits(32)).encode())
    elif what == "advance":
        words[at:at] = [Instruction(Op.ADVANCE, imm=0xF).encode()] * random.randint(1, 5)
    elif what == "delete":
        del words[at]
    elif what == "cut":
        del words[at:]
    elif what == "passes" and again:
        stream = random.choice(again)
        was = inputs[stream]
        assert was is not None
        inputs[stream] = replace(was, passes=random.randrange(1, was.passes))
    elif what in ("passes", "absent"):
        inputs[random.randrange(INPUTS)] = None
    elif what == "length":
        output = replace(output, seg_len=max(1, output.seg_len + random.choice((-16, -1, 1, 16))))
    elif what == "segs":
        output = replace(output, segs=max(1, output.segs + random.choice((-1, -1, 1))))
    else:
        more = random.choice((1, 16, VECTOR_LENGTH, 4 * ROW_ELEMENTS))
        command = replace(command, cols=min((1 << 32) - 1, command.cols + more))
    command = replace(command, inputs=(inputs[0], inputs[1], inputs[2], inputs[3]), output=output)
    if not words:
        raise UnfitError
    return _loaded(command.entry, words), command


def _job(programs: ProgramMemory, command: VectorCommand) -> CommandCourse:
    """Choose the streams' data and execute the command. UnfitError: it is too big."""
    steps = tuple(walk(programs, command))
    rows = command.rows * command.batch[0] * command.batch[1]
    if rows * sum(step.words for step in steps) > 2 * MOST_WORDS:
        raise UnfitError
    memory = np.zeros(MEMORY_BYTES, np.uint8)
    end = 0

    def placed(descriptor: Descriptor) -> tuple[Descriptor, slice]:
        nonlocal end
        start, row = end, 4 * descriptor.seg_len * descriptor.segs
        end += rows * row
        if end > MEMORY_BYTES:
            raise UnfitError
        strides = (command.rows * row, command.batch[0] * command.rows * row)
        there = replace(
            descriptor,
            address=start,
            row_stride=row,
            batch_strides=strides,
            seg_stride=4 * descriptor.seg_len,
        )
        return there, slice(start // 4, end // 4)

    words: Any = memory.view(np.uint32)
    listed: list[Descriptor | None] = []
    inputs: list[NDArray[np.int32] | None] = []
    for descriptor in command.inputs:
        if descriptor is None:
            listed.append(None)
            inputs.append(None)
            continue
        descriptor, part = placed(descriptor)
        words[part] = _numbers(part.stop - part.start)
        listed.append(descriptor)
        inputs.append(words[part].view(np.int32).reshape(rows, descriptor.segments, descriptor.length))
    output, part = placed(command.output)
    command = replace(command, inputs=(listed[0], listed[1], listed[2], listed[3]), output=output)
    outputs = None
    if steps[-1].broken is None:
        VectorModel(memory, programs, VECTOR_LENGTH, ROW_ELEMENTS, widen=False).execute(command)
        outputs = words[part].reshape(rows, -1)
    return CommandCourse(command, programs, steps, tuple(inputs), outputs)
