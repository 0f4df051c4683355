"""Disassemble words of the vector engine to text that `assembler` reads."""

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from echo_npu.vector.immediates import immediate_bits
from echo_npu.vector.isa import IMMEDIATE, OPERAND_NAMES, Form, Instruction, Op

_FLOAT_OPS: Final = frozenset(op for op in Op if op <= Op.FMS or Op.MIN <= op <= Op.CMPUN)
_INTEGER_OPS: Final = frozenset({Op.SCALE, *(op for op in Op if Op.IADD <= op <= Op.ICMPLT)})


class InstructionList(Protocol):
    """The part of `Program` that a listing needs."""

    @property
    def name(self) -> str: ...

    @property
    def instructions(self) -> Sequence[Instruction]: ...


def disassemble(program: InstructionList) -> str:
    """Return the text of `program`, an instruction a line, with loops indented and labelled."""
    lines = [f".name {program.name}"]
    labels: list[str] = []
    loops = 0
    for instruction in program.instructions:
        text = describe(instruction)
        indent = "    " * (1 + len(labels))
        if instruction.form == Form.LOOP:
            labels.append(f"loop{loops}")
            loops += 1
            lines.append(f"{indent}{labels[-1]}: {text}")
        elif instruction.op == Op.NEXT:
            label = labels.pop()
            streams = text.removeprefix("next").strip()
            lines.append(f"{indent[4:]}next {label}{', ' + streams if streams else ''}")
        else:
            lines.append(indent + text)
    return "\n".join(lines) + "\n"


def describe(instruction: Instruction) -> str:
    """Return one line of assembly text, without label."""
    form = instruction.form
    if form == Form.STEP:
        parts = [f"s{stream}" for stream in instruction.streams]
    elif form in (Form.LOOP, Form.END):
        parts = []
    else:
        parts = [OPERAND_NAMES.get(instruction.dst, f"?{instruction.dst}")]
        parts += [
            _immediate_text(instruction) if code == IMMEDIATE else OPERAND_NAMES.get(code, f"?{code}")
            for code in instruction.sources
        ]
    mnemonic = instruction.op.mnemonic + (".one" if instruction.one else "")
    return f"{mnemonic} {', '.join(parts)}".rstrip()


def _immediate_text(instruction: Instruction) -> str:
    """Return the immediate as text that assembles to its bits, as a float32 or an integer if it is one."""
    bits = instruction.imm
    if instruction.op in _FLOAT_OPS:
        text = str(np.array(bits, dtype=np.uint32).view(np.float32))
        text = text if any(mark in text for mark in ".en") else f"{text}.0"
        if immediate_bits(float(text)) == bits:
            return text
    elif instruction.op in _INTEGER_OPS:
        return str(bits - (bits >> 31 << 32))
    return f"0x{bits:08x}"
