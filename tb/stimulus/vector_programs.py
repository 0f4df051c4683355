"""Random vector programs with command and data: legal ones, and ones that break exactly one rule.

A case is determined by its seed and the engine's sizes. Any backend that takes the packets of
`VectorCase.command` can run it.
"""

from __future__ import annotations

import dataclasses
import math
import random
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from echo_npu.commands.vector_command import Descriptor, VectorCommand
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.model.vector_control import ProgramFault, Sequencer
from echo_npu.vector.isa import (
    ACCUMULATING,
    CODES_OF,
    FOLDED,
    IMMEDIATE,
    IOTA,
    OUT,
    Form,
    Instruction,
    Kind,
    Op,
    form_of,
    kind_of,
    source_count,
)
from echo_npu.vector.program import MAX_PASSES

ALU_OPS = [op for op in Op if form_of(op) == Form.ALU]
VECTORS = CODES_OF[Kind.VECTOR]
SCALARS = CODES_OF[Kind.SCALAR]
STREAMS = CODES_OF[Kind.STREAM]
ACCUMULATORS = CODES_OF[Kind.ACCUMULATOR]
ROW_REGISTERS = CODES_OF[Kind.ROW_REGISTER]
_ATTEMPTS = 100_000
FEW = 5  # of the registers, so that their reuse is likely
UNIFORM = [*SCALARS, IMMEDIATE, *CODES_OF[Kind.COUNTER], *CODES_OF[Kind.PARAMETER]]
CORNERS = [
    0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF,
    0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF, 0x7FFFFFFF, 0x00000010, 0x4EFFFFFF, 0xCF000000,
]  # fmt: skip


@dataclass(frozen=True)
class VectorCase:
    """One command with everything it needs.

    Attributes:
        seed: that it was drawn from.
        instructions: program to load at `command.entry`; an int is an illegal word.
        command: the command.
        data: initial memory contents, by address.
        end: first address after all operands.
        fault: number of the instruction at which the device must report BAD_PROGRAM; None for a legal
            program.
        rule: the broken rule, in words; "" for a legal program.
    """

    seed: int
    instructions: tuple[Instruction | int, ...]
    command: VectorCommand
    data: dict[int, bytes]
    end: int
    fault: int | None = None
    rule: str = ""

    @property
    def words(self) -> np.ndarray:
        """Encoded program, uint64."""
        encoded = [each if isinstance(each, int) else each.encode() for each in self.instructions]
        return np.array(encoded, dtype=np.uint64)

    def __str__(self) -> str:
        c = self.command
        streams = ", ".join(
            f"{name} {_shown(each)}"
            for name, each in zip(("s0", "s1", "s2", "s3", "o"), (*c.inputs, c.output), strict=True)
            if each is not None
        )
        size = f"{len(self.instructions)} instructions"
        return (
            f"seed {self.seed}: {size} at {c.entry}, rows {c.rows} cols {c.cols}"
            f" repeats {c.repeats} batch {c.batch}; {streams}{'; breaks: ' + self.rule if self.rule else ''}"
        )


def _shown(stream: Descriptor) -> str:
    flags = ("pack " if stream.pack else "") + ("bcast " if stream.bcast else "")
    return f"0x{stream.address:x} {stream.segs}x{stream.seg_len}x{stream.size} {flags}passes {stream.passes}"


class _Engine(NamedTuple):
    """Sizes of the engine, in elements."""

    vector_length: int
    row_elements: int


@dataclass
class _Plan:
    """Properties chosen before a program is written."""

    cols: int
    rows: int
    repeats: int
    batch: tuple[int, int]
    streams: tuple[int, ...]  # that exist
    row_registers: bool
    in_place: bool
    instructions: list[Instruction] = field(default_factory=list)


