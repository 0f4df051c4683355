"""The builder: registers, immediates, what it refuses, passes."""

import math

import numpy as np
import pytest

from echo_npu.vector import AssemblyError, Builder, Instruction, Op, make_program
from echo_npu.vector.immediates import immediate_bits
from echo_npu.vector.isa import IMMEDIATE, Form, Operand, form_of
from tests.refusals import refuses


def test_every_mnemonic_is_a_method() -> None:
    """Every mnemonic is a method that appends its opcode."""
    for op in Op:
        if form_of(op) not in (Form.ALU, Form.ASET, Form.FOLD):
            continue
        b = Builder("one")
        name = op.mnemonic + ("_" if op.mnemonic in ("and", "or", "class") else "")
        if op == Op.ASET:
            b.aset(b.accumulator(), 0)
        elif form_of(op) == Form.FOLD:
            acc = b.accumulator()
            b.aset(acc, 0)
            getattr(b, name)(b.scalar(), acc)
        else:
            sources = [b.stream(i) for i in range(len(Instruction(op).sources))]
            getattr(b, name)(b.out, *sources, one=True)
        made = b.build().instructions[-2]
        assert made.op == op
        assert made.one == (form_of(op) == Form.ALU)


def test_registers_run_out_and_come_back() -> None:
    b = Builder("full")
    taken = [b.vector() for _ in range(16)]
    assert [str(each) for each in taken] == [f"v{i}" for i in range(16)]
    refuses(AssemblyError, "full: all v registers are in use", b.vector)
    b.free(taken[3], taken[5])
    assert str(b.vector()) == "v3"
    refuses(AssemblyError, "v5 is not in use", b.free, taken[5])
    refuses(AssemblyError, "s0 is not in use", b.free, b.stream(0))
    for take, count in ((b.scalar, 16), (b.accumulator, 4), (b.row_register, 2)):
        assert len({str(take()) for _ in range(count)}) == count
        refuses(AssemblyError, "in use", take)


def test_like_follows_the_destination() -> None:
    b = Builder("x")
    assert str(b.like(b.scalar())) == "r1"
    assert str(b.like(b.out)) == "v0"


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (1.0, 0x3F800000),
        (np.float32(-0.0), 0x80000000),
        (np.float64(0.1), 0x3DCCCCCD),
        (math.inf, 0x7F800000),
        (-1, 0xFFFFFFFF),
        (np.int64(7), 7),
        (2**32 - 1, 0xFFFFFFFF),
    ],
)
def test_immediates(value: float, bits: int) -> None:
    assert immediate_bits(value) == bits


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (2**32, ValueError),
        (-(2**31) - 1, ValueError),
        (1e39, ValueError),
        (True, TypeError),
        ("1", TypeError),
    ],
)
def test_no_immediates(value: float, error: type[Exception]) -> None:
    refuses(error, None, immediate_bits, value)


def test_one_immediate_an_instruction() -> None:
    b = Builder("x")
    b.fma(b.out, b.stream(0), 2.0, 2.0)
    with pytest.raises(
        AssemblyError, match="x: instruction 1, fma o: two immediates, 0x40000000 and 0x40400000"
    ):
        b.fma(b.out, b.stream(0), 2.0, 3.0)
    assert b.build().instructions[0] == Instruction(Op.FMA, 42, 32, IMMEDIATE, IMMEDIATE, 0x40000000)


def test_wrong_operands_are_named() -> None:
    b = Builder("x")
    with pytest.raises(AssemblyError, match="x: instruction 0, `mul s0, s1, s1`: s0 cannot be written"):
        b.mul(b.stream(0), b.stream(1), b.stream(1))
    refuses(AssemblyError, "mul does not accumulate", b.mul, b.accumulator(), b.stream(1), b.stream(1))
    refuses(AssemblyError, "add a1: 2 sources, it takes 1", b.add, b.accumulator(), b.stream(1), b.stream(1))
    refuses(AssemblyError, "add v0: 1 sources, it takes 2", b.add, b.vector(), b.stream(1))
    refuses(AssemblyError, "swap cannot read r0", b.swap, b.out, b.scalar())
    refuses(AssemblyError, "p0 is no input stream", b.advance, [b.param(0)])


