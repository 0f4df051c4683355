"""Limits that depend on lanes, vector length, row length, bus width or the number of passes: just below, at
and just beyond each of them."""

import numpy as np

from echo_npu.commands.builders import gather_packets, load_program_packets, memcpy_packets
from echo_npu.commands.packets import NpuCommandPacket, Opcode
from echo_npu.commands.vector_command import Stream, VectorCommand, vector_command
from echo_npu.spec.status import ErrorCode, State
from echo_npu.vector.isa import OPERAND_CODES, Instruction, Op
from tb.testbench import NpuTestbench, npu_test
from tests.commands.outcomes import refused
from tests.commands.programs import encoded, load, random_words

CODE = OPERAND_CODES
MOST_PASSES = 15
MOST_BEATS = 200_000
"""Beats that a stalled memory brings within the time that a command may take."""
LONG_ROW = 10_000
"""A command has one row where a row has more beats than this."""
GRANULE = 16
CHUNKS, END = Instruction(Op.CHUNKS), Instruction(Op.END)
ADDED = Instruction(Op.IADD, CODE["a0"], CODE["s0"])
NEXT, ADVANCE = Instruction(Op.NEXT), Instruction(Op.NEXT, imm=1)


def move(dst: str, source: str) -> Instruction:
    """dst = source."""
    return Instruction(Op.MOV, CODE[dst], CODE[source])


def around(*limits: int) -> list[int]:
    """Return each limit and its neighbours."""
    return sorted({limit + beside for limit in limits for beside in (-1, 0, 1)})


