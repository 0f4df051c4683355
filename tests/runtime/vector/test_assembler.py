"""Assembly text: its meaning, refused text, and listings that assemble to their program."""

import random

import pytest

from echo_npu.vector import AssemblyError, Builder, Instruction, Op, Program
from echo_npu.vector.assembler import assemble, parse
from echo_npu.vector.disassembler import disassemble
from echo_npu.vector.isa import IMMEDIATE, OPERAND_CODES
from tb.stimulus.vector_programs import generate

TEXT = """
.name rmsnorm
.stream x s0
.stream weight s1 3
.def sum a0
    aset sum, 0.0
first: chunks
    fma sum, x, x        ; a comment
next first, x
    foldadd r0, sum
    scale r1, r0, -2
    mul.one r0, r1, 1e-3
second:
"""
REST = """
second: chunks
    mul v0, x, r0
    mul o, v0, weight
next second, x weight
    end
"""


def test_text() -> None:
    program = assemble(TEXT.replace("second:\n", "") + REST)
    assert program.name == "rmsnorm"
    assert program.passes == (2, 3, 1, 1)
    b = Builder("rmsnorm")
    total, r0, r1, v0 = b.accumulator(), b.scalar(), b.scalar(), b.vector()
    b.aset(total, 0.0)
    with b.chunks(advance=[b.stream(0)]):
        b.fma(total, b.stream(0), b.stream(0))
    b.foldadd(r0, total)
    b.scale(r1, r0, -2)
    b.mul(r0, r1, 1e-3, one=True)
    with b.chunks(advance=[b.stream(0), b.stream(1)]):
        b.mul(v0, b.stream(0), r0)
        b.mul(b.out, v0, b.stream(1))
    assert program.instructions == b.build().instructions


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("1.0", 0x3F800000),
        ("-0.0", 0x80000000),
        ("1e-3", 0x3A83126F),
        (".5", 0x3F000000),
        ("inf", 0x7F800000),
        ("-inf", 0xFF800000),
        ("nan", 0x7FC00000),
        ("7", 7),
        ("-1", 0xFFFFFFFF),
        ("010", 10),
        ("0xdeadbeef", 0xDEADBEEF),
        ("4294967295", 0xFFFFFFFF),
    ],
)
def test_immediates(text: str, bits: int) -> None:
    (made,) = parse(f"mov v0, {text}").instructions
    assert made == Instruction(Op.MOV, 0, IMMEDIATE, imm=bits)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("frob v0, v1", "2: there is no instruction 'frob'"),
        ("add.two v0, v1, v2", "2: .*only suffix is .one"),
        ("add v16, v1, v2", "2: there is no operand 'v16'"),
        ("add v0, r16, v2", "2: there is no operand 'r16'"),
        ("add v0, v1", "2: add v0: 1 sources, it takes 2"),
        ("add a0, v1, v2", "2: add a0: 2 sources, it takes 1"),
        ("mul a0, v1, v2", "2: mul does not accumulate"),
        ("add v0, o, v1", "2: add cannot read o as a"),
        ("add s0, v0, v1", "2: s0 cannot be written"),
        ("swap v0, r1", "2: swap cannot read r1"),
        ("fma v0, 1.0, 2.0, v1", "2: fma v0: two immediates"),
        ("mov v0, 4294967296", "2: immediate 4294967296 does not fit"),
        ("mov v0, 1e39", "2: immediate 1e.39 is beyond float32"),
        ("mov v0, imm", "2: there is no operand 'imm'"),
        ("next", "2: next without a loop"),
        ("next s0", "2: next without a loop"),
        ("x: add v0, 1.0, 1.0", "2: the label 'x' is not on a chunks or repeat"),
        ("x:", "2: the label 'x' has no chunks"),
        ("1x: chunks", "2: '1x' is no label"),
        ("x: chunks\nx: repeat", "3: there is a loop 'x' already"),
        ("x: chunks\ny: repeat\nnext x", "4: next x, but the innermost loop is the loop 'y'"),
        ("chunks\nnext x", "3: next x, but the innermost loop is a loop without a label"),
        ("chunks s0", "2: chunks takes no operands"),
        ("chunks.one", "2: chunks has no .one"),
        ("advance v0", "2: v0 is no input stream"),
        (".def v0 r1", "2: 'v0' cannot be the name"),
        (".def x q1", "2: there is no operand 'q1'"),
        (".def x v0\n.def x v1", "3: 'x' is defined already"),
        (".stream x v0", "2: v0 is no input stream"),
        (".stream x s0 16", "2: '16' passes; it must lie in 1..15"),
        (".entry 4", "2: '.entry 4': the directives are"),
        ("mov o, v3\nend", "2: .*instruction 0, `mov o, v3`: v3 is read before it is written"),
        ("mov o, 1.0", "3: .*does not end with `end`"),
        ("chunks\nend", "3: .*instruction 1, `end`: chunks has no next"),
        ("chunks\nchunks\nnext\nnext\nend", "3: .*chunks loop in a chunks loop"),
        ("end\nend", "2: .*end must be the last"),
    ],
)
def test_refused_with_the_line(text: str, reason: str) -> None:
    with pytest.raises(AssemblyError, match=f"^kernel.s:{reason}"):
        assemble("; the first line\n" + text + "\n", "kernel.s")


@pytest.mark.parametrize("seed", range(60))
def test_listing_assembles_to_the_same_program(seed: int) -> None:
    case = generate(seed, vector_length=32, row_elements=512, base=0)
    instructions = tuple(each for each in case.instructions if isinstance(each, Instruction))
    text = disassemble(Program("some", instructions, (1, 1, 1, 1)))
    source = parse(text)
    assert source.name == "some"
    assert tuple(source.instructions) == instructions, text


def test_every_immediate_comes_back() -> None:
    rng = random.Random(1)
    for op in (Op.ADD, Op.IADD, Op.MOV, Op.CLASS, Op.SCALE, Op.SHL):
        for _ in range(300):
            bits = rng.choice((rng.getrandbits(32), rng.getrandbits(8), rng.getrandbits(8) << 23))
            b = 0 if op == Op.MOV else OPERAND_CODES["v1"]
            made = Instruction(op, 0, IMMEDIATE, b, imm=bits)
            text = disassemble(Program("one", (made,), (1, 1, 1, 1)))
            assert parse(text).instructions == [made], text


def test_listing_is_readable() -> None:
    b = Builder("scale_up")
    x, v = b.stream(0), b.vector()
    with b.chunks(advance=[x]):
        b.mul(v, x, 0.5)
        b.add(b.out, v, b.param(0))
    assert b.build().listing() == (
        ".name scale_up\n"
        "    loop0: chunks\n"
        "        mul v0, s0, 0.5\n"
        "        add o, v0, p0\n"
        "    next loop0, s0\n"
        "    end\n"
    )