@pytest.mark.parametrize("kind", ["vector", "scalar", "row_register", "accumulator"])
def test_read_before_written(kind: str) -> None:
    b = Builder("x")
    register = getattr(b, kind)()
    if kind == "accumulator":
        b.add(register, 1.0)
    else:
        b.add(b.out, register, 1.0)
    refuses(AssemblyError, rf"instruction 0, .*: {register} is read before it is written", b.build)


def test_loops() -> None:
    b = Builder("x")
    with b.repeat(), b.chunks(advance=[b.stream(1), b.stream(3)]):
        b.mov(b.out, 1.0)
    ops = [each.op for each in b.build().instructions]
    assert ops == [Op.REPEAT, Op.CHUNKS, Op.MOV, Op.NEXT, Op.NEXT, Op.END]
    assert b.build().instructions[3].streams == (1, 3)
    with b.chunks(), b.chunks():
        pass
    refuses(AssemblyError, "x: instruction 6, `chunks`: a chunks loop in a chunks loop", b.build)


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        ([Op.CHUNKS, Op.END], "instruction 1, `end`: chunks has no next"),
        ([Op.NEXT, Op.END], "instruction 0, `next`: no loop to end"),
        ([Op.END, Op.END], "instruction 0, `end`: end must be the last instruction"),
        ([], "does not end with `end`"),
    ],
)
def test_make_program_refuses(ops: list[Op], reason: str) -> None:
    refuses(AssemblyError, reason, make_program, "x", [Instruction(op) for op in ops])


def test_passes() -> None:
    """A loop that advances is a pass; a read after it begins another one."""
    b = Builder("x")
    s = [b.stream(i) for i in range(4)]
    v = b.vector()
    with b.chunks(advance=s[:2]):
        b.add(v, s[0], s[1])
    with b.repeat():
        with b.chunks(advance=[s[1]]):
            b.mov(v, s[1])
        b.mov(v, s[2])
    b.mov(v, s[0])
    assert b.build().passes == (2, 2, 1, 1)


def test_words_are_the_encoded_instructions() -> None:
    b = Builder("x")
    b.mov(b.out, -1, one=True)
    program = b.build()
    assert program.words.dtype == np.uint64
    # mov, one, dst o, a imm; then end
    assert program.words.tolist() == [0x1A | 1 << 7 | 42 << 8 | 48 << 14 | 0xFFFFFFFF << 32, 0x44]
    assert program.code == program.words.astype("<u8").tobytes()
    assert len(program) == 2
    with pytest.raises(ValueError, match="read-only"):
        program.words[0] = 0


def test_operands_have_codes() -> None:
    refuses(ValueError, "no operand with code 43", Operand, 43)


def test_a_constant_gets_no_register_that_was_written() -> None:
    """It is set before everything else, so an earlier write would replace it."""
    b = Builder("late")
    early = b.scalar()
    b.mov(early, 1.0)
    b.free(early)
    assert b.constant(2.0) != early
    assert b.scalar() == early
    others = [b.scalar() for _ in range(14)]
    b.free(*others)
    with pytest.raises(AssemblyError, match="all scalar registers are or were in use"):
        b.constant(3.0)


def test_constants_are_set_once_before_everything_else() -> None:
    b = Builder("constants")
    with b.chunks(advance=[b.stream(0)]):
        first = b.constant(0.5)
        b.fma(b.out, b.stream(0), first, b.constant(3))
        assert b.constant(0.5) == first
    program = b.build()
    assert [each.op for each in program.instructions] == [Op.MOV, Op.MOV, Op.CHUNKS, Op.FMA, Op.NEXT, Op.END]
    assert [each.imm for each in program.instructions[:2]] == [0x3F00_0000, 3]
    assert b.scalar() not in (first, b.constant(3))