def generate(
    seed: int,
    *,
    vector_length: int,
    row_elements: int,
    base: int,
    entry: int = 0,
    broken: bool = False,
    work: int = 40_000,
) -> VectorCase:
    """Generate the case of a seed.

    Args:
        vector_length, row_elements: sizes of the engine, in elements.
        base: lowest address of the operands.
        entry: program memory address of the program.
        broken: break exactly one rule.
        work: approximate limit on the elements that all instructions process together.
    """
    rng = random.Random(f"{seed} {broken}")
    engine = _Engine(vector_length, row_elements)
    breaker = rng.choice(_BREAKERS) if broken else None
    if breaker is _row_register_beyond:
        work = max(work, 3 * (row_elements + 40))  # one instruction alone has more elements than a row
    for _ in range(_ATTEMPTS):
        plan = _plan(rng, engine)
        if breaker is _row_register_beyond:
            plan = dataclasses.replace(plan, cols=row_elements + rng.randint(1, 40), row_registers=False)
        case = _attempt(rng, plan, seed, engine, base, entry, work)
        if case is not None and breaker is not None:
            case = _break(rng, breaker, case, engine)
        if case is not None:
            return case
    raise AssertionError(
        f"no program of seed {seed} in {_ATTEMPTS} attempts: vector_length {vector_length}, row_elements"
        f" {row_elements}, work {work}, breaker {breaker and breaker.__name__}"
    )


def _attempt(
    rng: random.Random, plan: _Plan, seed: int, engine: _Engine, base: int, entry: int, work: int
) -> VectorCase | None:
    _write_program(rng, plan)
    programs = ProgramMemory(entry + len(plan.instructions))
    programs.load(entry, np.array([each.encode() for each in plan.instructions], dtype=np.uint64))
    shapes = {stream: _input_shape(rng, plan) for stream in plan.streams}
    if plan.in_place:
        shapes[plan.streams[0]] = (plan.cols, 1, False)
    walked = _walk(plan, programs, entry, shapes, engine)
    if walked is None:
        return None
    passes, writes, elements = walked
    if elements * plan.rows * plan.batch[0] * plan.batch[1] > work:
        return None
    output_shape = _output_shape(rng, writes)
    if output_shape is None or (plan.in_place and output_shape != (plan.cols, 1)):
        return None
    return _placed(rng, seed, plan, entry, shapes, passes, output_shape, base)


# --- the program --------------------------------------------------------------------------------------------


def _plan(rng: random.Random, engine: _Engine) -> _Plan:
    vector_length, row_elements = engine
    near = [vector_length - 1, vector_length, vector_length + 1, 2 * vector_length, 2 * vector_length + 17]
    choices = [1, 2, rng.randint(3, 15), 16, 17, rng.randint(1, vector_length), *near]
    choices += [rng.randint(1, 4 * vector_length), rng.randint(1, 4 * vector_length)]
    cols = rng.choice(choices)
    if rng.random() < 0.1:
        cols = row_elements + rng.randint(-3, 40)
    in_place = rng.random() < 0.15
    streams = tuple(sorted(rng.sample(range(4), rng.randint(1 if in_place else 0, 4))))
    return _Plan(
        cols=cols,
        rows=rng.choice((1, 1, 2, 3, 5)),
        repeats=rng.choice((1, 2, 3, 4)),
        batch=(1, 1) if in_place else (rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 1, 2))),
        streams=streams,
        row_registers=cols <= row_elements and rng.random() < 0.4,
        in_place=in_place,
    )


