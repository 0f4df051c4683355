"""VECTOR: instructions, operands, stream shapes and loops of docs/vector.md, against the functional model."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from echo_npu.packets import NpuCommandPacket, Opcode, Packet
from echo_npu.status import State
from echo_npu.vector.command import Stream
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
from tb.bench import NpuBench, npu_test
from tb.drivers.commands import Path

ARITHMETIC = [op for op in Op if form_of(op) == Form.ALU]

# Bit patterns at which one instruction or another changes its rules.
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


def words(bench: NpuBench, *shape: int) -> NDArray[np.uint32]:
    """Operands of all kinds mixed: floats, small integers, random and special bit patterns."""
    rng = bench.rng
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


def lengths(bench: NpuBench) -> list[int]:
    """Row lengths around lanes, accumulators, a chunk and several of them."""
    vlen = bench.config.vector_length
    return [1, 2, 15, 16, 17, vlen - 1, vlen, vlen + 1, 2 * vlen, 2 * vlen + 19]


def program(name: str, body: Maker) -> Program:
    """The program that `body` writes."""
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


async def run_all(bench: NpuBench, packets: Sequence[Packet], via: Path) -> None:
    assert await bench.run(packets, via) == State.DONE


@npu_test(via=["window", "ring"])
async def test_instructions(bench: NpuBench, via: Path) -> None:
    """Each instruction once, elementwise on streams: two rows of a few chunks."""
    programs = {op: elementwise(op) for op in ARITHMETIC}
    await bench.load_programs(*programs.values())
    cols = 2 * bench.config.vector_length + 21
    inputs = [Stream(bench.place(words(bench, 2, cols)), row_stride=4 * cols) for _ in range(3)]
    packets: list[Packet] = []
    for op, each in programs.items():
        output = Stream(bench.destination(8 * cols), row_stride=4 * cols)
        packets += bench.vector_packets(
            each, rows=2, cols=cols, inputs=inputs[: source_count(op)], output=output
        )
    await run_all(bench, packets, via)


@npu_test()
async def test_special_pairs(bench: NpuBench) -> None:
    """All pairs of special values through every instruction of up to two sources, and fma, fnma, fms."""
    programs = {op: elementwise(op) for op in ARITHMETIC}
    await bench.load_programs(*programs.values())
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)), dtype=np.uint32)
    third = bench.rng.choice(SPECIAL, len(pairs))
    inputs = [Stream(bench.place(values.copy())) for values in (pairs[:, 0], pairs[:, 1], third)]
    packets: list[Packet] = []
    for op, each in programs.items():
        output = Stream(bench.destination(4 * len(pairs)))
        packets += bench.vector_packets(
            each, rows=1, cols=len(pairs), inputs=inputs[: source_count(op)], output=output
        )
    await run_all(bench, packets, "ring")


@npu_test()
async def test_operands(bench: NpuBench) -> None:
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
    await bench.load_programs(*programs)
    cols = bench.config.vector_length - 3
    rows, batch, row = 2, (2, 2), 4 * cols
    first = Stream(bench.place(bench.floats(8, cols)), row_stride=row, batch_strides=(2 * row, 4 * row))
    fourth = Stream(bench.place(words(bench, cols)))
    packets: list[Packet] = []
    for each in programs:
        output = Stream(bench.destination(8 * row), row_stride=row, batch_strides=(2 * row, 4 * row))
        packets += bench.vector_packets(
            each,
            rows=rows,
            cols=cols,
            inputs=[first, None, None, fourth],
            output=output,
            params=[1.5, -2.0, 0, 0x1234_5678, 0, 0, 0, 3],
            batch=batch,
        )
    await run_all(bench, packets, "ring")


@npu_test()
async def test_lengths(bench: NpuBench) -> None:
    """Rows of every length; what a short chunk does not process keeps its value."""

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
    await bench.load_programs(whole, left)
    packets: list[Packet] = []
    for cols in lengths(bench):
        source = Stream(bench.place(words(bench, 3, cols)), row_stride=4 * cols)
        head = min(cols, bench.config.vector_length)
        for each, length in ((whole, cols), (left, head)):
            output = Stream(bench.destination(12 * length), row_stride=4 * length, seg_len=length)
            packets += bench.vector_packets(each, rows=3, cols=cols, inputs=[source], output=output)
    await run_all(bench, packets, "ring")


@npu_test()
async def test_registers_are_zero_at_a_row(bench: NpuBench) -> None:
    """Nothing of a row, or of a command, is left in the registers of the next one."""
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
    cols = bench.config.vector_length
    source = Stream(bench.place(words(bench, 3, cols)), row_stride=4 * cols)
    for _ in range(2):
        output = Stream(bench.destination(12 * cols), row_stride=4 * cols)
        await bench.vector(dirty, "ring", rows=3, cols=cols, inputs=[source], output=output)


@npu_test()
async def test_one(bench: NpuBench) -> None:
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

    cols = min(bench.config.row_elements, bench.config.vector_length)
    long = min(bench.config.row_elements, 2 * bench.config.vector_length + 5)
    for count in (1, cols, long):
        length = min(count, bench.config.vector_length)
        inputs = [Stream(bench.place(bench.floats(2, count)), row_stride=4 * count) for _ in range(2)]
        output = Stream(bench.destination(8 * length), row_stride=4 * length, seg_len=length)
        await bench.vector(program("one", body), rows=2, cols=count, inputs=inputs, output=output)


@npu_test(via=["window", "ring"])
async def test_accumulators(bench: NpuBench, via: Path) -> None:
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
    await bench.load_programs(*programs)
    packets: list[Packet] = []
    for each, cols in zip(programs, itertools.cycle(lengths(bench)), strict=False):
        integers = each.instructions[2].op >= Op.IADD
        values = words(bench, 2, 2, cols) if integers else bench.floats(2, 2, cols).view(np.uint32)
        inputs = [Stream(bench.place(part), row_stride=4 * cols) for part in values]
        output = Stream(bench.destination(8), row_stride=4, seg_len=1)
        needed = each.instructions[3].imm.bit_count()
        packets += bench.vector_packets(
            each, rows=2, cols=cols, inputs=inputs[:needed], output=output, params=[0, 7]
        )
    await run_all(bench, packets, via)


@npu_test()
async def test_accumulators_of_special_values(bench: NpuBench) -> None:
    """The order of accumulation and of a fold shows in floats of all sizes, NaN and infinities."""

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
    await bench.load_programs(sums)
    packets: list[Packet] = []
    cols = bench.config.vector_length + 33
    for kind in range(6):
        values = words(bench, 2, 3, cols) if kind % 2 else bench.floats(2, 3, cols).view(np.uint32)
        if kind >= 2:
            shift = bench.rng.integers(-120, 120, values.shape)
            with np.errstate(all="ignore"):
                values = np.ldexp(bench.floats(2, 3, cols), shift).astype(np.float32).view(np.uint32)
        inputs = [Stream(bench.place(part), row_stride=4 * cols) for part in values]
        length = min(cols, bench.config.vector_length)
        output = Stream(bench.destination(12 * length), row_stride=4 * length, seg_len=length)
        packets += bench.vector_packets(sums, rows=3, cols=cols, inputs=inputs, output=output)
    await run_all(bench, packets, "ring")


@npu_test(size=[4, 2, 1])
async def test_element_sizes(bench: NpuBench, size: int) -> None:
    """Elements of 4, 2 and 1 bytes on either side: sign-extended when loaded, cut when stored, anywhere."""
    copied = elementwise(Op.MOV)
    await bench.load_programs(copied)
    packets: list[Packet] = []
    for cols in lengths(bench):
        for out_size in (4, 2, 1):
            data = bench.rng.integers(0, 256, 3 * size * (cols + 5), dtype=np.uint8)
            offset = size * bench.random.randrange(40)
            source = Stream(bench.place(data, offset=offset), row_stride=size * (cols + 5), size=size)
            out_row = out_size * (cols + bench.random.choice((0, 3)))
            offset = out_size * bench.random.randrange(40)
            place = bench.destination(3 * out_row, offset=offset)
            output = Stream(place, row_stride=out_row, size=out_size)
            packets += bench.vector_packets(copied, rows=3, cols=cols, inputs=[source], output=output)
    await run_all(bench, packets, "ring")


@npu_test()
async def test_segments(bench: NpuBench) -> None:
    """Rows in segments, one after another; a window is zero behind its segment."""

    def body(b: Builder) -> None:
        x, v = b.stream(0), b.vector()
        with b.repeat(advance=[x]):
            b.mov(v, x)
            b.add(v, v, b.rep)
            b.mov(b.out, v)

    rows_of_segments = program("segments", body)
    await bench.load_programs(rows_of_segments)
    packets: list[Packet] = []
    vlen = bench.config.vector_length
    for seg_len, cols in ((1, 1), (3, 16), (16, 16), (17, 32), (vlen, vlen), (vlen - 7, vlen)):
        for segs in (1, 2, 5):
            for size in (4, 1):
                stride = size * (seg_len + bench.random.choice((0, 1, 30)))
                row = size * bench.random.choice((0, 1)) + segs * stride
                data = bench.rng.integers(0, 256, 2 * row + 64, dtype=np.uint8)
                source = Stream(
                    bench.place(data, offset=size * bench.random.randrange(9)),
                    seg_len=seg_len,
                    segs=segs,
                    seg_stride=stride,
                    row_stride=row,
                    size=size,
                )
                out_stride = 4 * (cols + bench.random.choice((0, 2)))
                place = bench.destination(2 * segs * out_stride)
                output = Stream(place, segs=segs, seg_stride=out_stride, row_stride=segs * out_stride)
                packets += bench.vector_packets(
                    rows_of_segments, rows=2, cols=cols, inputs=[source], output=output, repeats=segs
                )
    await run_all(bench, packets, "ring")


@npu_test()
async def test_packed_rows(bench: NpuBench) -> None:
    """A packed row is one segment: columns of a matrix, and pieces that begin and end anywhere."""
    copied = elementwise(Op.MOV)
    await bench.load_programs(copied)
    packets: list[Packet] = []
    for seg_len, segs in ((1, 7), (1, 40), (3, 30), (16, 3), (19, 9), (bench.config.vector_length + 1, 3)):
        for size in (4, 2, 1):
            cols = seg_len * segs
            stride = size * (seg_len + bench.random.choice((0, 1, 13)))
            data = bench.rng.integers(0, 256, segs * stride + 8 * size, dtype=np.uint8)
            # The rows are neighbouring columns.
            shape = {"seg_len": seg_len, "segs": segs, "pack": True, "size": size}
            source = Stream(bench.place(data), seg_stride=stride, row_stride=size, **shape)
            row = 4 * cols
            output = Stream(bench.destination(3 * row), row_stride=row)
            packets += bench.vector_packets(copied, rows=3, cols=cols, inputs=[source], output=output)
            row = segs * stride
            output = Stream(bench.destination(2 * row), seg_stride=stride, row_stride=row, **shape)
            dense = Stream(bench.place(words(bench, 2, cols)), row_stride=4 * cols)
            packets += bench.vector_packets(copied, rows=2, cols=cols, inputs=[dense], output=output)
    await run_all(bench, packets, "ring")


@npu_test()
async def test_transpose(bench: NpuBench) -> None:
    """A matrix transposed: its columns are read as packed rows, and, the other way, written as such."""
    copied = elementwise(Op.MOV)
    await bench.load_programs(copied)
    packets: list[Packet] = []
    for height, width in ((5, 70), (33, 18)):
        matrix = bench.place(words(bench, height, width))
        column = {"seg_len": 1, "segs": height, "pack": True}
        source = Stream(matrix, seg_stride=4 * width, row_stride=4, **column)
        output = Stream(bench.destination(4 * height * width), row_stride=4 * height)
        packets += bench.vector_packets(copied, rows=width, cols=height, inputs=[source], output=output)
        source = Stream(matrix, row_stride=4 * width)
        output = Stream(
            bench.destination(4 * height * width),
            seg_len=1,
            segs=width,
            pack=True,
            seg_stride=4 * height,
            row_stride=4,
        )
        packets += bench.vector_packets(copied, rows=height, cols=width, inputs=[source], output=output)
    await run_all(bench, packets, "ring")


@npu_test()
async def test_broadcast(bench: NpuBench) -> None:
    """A stream of one element a row, read anywhere and as often as one likes; advancing it does nothing."""

    def body(b: Builder) -> None:
        x, factor, bias = b.stream(0), b.stream(1), b.stream(3)
        v = b.vector()
        b.swap(v, factor)
        with b.chunks(advance=[x, factor]):
            b.fma(v, x, factor, v)
            b.add(v, v, bias)
            b.mov(b.out, v)

    scaled = program("scaled", body)
    await bench.load_programs(scaled)
    packets: list[Packet] = []
    rows = 5
    for cols in lengths(bench):
        for size in (4, 2, 1):
            source = Stream(bench.place(bench.floats(rows, cols)), row_stride=4 * cols)
            factors = bench.place(bench.rng.integers(0, 256, rows * size, dtype=np.uint8))
            factor = Stream(factors, bcast=True, row_stride=size, size=size)
            bias = Stream(bench.place(bench.floats(1)), bcast=True)
            output = Stream(bench.destination(4 * rows * cols), row_stride=4 * cols)
            packets += bench.vector_packets(
                scaled, rows=rows, cols=cols, inputs=[source, factor, None, bias], output=output
            )
    await run_all(bench, packets, "ring")


@npu_test()
async def test_passes(bench: NpuBench) -> None:
    """A row read several times, to its last element each time; each stream on its own."""

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
    await bench.load_programs(normalised)
    packets: list[Packet] = []
    for cols in (*lengths(bench), bench.config.row_elements + 5):
        rows = 3
        source = Stream(bench.place(bench.floats(rows, cols)), row_stride=4 * cols)
        weight = Stream(bench.place(bench.floats(cols)))  # the same row again
        output = Stream(bench.destination(4 * rows * cols), row_stride=4 * cols)
        packets += bench.vector_packets(
            normalised, rows=rows, cols=cols, inputs=[source, None, weight], output=output
        )
    await run_all(bench, packets, "ring")


@npu_test()
async def test_row_registers(bench: NpuBench) -> None:
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
    await bench.load_programs(kept)
    packets: list[Packet] = []
    for cols in (1, 16, bench.config.vector_length + 3, bench.config.row_elements):
        source = Stream(bench.place(bench.floats(2, cols)), row_stride=4 * cols)
        output = Stream(bench.destination(8 * cols), row_stride=4 * cols)
        packets += bench.vector_packets(kept, rows=2, cols=cols, inputs=[source], output=output)
    await run_all(bench, packets, "ring")


@npu_test()
async def test_loops(bench: NpuBench) -> None:
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

    vlen = bench.config.vector_length
    cols = 2 * vlen + 19
    inside, outside = program("chunks inside", chunks_inside), program("repeats inside", repeats_inside)
    turn = program("in turn", in_turn)
    await bench.load_programs(inside, outside, turn)
    packets: list[Packet] = []
    for repeats in (1, 2, 5):
        source = Stream(bench.place(words(bench, 2, cols)), row_stride=4 * cols, passes=repeats)
        row = 4 * cols * repeats
        output = Stream(bench.destination(2 * row), segs=repeats, seg_stride=4 * cols, row_stride=row)
        packets += bench.vector_packets(
            inside, rows=2, cols=cols, inputs=[source], output=output, repeats=repeats
        )
        once = Stream(source.address, row_stride=4 * cols)
        output = Stream(bench.destination(8 * cols), row_stride=4 * cols)
        packets += bench.vector_packets(
            outside, rows=2, cols=cols, inputs=[once], output=output, repeats=repeats
        )
        parts = Stream(source.address, row_stride=4 * cols, seg_len=3, segs=9, seg_stride=12, passes=2)
        output = Stream(bench.destination(8 * cols), row_stride=4 * cols)
        packets += bench.vector_packets(
            turn, rows=2, cols=cols, inputs=[parts], output=output, repeats=repeats
        )
    await run_all(bench, packets, "ring")


@npu_test()
async def test_batches(bench: NpuBench) -> None:
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
    await bench.load_programs(numbered)
    packets: list[Packet] = []
    for cols, rows, batch0, batch1 in ((17, 1, 3, 2), (40, 4, 1, 3), (1, 3, 5, 1), (80, 2, 2, 2)):
        row = 8 * cols + 12
        count = rows * batch0 * batch1
        inner, outer = row * rows, row * rows * batch0
        output = Stream(
            bench.destination(row * count),
            segs=2,
            seg_stride=4 * cols,
            row_stride=row,
            batch_strides=(inner, outer),
        )
        dense = Stream(
            bench.place(bench.floats(count, cols)),
            row_stride=4 * cols,
            batch_strides=(4 * cols * rows, 4 * cols * rows * batch0),
        )
        shared = Stream(bench.place(bench.floats(batch1, cols)), batch_strides=(0, 4 * cols))
        packets += bench.vector_packets(
            numbered, rows=rows, cols=cols, inputs=[dense, shared], output=output, batch=(batch0, batch1)
        )
    await run_all(bench, packets, "ring")


@npu_test(via=["window", "ring"])
async def test_in_place(bench: NpuBench, via: Path) -> None:
    """The output on an input: what has been read is what was there before, at any length and size."""

    def body(b: Builder) -> None:
        x, y = b.stream(0), b.stream(1)
        with b.chunks(advance=[x, y]):
            b.iadd(b.out, x, y)

    summed = program("summed", body)
    await bench.load_programs(summed)
    packets: list[Packet] = []
    for size in (4, 2, 1):
        for cols in lengths(bench):
            row = size * (cols + bench.random.choice((0, 2)))
            data = bench.rng.integers(0, 256, 3 * row, dtype=np.uint8)
            place = bench.place(data, offset=size * bench.random.randrange(17))
            here = Stream(place, row_stride=row, size=size)
            other = Stream(bench.place(words(bench, 3, cols)), row_stride=4 * cols)
            for inputs in ([here, other], [other, here], [here, here]):
                packets += bench.vector_packets(summed, rows=3, cols=cols, inputs=inputs, output=here)
    await run_all(bench, packets, via)


@npu_test()
async def test_chains(bench: NpuBench) -> None:
    """Commands back to back, each of which needs the result of the one before."""
    summed, doubled = elementwise(Op.ADD), elementwise(Op.MUL)
    await bench.load_programs(summed, doubled)
    cols = 3 * bench.config.vector_length + 5
    places = [Stream(bench.place(bench.floats(cols))) for _ in range(3)]
    packets: list[Packet] = []
    for i in range(16):
        a, b, c = places[i % 3], places[(i + 1) % 3], places[(i + 2) % 3]
        packets += bench.vector_packets((summed, doubled)[i % 2], rows=1, cols=cols, inputs=[a, b], output=c)
        if i % 5 == 0:
            packets.append(NpuCommandPacket(Opcode.MEMCPY, 0, c.address, 0, a.address, m=4 * cols))
        if i % 5 == 1:
            packets.append(
                NpuCommandPacket(Opcode.ADD_TENSOR, 0, c.address, a.address, c.address, m=cols, alpha=0.5)
            )
    await run_all(bench, packets, "ring")


@npu_test()
async def test_many_short_rows(bench: NpuBench) -> None:
    """A thousand rows of a few elements."""
    copied = elementwise(Op.MUL)
    await bench.load_programs(copied)
    packets: list[Packet] = []
    for cols in (1, 3, 16):
        inputs = [Stream(bench.place(bench.floats(1000, cols)), row_stride=4 * cols) for _ in range(2)]
        output = Stream(bench.destination(4000 * cols), row_stride=4 * cols)
        packets += bench.vector_packets(copied, rows=1000, cols=cols, inputs=inputs, output=output)
    await run_all(bench, packets, "ring")


@npu_test()
async def test_page_and_region_ends(bench: NpuBench) -> None:
    """Rows that cross 4 KiB boundaries, and the last words of each region."""
    summed = elementwise(Op.ADD)
    await bench.load_programs(summed)
    packets: list[Packet] = []
    for before in (4, 28, 64, 100):
        cols = 1100
        inputs = [
            Stream(bench.place(bench.floats(cols), align=4096, offset=4096 - before), seg_len=cols),
            Stream(bench.place(bench.floats(cols), "weight", align=4096, offset=4096 - 4), seg_len=cols),
        ]
        output = Stream(bench.destination(4 * cols, align=4096, offset=4096 - before - 32))
        packets += bench.vector_packets(summed, rows=1, cols=cols, inputs=inputs, output=output)
    ends = [0x1000_0000 - 4 * 37, 0x2000_0000 - 4 * 37]
    for end in ends:
        bench.memory.write(end, bench.floats(37))
    output = Stream(bench.destination(4 * 37))
    packets += bench.vector_packets(
        summed, rows=1, cols=37, inputs=[Stream(end) for end in ends], output=output
    )
    packets += bench.vector_packets(
        summed, rows=1, cols=37, inputs=[output, Stream(ends[0])], output=Stream(ends[1])
    )
    await run_all(bench, packets, "ring")
