"""VECTOR: instructions, operands, stream shapes and loops of docs/vector.md, against the functional model."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.packets import NpuCommandPacket, Opcode, Packet
from echo_npu.commands.vector_command import Stream
from echo_npu.spec.status import State
from echo_npu.vector.isa import (
    ACCUMULATING,
    FOLDED,
    OPERAND_CODES,
    Form,
    Instruction,
    Op,
    form_of,
    source_count,
)
from echo_npu.vector.program import Builder, Program, make_program
from tb.drivers.commands import Path
from tb.testbench import NpuTestbench, npu_test

ARITHMETIC = [op for op in Op if form_of(op) == Form.ALU]

# Bit patterns that are special cases of some instruction.
SPECIAL = np.array(
    [
        0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x3F800000,
        0xBF800000, 0x3F800001, 0x3F000000, 0x3FC00000, 0x40200000, 0x33800000, 0x4B000000, 0x4B800000,
        0x4EFFFFFF, 0x4F000000, 0xCF000000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000,
        0xFFC00001, 0x7F800001, 0x477FEFFF, 0x477FF000, 0x33000000, 0x38800000, 0x7FFFFFFF, 0xFFFFFFFF,
        0x0000001F, 0x00000020, 0x00000007, 0x00007C01,
    ],
    dtype=np.uint32,
)  # fmt: skip

Maker = Callable[[Builder], None]


def words(tb: NpuTestbench, *shape: int) -> NDArray[np.uint32]:
    """Draw operands of all kinds: floats, small integers, random and special bit patterns."""
    rng = tb.rng
    kinds = np.stack(
        [
            rng.standard_normal(shape, dtype=np.float32).view(np.uint32),
            rng.integers(-40, 40, shape).astype(np.int32).view(np.uint32),
            rng.integers(0, 1 << 32, shape, dtype=np.uint32),
            rng.choice(SPECIAL, shape),
        ]
    )
    chosen = rng.integers(0, len(kinds), shape)
    return np.take_along_axis(kinds, chosen[None], 0)[0]


def lengths(tb: NpuTestbench) -> list[int]:
    """Return row lengths around the lanes, the accumulators, one chunk and several."""
    vlen = tb.config.vector_length
    return [1, 2, 15, 16, 17, vlen - 1, vlen, vlen + 1, 2 * vlen, 2 * vlen + 19]


def program(name: str, body: Maker) -> Program:
    """Return the program that `body` writes."""
    builder = Builder(name)
    body(builder)
    return builder.build()


def elementwise(op: Op) -> Program:
    """o = op(s0, s1, s2), chunk by chunk, as many sources as it takes."""
    sources = [OPERAND_CODES[f"s{i}"] for i in range(source_count(op))]
    a, b, c = (*sources, 0, 0, 0)[:3]
    body = [
        Instruction(Op.CHUNKS),
        Instruction(op, OPERAND_CODES["o"], a, b, c),
        Instruction(Op.NEXT, imm=(1 << len(sources)) - 1),
        Instruction(Op.END),
    ]
    return make_program(op.mnemonic, body)


async def run_all(tb: NpuTestbench, packets: Sequence[Packet], via: Path) -> None:
    assert await tb.run(packets, via) == State.DONE


@npu_test(via=["window", "ring"])
async def test_instructions(tb: NpuTestbench, via: Path) -> None:
    """Each instruction once, elementwise on streams: two rows of a few chunks."""
    programs = {op: elementwise(op) for op in ARITHMETIC}
    await tb.load_programs(*programs.values())
    cols = 2 * tb.config.vector_length + 21
    inputs = [Stream(tb.place(words(tb, 2, cols)), row_stride=4 * cols) for _ in range(3)]
    packets: list[Packet] = []
    for op, each in programs.items():
        output = Stream(tb.destination(8 * cols), row_stride=4 * cols)
        packets += tb.vector_packets(
            each, rows=2, cols=cols, inputs=inputs[: source_count(op)], output=output
        )
    await run_all(tb, packets, via)


@npu_test()
async def test_special_pairs(tb: NpuTestbench) -> None:
    """All pairs of special values through every instruction of up to two sources, and fma, fnma, fms."""
    programs = {op: elementwise(op) for op in ARITHMETIC}
    await tb.load_programs(*programs.values())
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)), dtype=np.uint32)
    third = tb.rng.choice(SPECIAL, len(pairs))
    inputs = [Stream(tb.place(values.copy())) for values in (pairs[:, 0], pairs[:, 1], third)]
    packets: list[Packet] = []
    for op, each in programs.items():
        output = Stream(tb.destination(4 * len(pairs)))
        packets += tb.vector_packets(
            each, rows=1, cols=len(pairs), inputs=inputs[: source_count(op)], output=output
        )
    await run_all(tb, packets, "ring")


@npu_test()
async def test_operands(tb: NpuTestbench) -> None:
    """Every kind of source in every place of an instruction with three, and every kind of destination."""
    kinds = ("v1", "v15", "r2", "r15", "s0", "s3", "w0", "w1", "imm", "iota", "row", "batch0", "batch1",
             "cols", "rep", "p0", "p1", "p7")  # fmt: skip
    code = OPERAND_CODES
    setup = [
        Instruction(Op.MOV, code["v1"], code["s0"]),
        Instruction(Op.SWAP, code["v15"], code["s3"]),
        Instruction(Op.MOV, code["r2"], code["s0"]),
        Instruction(Op.XOR, code["r15"], code["s3"], code["p3"]),
        Instruction(Op.MOV, code["w0"], code["s3"]),
        Instruction(Op.IADD, code["w1"], code["s0"], code["iota"]),
    ]
    programs = []
    for place, dst in zip(range(3), ("o", "v9", "w1"), strict=True):
        for kind in kinds:
            sources = [code["v1"], code["w0"], code["v15"]]
            sources[place] = code[kind]
            for op in (Op.FMA, Op.SEL):
                body = [*setup, Instruction(op, code[dst], *sources, imm=0x40490FDB if kind == "imm" else 0)]
                if dst != "o":
                    body.append(Instruction(Op.MOV, code["o"], code[dst]))
                programs.append(
                    make_program(f"{op.mnemonic} {dst} {place} {kind}", [*body, Instruction(Op.END)])
                )
    await tb.load_programs(*programs)
    cols = tb.config.vector_length - 3
    rows, batch, row = 2, (2, 2), 4 * cols
    first = Stream(tb.place(tb.floats(8, cols)), row_stride=row, batch_strides=(2 * row, 4 * row))
    fourth = Stream(tb.place(words(tb, cols)))
    packets: list[Packet] = []
    for each in programs:
        output = Stream(tb.destination(8 * row), row_stride=row, batch_strides=(2 * row, 4 * row))
        packets += tb.vector_packets(
            each,
            rows=rows,
            cols=cols,
            inputs=[first, None, None, fourth],
            output=output,
            params=[1.5, -2.0, 0, 0x1234_5678, 0, 0, 0, 3],
            batch=batch,
        )
    await run_all(tb, packets, "ring")


@npu_test()
async def test_lengths(tb: NpuTestbench) -> None:
    """Rows of every length; elements that a short chunk does not process keep their values."""

    def copied(b: Builder) -> None:
        with b.chunks(advance=[b.stream(0)]):
            b.mov(b.out, b.stream(0))

    def kept(b: Builder) -> None:
        x, first, last = b.stream(0), b.vector(), b.vector()
        b.mov(first, x)
        with b.chunks(advance=[x]):
            b.iadd(last, x, first)
        b.mov(b.out, last)

    whole, left = program("copied", copied), program("kept", kept)
    await tb.load_programs(whole, left)
    packets: list[Packet] = []
    for cols in lengths(tb):
        source = Stream(tb.place(words(tb, 3, cols)), row_stride=4 * cols)
        head = min(cols, tb.config.vector_length)
        for each, length in ((whole, cols), (left, head)):
            output = Stream(tb.destination(12 * length), row_stride=4 * length, seg_len=length)
            packets += tb.vector_packets(each, rows=3, cols=cols, inputs=[source], output=output)
    await run_all(tb, packets, "ring")


@npu_test()
async def test_registers_are_zero_at_a_row(tb: NpuTestbench) -> None:
    """The registers of a row, or of a command, hold nothing of the one before."""
    code = OPERAND_CODES
    names = [f"{bank}{i}" for bank, count in (("v", 16), ("r", 16), ("w", 2)) for i in range(count)]
    body = [Instruction(Op.ADD, code["v0"], code[names[0]], code[names[1]])]
    body += [Instruction(Op.OR, code["v0"], code["v0"], code[name]) for name in names[2:]]
    for i in range(4):
        body += [
            Instruction(Op.FOLDIADD, code["r0"], code[f"a{i}"]),
            Instruction(Op.OR, code["v0"], code["v0"], code["r0"]),
        ]
    body.append(Instruction(Op.MOV, code["o"], code["v0"]))
    body += [Instruction(Op.MOV, code[name], code["s0"]) for name in names]
    body += [Instruction(Op.ADD, code[f"a{i}"], code["s0"]) for i in range(4)]
    dirty = Program("dirty", (*body, Instruction(Op.END)), (1, 1, 1, 1))  # reads what it has not written
    cols = tb.config.vector_length
    source = Stream(tb.place(words(tb, 3, cols)), row_stride=4 * cols)
    for _ in range(2):
        output = Stream(tb.destination(12 * cols), row_stride=4 * cols)
        await tb.vector(dirty, "ring", rows=3, cols=cols, inputs=[source], output=output)


@npu_test()
async def test_one(tb: NpuTestbench) -> None:
    """The `one` flag, and scalar destinations: element 0 alone, in and outside of chunk loops."""

    def body(b: Builder) -> None:
        x, y = b.stream(0), b.stream(1)
        v, r, w = b.vector(), b.scalar(), b.row_register()
        acc = b.accumulator()
        b.mov(v, x)
        b.mov(w, y)
        b.aset(acc, 0.25)
        b.mul(r, x, v)
        with b.chunks(advance=[x, y]):
            b.fma(v, x, y, r, one=True)
            b.add(r, v, w)
            b.add(w, r, b.iota, one=True)
            b.fma(acc, x, r, one=True)
            b.swap(v, v, one=True)
        b.foldadd(r, acc)
        b.add(w, w, r, one=True)
        b.mov(b.out, w)

    cols = min(tb.config.row_elements, tb.config.vector_length)
    long = min(tb.config.row_elements, 2 * tb.config.vector_length + 5)
    for count in (1, cols, long):
        length = min(count, tb.config.vector_length)
        inputs = [Stream(tb.place(tb.floats(2, count)), row_stride=4 * count) for _ in range(2)]
        output = Stream(tb.destination(8 * length), row_stride=4 * length, seg_len=length)
        await tb.vector(program("one", body), rows=2, cols=count, inputs=inputs, output=output)


@npu_test(via=["window", "ring"])
async def test_accumulators(tb: NpuTestbench, via: Path) -> None:
    """Each accumulating instruction over chunks of a row, folded in every way."""
    code = OPERAND_CODES
    programs = []
    for op, count in ACCUMULATING.items():
        for i, fold in enumerate(FOLDED):
            accumulator = code[f"a{i % 4}"]
            sources = (code["s0"], code["s1"], 0)[:count]
            body = [
                Instruction(Op.ASET, accumulator, code[("imm", "p1", "cols", "row")[i % 4]], imm=0x3F800000),
                Instruction(Op.CHUNKS),
                Instruction(op, accumulator, *sources),
                Instruction(Op.NEXT, imm=(1 << count) - 1),
                Instruction(fold, code["r5"], accumulator),
                Instruction(Op.MOV, code["o"], code["r5"], one=True),
                Instruction(Op.END),
            ]
            programs.append(make_program(f"{op.mnemonic} {fold.mnemonic}", body))
    await tb.load_programs(*programs)
    packets: list[Packet] = []
    for each, cols in zip(programs, itertools.cycle(lengths(tb)), strict=False):
        integers = each.instructions[2].op >= Op.IADD
        values = words(tb, 2, 2, cols) if integers else tb.floats(2, 2, cols).view(np.uint32)
        inputs = [Stream(tb.place(part), row_stride=4 * cols) for part in values]
        output = Stream(tb.destination(8), row_stride=4, seg_len=1)
        needed = each.instructions[3].imm.bit_count()
        packets += tb.vector_packets(
            each, rows=2, cols=cols, inputs=inputs[:needed], output=output, params=[0, 7]
        )
    await run_all(tb, packets, via)


@npu_test()
async def test_accumulators_of_special_values(tb: NpuTestbench) -> None:
    """Floats of all sizes, NaN and infinities show the order of accumulation and of a fold."""

    def body(b: Builder) -> None:
        x, y = b.stream(0), b.stream(1)
        totals = [b.accumulator() for _ in range(4)]
        for total, start in zip(totals, (0.0, float("inf"), float("-inf"), -0.0), strict=True):
            b.aset(total, start)
        with b.chunks(advance=[x, y]):
            b.add(totals[0], x)
            b.min(totals[1], x)
            b.max(totals[2], y)
            b.fnma(totals[3], x, y)
            b.add(totals[0], b.iota, one=True)
        r = b.scalar()
        v = b.vector()
        for i, (total, fold) in enumerate(
            zip(totals, (b.foldadd, b.foldmin, b.foldmax, b.foldadd), strict=True)
        ):
            fold(r, total)
            wanted = b.vector()
            b.icmpeq(wanted, b.iota, i)
            b.sel(v, wanted, r, v) if i else b.mov(v, r)
        b.mov(b.out, v)

    sums = program("sums", body)
    await tb.load_programs(sums)
    packets: list[Packet] = []
    cols = tb.config.vector_length + 33
    for kind in range(6):
        values = words(tb, 2, 3, cols) if kind % 2 else tb.floats(2, 3, cols).view(np.uint32)
        if kind >= 2:
            shift = tb.rng.integers(-120, 120, values.shape)
            with np.errstate(all="ignore"):
                values = np.ldexp(tb.floats(2, 3, cols), shift).astype(np.float32).view(np.uint32)
        inputs = [Stream(tb.place(part), row_stride=4 * cols) for part in values]
        length = min(cols, tb.config.vector_length)
        output = Stream(tb.destination(12 * length), row_stride=4 * length, seg_len=length)
        packets += tb.vector_packets(sums, rows=3, cols=cols, inputs=inputs, output=output)
    await run_all(tb, packets, "ring")


@npu_test(size=[4, 2, 1])
async def test_element_sizes(tb: NpuTestbench, size: int) -> None:
    """Elements of 4, 2 and 1 bytes on either side: sign-extended when loaded, cut when stored, anywhere."""
    copied = elementwise(Op.MOV)
    await tb.load_programs(copied)
    packets: list[Packet] = []
    for cols in lengths(tb):
        for out_size in (4, 2, 1):
            data = tb.rng.integers(0, 256, 3 * size * (cols + 5), dtype=np.uint8)
            offset = size * tb.random.randrange(40)
            source = Stream(tb.place(data, offset=offset), row_stride=size * (cols + 5), size=size)
            out_row = out_size * (cols + tb.random.choice((0, 3)))
            offset = out_size * tb.random.randrange(40)
            place = tb.destination(3 * out_row, offset=offset)
            output = Stream(place, row_stride=out_row, size=out_size)
            packets += tb.vector_packets(copied, rows=3, cols=cols, inputs=[source], output=output)
    await run_all(tb, packets, "ring")


@npu_test()
async def test_segments(tb: NpuTestbench) -> None:
    """Rows in segments, one after another; a window is zero beyond its segment."""

    def body(b: Builder) -> None:
        x, v = b.stream(0), b.vector()
        with b.repeat(advance=[x]):
            b.mov(v, x)
            b.add(v, v, b.rep)
            b.mov(b.out, v)

    rows_of_segments = program("segments", body)
    await tb.load_programs(rows_of_segments)
    packets: list[Packet] = []
    vlen = tb.config.vector_length
    sizes = ((1, 1), (3, 16), (16, 16), (17, 32), (vlen, vlen), (vlen - 7, vlen))
    for seg_len, cols in [each for each in sizes if max(each) <= vlen]:
        for segs in (1, 2, 5):
            for size in (4, 1):
                stride = size * (seg_len + tb.random.choice((0, 1, 30)))
                row = size * tb.random.choice((0, 1)) + segs * stride
                data = tb.rng.integers(0, 256, 2 * row + 64, dtype=np.uint8)
                source = Stream(
                    tb.place(data, offset=size * tb.random.randrange(9)),
                    seg_len=seg_len,
                    segs=segs,
                    seg_stride=stride,
                    row_stride=row,
                    size=size,
                )
                out_stride = 4 * (cols + tb.random.choice((0, 2)))
                place = tb.destination(2 * segs * out_stride)
                output = Stream(place, segs=segs, seg_stride=out_stride, row_stride=segs * out_stride)
                packets += tb.vector_packets(
                    rows_of_segments, rows=2, cols=cols, inputs=[source], output=output, repeats=segs
                )
    await run_all(tb, packets, "ring")


@npu_test()
async def test_packed_rows(tb: NpuTestbench) -> None:
    """A packed row counts as one segment: columns of a matrix, and pieces that begin and end anywhere."""
    copied = elementwise(Op.MOV)
    await tb.load_programs(copied)
    packets: list[Packet] = []
    for seg_len, segs in ((1, 7), (1, 40), (3, 30), (16, 3), (19, 9), (tb.config.vector_length + 1, 3)):
        for size in (4, 2, 1):
            cols = seg_len * segs
            stride = size * (seg_len + tb.random.choice((0, 1, 13)))
            data = tb.rng.integers(0, 256, segs * stride + 8 * size, dtype=np.uint8)
            # The rows are neighbouring columns.
            shape = {"seg_len": seg_len, "segs": segs, "pack": True, "size": size}
            source = Stream(tb.place(data), seg_stride=stride, row_stride=size, **shape)
            row = 4 * cols
            output = Stream(tb.destination(3 * row), row_stride=row)
            packets += tb.vector_packets(copied, rows=3, cols=cols, inputs=[source], output=output)
            row = segs * stride
            output = Stream(tb.destination(2 * row), seg_stride=stride, row_stride=row, **shape)
            dense = Stream(tb.place(words(tb, 2, cols)), row_stride=4 * cols)
            packets += tb.vector_packets(copied, rows=2, cols=cols, inputs=[dense], output=output)
    await run_all(tb, packets, "ring")


@npu_test()
async def test_transpose(tb: NpuTestbench) -> None:
    """A matrix transposed: its columns are read as packed rows, and, the other way, written as such."""
    copied = elementwise(Op.MOV)
    await tb.load_programs(copied)
    packets: list[Packet] = []
    for height, width in ((5, 70), (33, 18)):
        matrix = tb.place(words(tb, height, width))
        column = {"seg_len": 1, "segs": height, "pack": True}
        source = Stream(matrix, seg_stride=4 * width, row_stride=4, **column)
        output = Stream(tb.destination(4 * height * width), row_stride=4 * height)
        packets += tb.vector_packets(copied, rows=width, cols=height, inputs=[source], output=output)
        source = Stream(matrix, row_stride=4 * width)
        output = Stream(
            tb.destination(4 * height * width),
            seg_len=1,
            segs=width,
            pack=True,
            seg_stride=4 * height,
            row_stride=4,
        )
        packets += tb.vector_packets(copied, rows=height, cols=width, inputs=[source], output=output)
    await run_all(tb, packets, "ring")


@npu_test()
async def test_broadcast(tb: NpuTestbench) -> None:
    """A stream of one element a row is read anywhere and any number of times; advancing it does nothing."""

    def body(b: Builder) -> None:
        x, factor, bias = b.stream(0), b.stream(1), b.stream(3)
        v = b.vector()
        b.swap(v, factor)
        with b.chunks(advance=[x, factor]):
            b.fma(v, x, factor, v)
            b.add(v, v, bias)
            b.mov(b.out, v)

    scaled = program("scaled", body)
    await tb.load_programs(scaled)
    packets: list[Packet] = []
    rows = 5
    for cols in lengths(tb):
        for size in (4, 2, 1):
            source = Stream(tb.place(tb.floats(rows, cols)), row_stride=4 * cols)
            factors = tb.place(tb.rng.integers(0, 256, rows * size, dtype=np.uint8))
            factor = Stream(factors, bcast=True, row_stride=size, size=size)
            bias = Stream(tb.place(tb.floats(1)), bcast=True)
            output = Stream(tb.destination(4 * rows * cols), row_stride=4 * cols)
            packets += tb.vector_packets(
                scaled, rows=rows, cols=cols, inputs=[source, factor, None, bias], output=output
            )
    await run_all(tb, packets, "ring")


@npu_test()
async def test_passes(tb: NpuTestbench) -> None:
    """A row is read several times, to its last element each time; each stream has its own passes."""

    def body(b: Builder) -> None:
        x, y = b.stream(0), b.stream(2)
        total, r = b.accumulator(), b.scalar()
        b.aset(total, 0.0)
        with b.chunks(advance=[x]):
            b.fma(total, x, x)
        b.foldadd(r, total)
        with b.chunks(advance=[x, y]):
            b.fma(total, x, y)
        with b.chunks(advance=[x]):
            b.fma(b.out, x, r, x)

    normalised = program("normalised", body)
    await tb.load_programs(normalised)
    packets: list[Packet] = []
    for cols in (*lengths(tb), tb.config.row_elements + 5):
        rows = 3
        source = Stream(tb.place(tb.floats(rows, cols)), row_stride=4 * cols)
        weight = Stream(tb.place(tb.floats(cols)))  # the same row again
        output = Stream(tb.destination(4 * rows * cols), row_stride=4 * cols)
        packets += tb.vector_packets(
            normalised, rows=rows, cols=cols, inputs=[source, None, weight], output=output
        )
    # A stalled memory may take 150 clocks for each burst of the longest row.
    assert await tb.run(packets, "ring", timeout_cycles=8_000_000) == State.DONE


@npu_test()
async def test_row_registers(tb: NpuTestbench) -> None:
    """Row registers up to their last element, written chunk by chunk and read in another loop."""

    def body(b: Builder) -> None:
        x = b.stream(0)
        first, second = b.row_register(), b.row_register()
        with b.chunks(advance=[x]):
            b.mov(first, x)
            b.mul(second, x, x)
        with b.chunks():
            b.add(first, first, second)
            b.swap(second, first)
        with b.chunks():
            b.fma(b.out, first, second, b.iota)

    kept = program("kept rows", body)
    await tb.load_programs(kept)
    packets: list[Packet] = []
    row = tb.config.row_elements
    for cols in (1, 16, min(tb.config.vector_length + 3, row), row):
        source = Stream(tb.place(tb.floats(2, cols)), row_stride=4 * cols)
        output = Stream(tb.destination(8 * cols), row_stride=4 * cols)
        packets += tb.vector_packets(kept, rows=2, cols=cols, inputs=[source], output=output)
    await run_all(tb, packets, "ring")


@npu_test()
async def test_loops(tb: NpuTestbench) -> None:
    """Chunks inside of repeats, repeats inside of chunks, one after another; `rep` counts the innermost."""

    def chunks_inside(b: Builder) -> None:
        x = b.stream(0)
        with b.repeat(), b.chunks(advance=[x]):
            b.iadd(b.out, x, b.rep)

    def repeats_inside(b: Builder) -> None:
        x, v = b.stream(0), b.vector()
        with b.chunks(advance=[x]):
            b.mov(v, x)
            with b.repeat():
                b.iadd(v, v, b.rep)
                b.iadd(v, v, b.iota)
            b.iadd(b.out, v, b.rep)

    def in_turn(b: Builder) -> None:
        x, v = b.stream(0), b.vector()
        b.mov(v, 0)
        with b.repeat(advance=[x]):
            b.iadd(v, x, v)
        with b.chunks():
            b.iadd(b.out, b.iota, v)
        with b.repeat():
            b.iadd(v, v, b.rep)
        b.advance([x])

    vlen = tb.config.vector_length
    cols = 2 * vlen + 19
    inside, outside = program("chunks inside", chunks_inside), program("repeats inside", repeats_inside)
    turn = program("in turn", in_turn)
    await tb.load_programs(inside, outside, turn)
    packets: list[Packet] = []
    for repeats in (1, 2, 5):
        source = Stream(tb.place(words(tb, 2, cols)), row_stride=4 * cols, passes=repeats)
        row = 4 * cols * repeats
        output = Stream(tb.destination(2 * row), segs=repeats, seg_stride=4 * cols, row_stride=row)
        packets += tb.vector_packets(
            inside, rows=2, cols=cols, inputs=[source], output=output, repeats=repeats
        )
        once = Stream(source.address, row_stride=4 * cols)
        output = Stream(tb.destination(8 * cols), row_stride=4 * cols)
        packets += tb.vector_packets(
            outside, rows=2, cols=cols, inputs=[once], output=output, repeats=repeats
        )
        parts = Stream(source.address, row_stride=4 * cols, seg_len=3, segs=9, seg_stride=12, passes=2)
        output = Stream(tb.destination(8 * cols), row_stride=4 * cols)
        packets += tb.vector_packets(turn, rows=2, cols=cols, inputs=[parts], output=output, repeats=repeats)
    await run_all(tb, packets, "ring")


@npu_test()
async def test_batches(tb: NpuTestbench) -> None:
    """Two levels of batches on every stream, with the counters of all three levels."""

    def body(b: Builder) -> None:
        v = b.vector()
        b.iadd(v, b.row, b.batch0)
        b.iadd(v, v, b.batch1)
        with b.chunks(advance=[b.stream(0), b.stream(1)]):
            b.mul(b.out, b.stream(0), b.stream(1))
        with b.chunks():
            b.iadd(b.out, v, b.iota)

    numbered = program("numbered", body)
    await tb.load_programs(numbered)
    packets: list[Packet] = []
    for cols, rows, batch0, batch1 in ((17, 1, 3, 2), (40, 4, 1, 3), (1, 3, 5, 1), (80, 2, 2, 2)):
        row = 8 * cols + 12
        count = rows * batch0 * batch1
        inner, outer = row * rows, row * rows * batch0
        output = Stream(
            tb.destination(row * count),
            segs=2,
            seg_stride=4 * cols,
            row_stride=row,
            batch_strides=(inner, outer),
        )
        dense = Stream(
            tb.place(tb.floats(count, cols)),
            row_stride=4 * cols,
            batch_strides=(4 * cols * rows, 4 * cols * rows * batch0),
        )
        shared = Stream(tb.place(tb.floats(batch1, cols)), batch_strides=(0, 4 * cols))
        packets += tb.vector_packets(
            numbered, rows=rows, cols=cols, inputs=[dense, shared], output=output, batch=(batch0, batch1)
        )
    await run_all(tb, packets, "ring")


@npu_test(via=["window", "ring"])
async def test_in_place(tb: NpuTestbench, via: Path) -> None:
    """The output is an input: the program reads the old values, at any length and element size."""

    def body(b: Builder) -> None:
        x, y = b.stream(0), b.stream(1)
        with b.chunks(advance=[x, y]):
            b.iadd(b.out, x, y)

    summed = program("summed", body)
    await tb.load_programs(summed)
    packets: list[Packet] = []
    for size in (4, 2, 1):
        for cols in lengths(tb):
            row = size * (cols + tb.random.choice((0, 2)))
            data = tb.rng.integers(0, 256, 3 * row, dtype=np.uint8)
            place = tb.place(data, offset=size * tb.random.randrange(17))
            here = Stream(place, row_stride=row, size=size)
            other = Stream(tb.place(words(tb, 3, cols)), row_stride=4 * cols)
            for inputs in ([here, other], [other, here], [here, here]):
                packets += tb.vector_packets(summed, rows=3, cols=cols, inputs=inputs, output=here)
    await run_all(tb, packets, via)


@npu_test()
async def test_chains(tb: NpuTestbench) -> None:
    """Commands back to back, each of which needs the result of the one before."""
    summed, doubled = elementwise(Op.ADD), elementwise(Op.MUL)
    await tb.load_programs(summed, doubled)
    cols = 3 * tb.config.vector_length + 5
    places = [Stream(tb.place(tb.floats(cols))) for _ in range(3)]
    packets: list[Packet] = []
    for i in range(16):
        a, b, c = places[i % 3], places[(i + 1) % 3], places[(i + 2) % 3]
        packets += tb.vector_packets((summed, doubled)[i % 2], rows=1, cols=cols, inputs=[a, b], output=c)
        if i % 5 == 0:
            packets.append(NpuCommandPacket(Opcode.MEMCPY, 0, c.address, 0, a.address, m=4 * cols))
        if i % 5 == 1:
            packets.append(
                NpuCommandPacket(Opcode.ADD_TENSOR, 0, c.address, a.address, c.address, m=cols, alpha=0.5)
            )
    await run_all(tb, packets, "ring")


@npu_test()
async def test_many_short_rows(tb: NpuTestbench) -> None:
    """A thousand rows of a few elements."""
    copied = elementwise(Op.MUL)
    await tb.load_programs(copied)
    packets: list[Packet] = []
    for cols in (1, 3, 16):
        inputs = [Stream(tb.place(tb.floats(1000, cols)), row_stride=4 * cols) for _ in range(2)]
        output = Stream(tb.destination(4000 * cols), row_stride=4 * cols)
        packets += tb.vector_packets(copied, rows=1000, cols=cols, inputs=inputs, output=output)
    await run_all(tb, packets, "ring")


@npu_test()
async def test_page_and_region_ends(tb: NpuTestbench) -> None:
    """Rows that cross 4 KiB boundaries, and the last words of each region."""
    summed = elementwise(Op.ADD)
    await tb.load_programs(summed)
    packets: list[Packet] = []
    for before in (4, 28, 64, 100):
        cols = 1100
        inputs = [
            Stream(tb.place(tb.floats(cols), align=4096, offset=4096 - before), seg_len=cols),
            Stream(tb.place(tb.floats(cols), "weight", align=4096, offset=4096 - 4), seg_len=cols),
        ]
        output = Stream(tb.destination(4 * cols, align=4096, offset=4096 - before - 32))
        packets += tb.vector_packets(summed, rows=1, cols=cols, inputs=inputs, output=output)
    ends = [0x1000_0000 - 4 * 37, 0x2000_0000 - 4 * 37]
    for end in ends:
        tb.memory.write(end, tb.floats(37))
    output = Stream(tb.destination(4 * 37))
    packets += tb.vector_packets(summed, rows=1, cols=37, inputs=[Stream(end) for end in ends], output=output)
    packets += tb.vector_packets(
        summed, rows=1, cols=37, inputs=[output, Stream(ends[0])], output=Stream(ends[1])
    )
    await run_all(tb, packets, "ring")