def _write_program(rng: random.Random, plan: _Plan) -> None:
    out = plan.instructions
    if plan.in_place:
        # An element must be read before it is written, so there is one loop, whose last instruction writes.
        first = plan.streams[0]
        others = _Plan(**{**vars(plan), "streams": plan.streams[1:]})
        out += _body(rng, others, rng.randint(0, 3))
        out.append(Instruction(Op.CHUNKS))
        out += _body(rng, plan, rng.randint(0, 5))
        out.append(_alu(rng, plan, dst=OUT, must_read=STREAMS[first]))
        out.append(Instruction(Op.NEXT, imm=sum(1 << stream for stream in plan.streams)))
        out += _body(rng, others, rng.randint(0, 2))
        out.append(Instruction(Op.END))
        return
    for _ in range(rng.randint(1, 3)):
        out += _body(rng, plan, rng.randint(0, 4))
        kind = rng.randrange(5)
        loops = [[], [Op.CHUNKS], [Op.REPEAT], [Op.CHUNKS, Op.REPEAT], [Op.REPEAT, Op.CHUNKS]][kind]
        out += _nest(rng, plan, loops)
    if rng.random() < 0.3:
        out.append(Instruction(Op.ADVANCE, imm=rng.getrandbits(4)))
    out += _body(rng, plan, rng.randint(0, 3))
    places = [i for i, each in enumerate(out) if each.form == Form.ALU]
    for place in rng.sample(places, min(len(places), rng.choice((1, 1, 1, 2)))):
        if kind_of(out[place].dst) != Kind.ACCUMULATOR:
            one = out[place].one or rng.random() < 0.15
            out[place] = dataclasses.replace(out[place], dst=OUT, one=one)
    out.append(Instruction(Op.END))


def _nest(rng: random.Random, plan: _Plan, loops: Sequence[Op]) -> list[Instruction]:
    if not loops:
        return []
    out = [Instruction(loops[0]), *_body(rng, plan, rng.randint(0 if loops[1:] else 1, 5))]
    out += _nest(rng, plan, loops[1:])
    if loops[1:]:
        out += _body(rng, plan, rng.randint(0, 3))
    if rng.random() < 0.1:
        out.append(Instruction(Op.ADVANCE, imm=rng.getrandbits(4)))
    mask = rng.choice((15, rng.getrandbits(4), 0))
    return [*out, Instruction(Op.NEXT, imm=mask)]


def _body(rng: random.Random, plan: _Plan, count: int) -> list[Instruction]:
    out: list[Instruction] = []
    for _ in range(count):
        draw = rng.random()
        if draw < 0.06:
            a = rng.choice(UNIFORM)
            imm = _immediate(rng) if a == IMMEDIATE else 0
            out.append(Instruction(Op.ASET, dst=rng.choice(ACCUMULATORS), a=a, imm=imm))
        elif draw < 0.16:
            fold = rng.choice(list(FOLDED))
            out.append(Instruction(fold, dst=rng.choice(SCALARS), a=rng.choice(ACCUMULATORS)))
        elif draw < 0.3:
            op = rng.choice(list(ACCUMULATING))
            out.append(_alu(rng, plan, op=op, dst=rng.choice(ACCUMULATORS)))
        else:
            out.append(_alu(rng, plan))
    return out


def _immediate(rng: random.Random) -> int:
    (near_one,) = struct.unpack("<I", struct.pack("<f", rng.uniform(-4, 4)))
    return rng.choice((rng.choice(CORNERS), near_one, rng.randint(0, 40), rng.getrandbits(32)))


def _alu(
    rng: random.Random,
    plan: _Plan,
    op: Op | None = None,
    dst: int | None = None,
    must_read: int | None = None,
) -> Instruction:
    if op is None:
        op = rng.choice(ALU_OPS)
    rows = ROW_REGISTERS if plan.row_registers else []
    streams = [STREAMS[stream] for stream in plan.streams]
    if dst is None:
        few = rng.randrange(FEW)
        vector, scalar = VECTORS[few], SCALARS[few]
        dst = rng.choice((*[vector] * 3, rng.choice(VECTORS), scalar, rng.choice(SCALARS), *rows))
    recent = [rng.choice(VECTORS[:FEW]), rng.choice(VECTORS[:FEW]), rng.choice(SCALARS[:FEW])]
    vectors = [*recent[:2], rng.choice(VECTORS), *streams, *streams, *rows]
    count = source_count(op, dst)
    if op == Op.SWAP:
        codes = [rng.choice(vectors)]
    else:
        codes = [rng.choice((*vectors, recent[2], rng.choice(UNIFORM), IOTA)) for _ in range(count)]
    if must_read is not None:
        codes[rng.randrange(count)] = must_read
    a, b, c = (*codes, 0, 0, 0)[:3]
    imm = _immediate(rng) if IMMEDIATE in codes else 0
    if op == Op.CLASS and b == IMMEDIATE:
        imm = rng.getrandbits(9)
    return Instruction(op, dst, a, b, c, imm, one=must_read is None and rng.random() < 0.08)


