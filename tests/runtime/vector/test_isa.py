"""Encoding, and which operands an instruction may have."""

import random

import pytest

from echo_npu.vector.isa import ACCUMULATING, OPERAND_CODES, OPERAND_NAMES, Form, Instruction, Op, form_of

V = [f"v{i}" for i in range(16)]
R = [f"r{i}" for i in range(16)]
S = [f"s{i}" for i in range(4)]
A = [f"a{i}" for i in range(4)]
W = ["w0", "w1"]
P = [f"p{i}" for i in range(8)]
COUNTERS = ["row", "batch0", "batch1", "cols", "rep"]


def legal(op: Op, field: str, rest: dict[str, int]) -> set[str]:
    """Return the operands that are legal in one field; a code without a name is called ?."""
    codes = (code for code in range(64) if Instruction(op, **{**rest, field: code}).illegal() is None)
    return {OPERAND_NAMES.get(code, "?") for code in codes}


def test_words() -> None:
    rng = random.Random(1)
    for _ in range(1000):
        operands = [rng.randrange(64) for _ in range(4)]
        made = Instruction(rng.choice(list(Op)), *operands, imm=rng.getrandbits(32), one=rng.random() < 0.5)
        word = made.encode()
        assert Instruction.decode(word) == made
        assert word & 0x7F == made.op
        assert [word >> low & 63 for low in (8, 14, 20, 26)] == operands


def test_unknown_opcodes() -> None:
    for code in set(range(128)) - set(Op):
        with pytest.raises(ValueError, match=f"no opcode 0x{code:02x}"):
            Instruction.decode(code)


@pytest.mark.parametrize("op", [op for op in Op if form_of(op) == Form.ALU], ids=lambda op: op.mnemonic)
def test_operands_of_arithmetic(op: Op) -> None:
    written = {*V, *R, *W, "o"} | (set(A) if op in ACCUMULATING else set())
    read = {*V, *R, *S, *W, "imm", "iota", *COUNTERS, *P}
    assert legal(op, "dst", {}) == written
    for field in "abc"[: len(Instruction(op).sources)]:
        assert legal(op, field, {}) == ({*V, *S, *W} if op == Op.SWAP else read)


def test_operands_of_accumulators() -> None:
    acc = OPERAND_CODES["a0"]
    assert legal(Op.ASET, "dst", {"a": OPERAND_CODES["r0"]}) == set(A)
    assert legal(Op.ASET, "a", {"dst": acc}) == {*R, "imm", *COUNTERS, *P}
    assert legal(Op.FOLDADD, "dst", {"a": acc}) == set(R)
    assert legal(Op.FOLDADD, "a", {"dst": OPERAND_CODES["r0"]}) == set(A)


def test_fields_that_do_not_count() -> None:
    """A control instruction uses no operand field, an accumulation only those of its sources."""
    for op in (Op.CHUNKS, Op.REPEAT, Op.NEXT, Op.ADVANCE, Op.END):
        assert Instruction(op, 55, 55, 55, 55).illegal() is None
    acc = OPERAND_CODES["a0"]
    assert Instruction(Op.ADD, acc, 0, 55).illegal() is None
    assert Instruction(Op.FMA, acc, 0, 0, 55).illegal() is None
    assert Instruction(Op.FMA, acc, 0, 55).illegal() is not None
