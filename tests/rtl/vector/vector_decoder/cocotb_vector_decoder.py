"""vector_decoder compared with the functional model's instruction set: every opcode and operand code."""

import random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge, Timer

from echo_npu.vector.isa import OPERAND_CODES, Form, Instruction, Kind, Op, kind_of, source_count
from tests.rtl.vector.special import SPECIAL

CONFIGURATIONS: list[dict[str, int]] = [{}]
CODES = range(64)
LEGAL = [OPERAND_CODES[name] for name in ("v0", "r3", "s1", "w0", "imm", "iota", "row", "p7")]


ALL = (1 << 4096) - 1


async def decode(dut: Any, opcode: int, dst: int, a: int, b: int, c: int) -> None:
    """Decode an opcode with all pairs of two operands and the given other two."""
    one, imm = random.getrandbits(1), random.getrandbits(32)
    dut.given.value = imm << 32 | c << 26 | b << 20 | a << 14 | dst << 8 | one << 7 | opcode
    await Timer(1, "ns")
    dut.start.value = 1
    await RisingEdge(dut.done)
    dut.start.value = 0
    await Timer(1, "ns")


@cocotb.test()
async def every_instruction(dut: Any) -> None:
    """Exactly the instructions that the functional model calls legal are legal, whatever the unused fields
    hold."""
    for opcode in range(128):
        dst = random.choice((random.choice(LEGAL), OPERAND_CODES["a2"], OPERAND_CODES["o"]))
        a, b, c = (random.choice(LEGAL) for _ in range(3))
        await decode(dut, opcode, dst, a, b, c)
        refused = int(dut.illegal_dst_a.value), int(dut.illegal_b_c.value)
        if opcode not in set(Op):
            assert refused == (ALL, ALL), opcode
            continue
        op = Op(opcode)
        for left in CODES:
            for right in CODES:
                bit = 64 * left + right
                reason = Instruction(op, left, right, b, c).illegal()
                assert refused[0] >> bit & 1 == (reason is not None), (op.name, left, right, b, c, reason)
                reason = Instruction(op, dst, a, left, right).illegal()
                assert refused[1] >> bit & 1 == (reason is not None), (op.name, dst, a, left, right, reason)


@cocotb.test()
async def what_is_used(dut: Any) -> None:
    """The decoder reports the operands that an instruction reads, and its kind."""
    for op in Op:
        kinds = ("v1", "a1", *random.sample(("a0", "a2", "a3", "r2", "w1", "o"), 2))
        for dst in (OPERAND_CODES[name] for name in kinds):
            await decode(dut, op, dst, *(random.choice(LEGAL) for _ in range(3)))
            form = Instruction(op, dst).form
            count = source_count(op, dst)
            accumulates = form == Form.ALU and kind_of(dst) == Kind.ACCUMULATOR
            assert bool(dut.control.value) == (form in (Form.LOOP, Form.STEP, Form.END)), op
            assert bool(dut.fold.value) == (form == Form.FOLD), op
            assert bool(dut.special.value) == (op in SPECIAL), op
            if Instruction(op, dst).illegal() is None:
                assert int(dut.uses.value) == (1 << count) - 1 | accumulates << 3, op