# --- streams ------------------------------------------------------------------------------------------------


_MOST_TRANSFERS = 2000
"""Transfers of a packed stream, at most."""


_Shape = tuple[int, int, bool]
"""Segment length, number of segments, and whether it is a broadcast element."""


def _input_shape(rng: random.Random, plan: _Plan) -> _Shape:
    """Draw the shape of an input stream."""
    if rng.random() < 0.15:
        return 1, 1, True
    length = rng.choice(
        (plan.cols, plan.cols, plan.cols, rng.randint(1, plan.cols), plan.cols + rng.randint(1, 40))
    )
    return length, rng.choice((1, 1, plan.repeats, rng.randint(1, 5))), False


def _walk(
    plan: _Plan, programs: ProgramMemory, entry: int, shapes: dict[int, _Shape], engine: _Engine
) -> tuple[dict[int, int], list[int], int] | None:
    """Return the needed passes, sizes of writes and elements processed; None if the program is illegal."""
    inputs: list[Descriptor | None] = [None] * 4
    for stream, (length, segments, bcast) in shapes.items():
        inputs[stream] = Descriptor(0, length, segments, bcast=bcast, passes=MAX_PASSES)
    # Accept any writes; their sum decides the shape later.
    output = Descriptor(0, 1 << 30, passes=0)
    command = VectorCommand(
        entry, 1, plan.cols, (inputs[0], inputs[1], inputs[2], inputs[3]), output, repeats=plan.repeats
    )
    sequencer = Sequencer(programs, command, *engine)
    passes = dict.fromkeys(shapes, 1)
    writes: list[int] = []
    elements = 0
    try:
        for decoded, count in sequencer:
            elements += count
            for stream in decoded.streams:
                window = sequencer.windows[stream]
                assert window is not None
                passes[stream] = max(passes[stream], window.turn + 1)
            if decoded.writes_out:
                writes.append(count)
                sequencer.place.offset = -count  # restarts at 0 after this write
    except ProgramFault as fault:
        # Only the incomplete output at END is expected; any other fault makes the program unusable.
        last = programs[fault.number]
        if last is None or last.form != Form.END:
            return None
    return passes, writes, elements