def beats_of(tb: NpuTestbench, cols: int) -> int:
    """Return the beats of a row of 32-bit elements."""
    return -(-32 * cols // tb.config.data_width)


async def expect(tb: NpuTestbench, command: VectorCommand, fault: int | None = None) -> None:
    """Run a command: it succeeds, or its program fails at the instruction `fault`."""
    if fault is None:
        assert await tb.run(command.packets()) == State.DONE, f"{command}: {await tb.state()}"
    else:
        await refused(tb, command.packets(), ErrorCode.BAD_PROGRAM, fault, name=command)


@npu_test(made=[1, 2, 7, 8, 9, 14, 15])
async def test_passes(tb: NpuTestbench, made: int) -> None:
    """A program makes fewer passes than its command says, as many, and one more, on a row that stays on chip
    and on a longer one, which is read from memory in each pass; two rows each."""
    last = [CHUNKS, Instruction(Op.IADD, CODE["o"], CODE["s0"], CODE["r1"]), ADVANCE, END]
    program = [CHUNKS, ADDED, ADVANCE] * (made - 1)
    await load(tb, encoded([*program, *last]))
    for cols in (GRANULE + 3, tb.config.row_elements + GRANULE + 1):
        source = Stream(random_words(tb, 2 * cols), row_stride=4 * cols)
        beats = 2 * beats_of(tb, cols)
        for passes in around(made):
            if 1 <= passes <= MOST_PASSES and passes * beats <= MOST_BEATS:
                stream = Stream(source.address, row_stride=source.row_stride, passes=passes)
                output = Stream(tb.destination(8 * cols), row_stride=4 * cols)
                command = vector_command(0, rows=2, cols=cols, inputs=[stream], output=output)
                await expect(tb, command, len(program) + 1 if passes < made else None)


@npu_test()
async def test_row_registers(tb: NpuTestbench) -> None:
    """Elements of a row register: as many as there are, and one more."""
    await load(tb, encoded([CHUNKS, move("w1", "s0"), ADVANCE, CHUNKS, move("o", "w1"), NEXT, END]))
    for cols in around(tb.config.row_elements):
        output = Stream(tb.destination(4 * cols))
        command = vector_command(0, rows=1, cols=cols, inputs=[Stream(random_words(tb, cols))], output=output)
        await expect(tb, command, 1 if cols > tb.config.row_elements else None)


@npu_test(pieces=["one", "several"])
async def test_rows_on_chip(tb: NpuTestbench, pieces: str) -> None:
    """Rows around the length from which on they are read from memory for each pass: in one segment, each
    rounded up to whole granules, and in several, packed."""
    await load(tb, encoded([CHUNKS, ADDED, ADVANCE, CHUNKS, move("o", "s0"), ADVANCE, END]))
    row = tb.config.row_elements
    rows = 3 if beats_of(tb, row) <= LONG_ROW else 1
    for cols in around(row - GRANULE, row, row + GRANULE):
        address = random_words(tb, rows * cols)
        stream = Stream(address, row_stride=4 * cols, passes=2)
        if pieces == "several":
            segs = next(each for each in (7, 5, 3, 2, 1) if cols % each == 0)
            length = cols // segs
            stream = Stream(address, length, segs, 4 * cols, seg_stride=4 * length, passes=2, pack=True)
        output = Stream(tb.destination(4 * rows * cols), row_stride=4 * cols)
        await expect(tb, vector_command(0, rows=rows, cols=cols, inputs=[stream], output=output))


@npu_test(inside=[True, False])
async def test_vector_length(tb: NpuTestbench, inside: bool) -> None:
    """Rows around the lengths of a word, a granule and a vector register, with and without a chunk loop. The
    rest of a register is zero, and so is a neighbour beyond the end."""
    body = [move("v0", "s0"), Instruction(Op.SWAP, CODE["v1"], CODE["v0"])]
    body.append(Instruction(Op.IADD, CODE["o"], CODE["v1"], CODE["iota"]))
    await load(tb, encoded([CHUNKS, *body, ADVANCE, END] if inside else [*body, END]))
    lanes, length = tb.config.vector_lanes, tb.config.vector_length
    for cols in around(2, lanes, 2 * lanes, GRANULE, length, *((2 * length,) if inside else ())):
        written = cols if inside else min(cols, length)
        output = Stream(tb.destination(8 * written), written, row_stride=4 * written)
        source = Stream(random_words(tb, 2 * cols), row_stride=4 * cols)
        await expect(tb, vector_command(0, rows=2, cols=cols, inputs=[source], output=output))


@npu_test()
async def test_output_begins_at_granules(tb: NpuTestbench) -> None:
    """Two writes to one segment: the second may begin at a multiple of 16 only."""
    await load(tb, encoded([move("o", "s0"), move("o", "s0"), END]))
    for cols in around(GRANULE, tb.config.vector_length):
        written = min(cols, tb.config.vector_length)
        output = Stream(tb.destination(8 * written), 2 * written)
        command = vector_command(0, rows=1, cols=cols, inputs=[Stream(random_words(tb, cols))], output=output)
        await expect(tb, command, 1 if written % GRANULE else None)


@npu_test()
async def test_loads(tb: NpuTestbench) -> None:
    """Words of a load around whole beats, and up to the end of program memory and one beyond."""
    size, beat = tb.config.program_words, tb.config.data_width // 64
    code = tb.place(np.full(3 * beat + 8, END.encode(), dtype=np.uint64), align=4096, offset=8)
    for count in around(2 * beat, 3 * beat):
        assert await tb.run(load_program_packets(code, count, 5)) == State.DONE
        for at in (size - count, size - count + 1):
            packet = NpuCommandPacket(Opcode.LOAD_PROGRAM, src1_addr=code, m=count, k=at)
            if at + count <= size:
                assert await tb.run([packet]) == State.DONE
            else:
                await refused(tb, [packet], ErrorCode.BAD_DIMENSION)


@npu_test()
async def test_rows_of_beats(tb: NpuTestbench) -> None:
    """Rows around whole beats and around a page, copied and gathered, from and to any alignment."""
    beat = tb.config.data_width // 8
    for size in around(beat, 2 * beat, 16 * beat, 4096):
        data = tb.rng.integers(0, 256, 5 * size, dtype=np.uint8)
        table = tb.place(data, "weight", offset=tb.random.randrange(64))
        indices = tb.place(np.array([4, 0, 3], dtype=np.int32))
        dst = tb.destination(3 * size, offset=tb.random.randrange(64))
        assert await tb.run(gather_packets(table, indices, dst, 3, size, 5)) == State.DONE
        dst = tb.destination(4 * size + 12, offset=tb.random.randrange(64))
        copies = memcpy_packets(table, dst, size, rows=4, row_strides=(size, size + 4))
        assert await tb.run(copies) == State.DONE
