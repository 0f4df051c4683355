"""Words of the vector engine as assembly text; `assembler` reads it back."""

from __future__ import annotations

from echo_npu.vector.isa import Form, Op
from echo_npu.vector.program import Program, describe


def disassemble(program: Program) -> str:
    """The text of `program`: a line an instruction, loops indented and labelled."""
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