def _output_shape(rng: random.Random, writes: Sequence[int]) -> tuple[int, int] | None:
    """Draw a segment length and a number of segments that fit the writes; None if there are none."""
    total = sum(writes)
    found = []
    for segments in range(1, min(total, 4096) + 1):
        if total % segments == 0 and _takes(writes, total // segments):
            found.append((total // segments, segments))
    return rng.choice(found) if found else None


def _takes(writes: Iterable[int], length: int) -> bool:
    offset = 0
    for count in writes:
        if offset % 16 or offset + count > length:
            return False
        offset = (offset + count) % length
    return offset == 0


class _Arena:
    """Allocates consecutive addresses with gaps."""

    def __init__(self, rng: random.Random, base: int) -> None:
        self._rng = rng
        self.end = base

    def place(self, nbytes: int, multiple: int) -> int:
        start = self.end + self._rng.choice((0, 4, 64, self._rng.randrange(256)))
        start = -(-start // multiple) * multiple
        self.end = start + nbytes
        return start


def _placed(
    rng: random.Random,
    seed: int,
    plan: _Plan,
    entry: int,
    shapes: dict[int, _Shape],
    passes: dict[int, int],
    output_shape: tuple[int, int],
    base: int,
) -> VectorCase:
    arena = _Arena(rng, base)
    data: dict[int, bytes] = {}
    inputs: list[Descriptor | None] = [None] * 4
    for stream, (length, segments, bcast) in shapes.items():
        turns = passes[stream] if rng.random() < 0.9 else rng.randint(passes[stream], MAX_PASSES)
        inputs[stream] = _layout(rng, plan, length, segments, turns, arena, repeatable=True, bcast=bcast)
    output = _layout(rng, plan, *output_shape, 0, arena, repeatable=False)
    if plan.in_place:
        inputs[plan.streams[0]] = dataclasses.replace(output, passes=1)
    for made in inputs:
        if made is not None:
            data[made.address] = _bytes(rng, _extent(plan, made), made.size)
    # The gaps of the destination and its surroundings must stay untouched.
    if output.address not in data:
        data[output.address] = rng.randbytes(_extent(plan, output))
    command = VectorCommand(
        entry,
        plan.rows,
        plan.cols,
        (inputs[0], inputs[1], inputs[2], inputs[3]),
        output,
        tuple(_immediate(rng) for _ in range(8)),
        plan.repeats,
        plan.batch,
    )
    return VectorCase(seed, tuple(plan.instructions), command, data, arena.end)


def _layout(
    rng: random.Random,
    plan: _Plan,
    length: int,
    segments: int,
    passes: int,
    arena: _Arena,
    *,
    repeatable: bool,
    bcast: bool = False,
) -> Descriptor:
    """Lay out a stream: rows, batches and segments nested in any order, dense or with gaps."""
    size = rng.choice((4, 4, 4, 2, 1))
    pack = segments == 1 and not bcast and length < 1 << 20 and not plan.in_place and rng.random() < 0.25
    seg_len, segs = length, segments
    if pack:
        # Each segment is a transfer, which takes a hundred cycles on a slow memory.
        most = max(1, _MOST_TRANSFERS // (plan.rows * math.prod(plan.batch)))
        lengths = [
            each for each in range(1, min(length, 64) + 1) if length % each == 0 and length // each <= most
        ]
        pack = bool(lengths)
        if pack:
            seg_len = rng.choice([lengths[0], *lengths])
            segs = length // seg_len
    counts = {"seg": segs, "row": plan.rows, "batch0": plan.batch[0], "batch1": plan.batch[1]}
    order = list(counts)
    if rng.random() < 0.4:
        rng.shuffle(order)
    strides = dict.fromkeys(counts, 0)
    span = seg_len * size
    for name in order:
        if repeatable and name != "seg" and rng.random() < 0.2:
            continue  # read the same again
        if counts[name] > 1:
            gap = rng.choice((0, 0, 1, rng.randint(1, 16)))
            strides[name] = span + gap * size
            span += (counts[name] - 1) * strides[name]
    if not repeatable and not plan.in_place and rng.random() < 0.25:
        for name in ("row", "batch0", "batch1"):  # overlapping rows; the later one wins
            if rng.random() < 0.6:
                strides[name] = size * rng.randint(min(1, strides[name]), strides[name] // size)
    address = arena.place(span, size)
    batches = (strides["batch0"], strides["batch1"])
    return Descriptor(
        address, seg_len, segs, strides["row"], batches, strides["seg"], size, pack, bcast, passes
    )


def _extent(plan: _Plan, stream: Descriptor) -> int:
    steps = (plan.rows - 1) * stream.row_stride + (stream.segs - 1) * stream.seg_stride
    steps += sum((count - 1) * step for count, step in zip(plan.batch, stream.batch_strides, strict=True))
    return steps + stream.segment_bytes


def _bytes(rng: random.Random, nbytes: int, size: int) -> bytes:
    if size < 4:
        return rng.randbytes(nbytes)
    generator = np.random.default_rng(rng.getrandbits(32))
    count = -(-nbytes // 4)
    kind = generator.integers(0, 8, count)
    values = generator.standard_normal(count, dtype=np.float32).view(np.uint32).copy()
    values[kind == 0] = generator.choice(np.array(CORNERS, dtype=np.uint32), int((kind == 0).sum()))
    values[kind == 1] = generator.integers(0, 2**32, int((kind == 1).sum()), dtype=np.uint32)
    values[kind == 2] = generator.integers(0, 100, int((kind == 2).sum()), dtype=np.uint32)
    return values.tobytes()[:nbytes]


_PASSES = "a pass too few"
_BEYOND = "a row register beyond its end"


# --- broken programs ----------------------------------------------------------------------------------------


_Code = list[Instruction]


def _break(rng: random.Random, breaker: _Breaker, case: VectorCase, engine: _Engine) -> VectorCase | None:
    """Break one rule and note the faulting instruction; None if the case is unsuitable."""
    instructions = [each for each in case.instructions if isinstance(each, Instruction)]
    changed = breaker(rng, case, instructions)
    if changed is None:
        return None
    if changed.rule == _BEYOND and changed.command.cols <= engine.row_elements:
        return None
    if changed.rule == _PASSES and not _faults(changed, engine):
        return None  # the pass was not needed
    return changed


def _faults(case: VectorCase, engine: _Engine) -> bool:
    programs = ProgramMemory(case.command.entry + len(case.instructions))
    programs.load(case.command.entry, case.words)
    try:
        for _ in Sequencer(programs, case.command, *engine):
            pass
    except ProgramFault:
        return True
    return False


def _depths(instructions: Sequence[Instruction]) -> list[list[Op]]:
    """Return the open loops before each instruction."""
    open_loops: list[Op] = []
    depths = []
    for each in instructions:
        depths.append(list(open_loops))
        if each.form == Form.LOOP:
            open_loops.append(each.op)
        elif each.op == Op.NEXT:
            open_loops.pop()
    return depths


def _replaced(
    case: VectorCase, instructions: Sequence[Instruction | int], position: int, rule: str
) -> VectorCase:
    return dataclasses.replace(
        case, instructions=tuple(instructions), fault=case.command.entry + position, rule=rule
    )


def _inserted(
    case: VectorCase, instructions: Sequence[Instruction], position: int, new: Instruction, rule: str
) -> VectorCase:
    return _replaced(case, [*instructions[:position], new, *instructions[position:]], position, rule)


def _unknown_opcode(rng: random.Random, case: VectorCase, instructions: _Code) -> VectorCase:
    position = rng.randrange(len(instructions))
    unknown = rng.choice([code for code in range(128) if code not in set(Op)])
    word = instructions[position].encode() & ~0x7F | unknown
    mixed: list[Instruction | int] = [*instructions]
    mixed[position] = word
    return _replaced(case, mixed, position, f"unknown opcode 0x{unknown:02x}")


def _bad_operand(rng: random.Random, case: VectorCase, instructions: _Code) -> VectorCase | None:
    places = [i for i, each in enumerate(instructions) if each.form in (Form.ALU, Form.ASET, Form.FOLD)]
    if not places:
        return None
    position = rng.choice(places)
    each = instructions[position]
    used = ["dst", *"abc"[: len(each.sources)]]
    operand: dict[str, Any] = {rng.choice(used): rng.randrange(64)}
    changed = dataclasses.replace(each, **operand)
    # A new destination may change the number of sources and so make the instruction legal.
    if not changed.illegal():
        return None
    instructions[position] = changed
    return _replaced(case, instructions, position, f"bad operand: {changed.illegal()}")


def _next_without_loop(rng: random.Random, case: VectorCase, instructions: _Code) -> VectorCase:
    depths = _depths(instructions)
    position = rng.choice([i for i, loops in enumerate(depths) if not loops])
    return _inserted(case, instructions, position, Instruction(Op.NEXT), "next without a loop")


def _nested_alike(rng: random.Random, case: VectorCase, instructions: _Code) -> VectorCase | None:
    depths = _depths(instructions)
    places = [i for i, loops in enumerate(depths) if loops]
    if not places:
        return None
    position = rng.choice(places)
    new = Instruction(rng.choice(depths[position]))
    return _inserted(case, instructions, position, new, f"{new.op.mnemonic} in a loop of its kind")


def _end_in_loop(rng: random.Random, case: VectorCase, instructions: _Code) -> VectorCase | None:
    places = [i for i, loops in enumerate(_depths(instructions)) if loops]
    if not places:
        return None
    return _inserted(case, instructions, rng.choice(places), Instruction(Op.END), "end in a loop")


def _readers(instructions: Sequence[Instruction], stream: int) -> list[int]:
    return [i for i, each in enumerate(instructions) if STREAMS[stream] in each.sources]


def _with_input(case: VectorCase, stream: int, new: Descriptor | None) -> VectorCommand:
    s0, s1, s2, s3 = (new if i == stream else each for i, each in enumerate(case.command.inputs))
    return dataclasses.replace(case.command, inputs=(s0, s1, s2, s3))


def _missing_stream(rng: random.Random, case: VectorCase, instructions: _Code) -> VectorCase | None:
    streams = [s for s in range(4) if case.command.inputs[s] is not None and _readers(instructions, s)]
    if not streams:
        return None
    stream = rng.choice(streams)
    changed = dataclasses.replace(case, command=_with_input(case, stream, None))
    # In the first iteration, instructions are executed in textual order.
    return _replaced(changed, instructions, _readers(instructions, stream)[0], f"s{stream} is not there")


def _too_few_passes(rng: random.Random, case: VectorCase, instructions: _Code) -> VectorCase | None:
    streams = []
    for stream in range(4):
        descriptor = case.command.inputs[stream]
        # With one reader, the faulting instruction is known.
        if descriptor is not None and descriptor.passes > 1 and len(_readers(instructions, stream)) == 1:
            streams.append((stream, descriptor))
    if not streams:
        return None
    stream, descriptor = rng.choice(streams)
    fewer = dataclasses.replace(descriptor, passes=1)
    changed = dataclasses.replace(case, command=_with_input(case, stream, fewer))
    position = _readers(instructions, stream)[0]
    return _replaced(changed, instructions, position, _PASSES)


def _row_register_beyond(rng: random.Random, case: VectorCase, instructions: _Code) -> VectorCase | None:
    for position, loops in enumerate(_depths(instructions)):
        each = instructions[position]
        if Op.CHUNKS in loops and each.form == Form.ALU and not each.one and kind_of(each.dst) == Kind.VECTOR:
            instructions[position] = dataclasses.replace(each, dst=rng.choice(ROW_REGISTERS))
            return _replaced(case, instructions, position, _BEYOND)
    return None


def _writers(instructions: Sequence[Instruction]) -> list[int]:
    return [i for i, each in enumerate(instructions) if each.form == Form.ALU and each.dst == OUT]


def _output_too_short(rng: random.Random, case: VectorCase, instructions: _Code) -> VectorCase | None:
    output = case.command.output
    if output.pack or output.segs < 2 or len(_writers(instructions)) != 1 or _in_place(case):
        return None
    shorter = dataclasses.replace(output, segs=output.segs - 1)
    changed = dataclasses.replace(case, command=dataclasses.replace(case.command, output=shorter))
    return _replaced(changed, instructions, _writers(instructions)[0], "a write behind the row's end")


def _output_too_long(rng: random.Random, case: VectorCase, instructions: _Code) -> VectorCase | None:
    output = case.command.output
    # An additional segment must not reach another row; nothing follows the output.
    if output.pack or output.segs < 2 or case.command.rows > 1 or case.command.batch != (1, 1):
        return None
    last = output.address + output.segs * output.seg_stride + output.segment_bytes
    longer = dataclasses.replace(output, segs=output.segs + 1)
    changed = dataclasses.replace(
        case, command=dataclasses.replace(case.command, output=longer), end=max(case.end, last)
    )
    return _replaced(changed, instructions, len(instructions) - 1, "an incomplete row at end")


def _in_place(case: VectorCase) -> bool:
    return any(
        each is not None and each.address == case.command.output.address for each in case.command.inputs
    )


_Breaker = Callable[[random.Random, VectorCase, _Code], VectorCase | None]
_BREAKERS: list[_Breaker] = [
    _unknown_opcode,
    _bad_operand,
    _next_without_loop,
    _nested_alike,
    _end_in_loop,
    _missing_stream,
    _too_few_passes,
    _row_register_beyond,
    _output_too_short,
    _output_too_long,
]
