"""Assembly text of the vector engine.

    .name rmsnorm                  ; for messages and listings
    .stream x s0                   ; a name for an input stream
    .stream weight s1 1            ; ... and how many passes the program makes, where it cannot be seen
    .def sum a0                    ; a name for any other operand
        aset sum, 0.0
    first: chunks                  ; a loop, with a label if one likes
        fma sum, x, x
    next first, x                  ; ends it; the streams advance
        foldadd r0, sum
    second: chunks
        mul v0, x, r0
        mul o, v0, weight
    next second, x weight
        end

An instruction is `mnemonic dst, a, b, c`; `mnemonic.one` processes element 0 only. A number is the immediate:
with a point, an exponent, `inf` or `nan` it is a float32, else 32 bits (decimal or 0x...).
"""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from echo_npu.vector.immediates import immediate_bits
from echo_npu.vector.isa import (
    IMMEDIATE,
    OPERAND_CODES,
    Form,
    Immediate,
    Instruction,
    Kind,
    Op,
    data_instruction,
    form_of,
    kind_of,
)
from echo_npu.vector.program import MAX_PASSES, AssemblyError, Program, make_program

_OPS: Final = {op.mnemonic: op for op in Op}
_DIRECTIVES: Final = ".name NAME, .def NAME OPERAND, .stream NAME sN [PASSES]"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_INTEGER: Final = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|[0-9]+)\Z")
_FLOAT: Final = re.compile(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|inf|nan)\Z")
_LABELLED: Final = re.compile(r"([^\s:;]+)\s*:\s*(.*)\Z")


@dataclass
class Source:
    """The content of a text: instructions, their lines, and the directives."""

    name: str = "program"
    instructions: list[Instruction] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    passes: dict[int, int] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)


def assemble(text: str, where: str = "program") -> Program:
    """Assemble a text to a program.

    Args:
        where: source of the text, for messages.

    Raises:
        AssemblyError: with the line and the reason; also for what `make_program` refuses.
    """
    source = parse(text, where)
    try:
        program = make_program(source.name, source.instructions)
    except AssemblyError as error:
        lines = [*source.lines, text.count("\n") + 1]
        line = lines[error.instruction] if error.instruction is not None else 1
        raise AssemblyError(f"{where}:{line}: {error}", error.instruction) from None
    first, second, third, fourth = (
        source.passes.get(stream, passes) for stream, passes in enumerate(program.passes)
    )
    return dataclasses.replace(program, passes=(first, second, third, fourth))


def parse(text: str, where: str = "program") -> Source:
    """Parse the instructions of a text, each by itself; AssemblyError with the line and the reason."""
    source = Source()
    open_loops: list[str | None] = []
    labels: set[str] = set()
    for line, raw in enumerate(text.splitlines(), 1):
        try:
            _line(source, raw.partition(";")[0].strip(), line, open_loops, labels)
        except ValueError as error:
            raise AssemblyError(f"{where}:{line}: {error}") from None
    return source


def _line(source: Source, text: str, line: int, open_loops: list[str | None], labels: set[str]) -> None:
    label = None
    labelled = _LABELLED.match(text)
    if labelled:
        label, text = labelled[1], labelled[2]
        if not _NAME.match(label):
            raise ValueError(f"{label!r} is no label: letters, digits and _")
        if label in labels:
            raise ValueError(f"there is a loop {label!r} already")
        labels.add(label)
    if not text:
        if label is not None:
            raise ValueError(f"the label {label!r} has no chunks or repeat behind it")
        return
    word, _, rest = text.partition(" ")
    if word.startswith("."):
        _directive(source, word, rest.split())
        return
    mnemonic, dot, suffix = word.partition(".")
    op = _OPS.get(mnemonic)
    if op is None:
        raise ValueError(f"there is no instruction {mnemonic!r}")
    if dot and suffix != "one":
        raise ValueError(f"{word!r}: the only suffix is .one")
    form = form_of(op)
    if label is not None and form != Form.LOOP:
        raise ValueError(f"the label {label!r} is not on a chunks or repeat")
    one = bool(dot)
    if form in (Form.ALU, Form.ASET, Form.FOLD):
        made = _data(source, op, [part.strip() for part in rest.split(",")], one)
    elif one:
        raise ValueError(f"{mnemonic} has no .one")
    else:
        made = Instruction(op, imm=_control(source, op, rest.replace(",", " ").split(), label, open_loops))
    reason = made.illegal()
    if reason:
        raise ValueError(reason)
    source.instructions.append(made)
    source.lines.append(line)


def _directive(source: Source, word: str, parts: Sequence[str]) -> None:
    if word == ".name" and len(parts) == 1:
        source.name = parts[0]
    elif word == ".def" and len(parts) == 2:
        _define(source, parts[0], _operand(source, parts[1]))
    elif word == ".stream" and len(parts) in (2, 3):
        code = _operand(source, parts[1])
        if kind_of(code) != Kind.STREAM:
            raise ValueError(f"{parts[1]} is no input stream")
        _define(source, parts[0], code)
        if len(parts) == 3:
            if not parts[2].isdigit() or not 1 <= int(parts[2]) <= MAX_PASSES:
                raise ValueError(f"{parts[2]!r} passes; it must lie in 1..{MAX_PASSES}")
            source.passes[code - OPERAND_CODES["s0"]] = int(parts[2])
    else:
        raise ValueError(f"{' '.join([word, *parts])!r}: the directives are {_DIRECTIVES}")


def _define(source: Source, name: str, code: int) -> None:
    if not _NAME.match(name) or name in OPERAND_CODES or name in ("inf", "nan"):
        raise ValueError(f"{name!r} cannot be the name of an operand")
    if name in source.names:
        raise ValueError(f"{name!r} is defined already")
    source.names[name] = code


def _operand(source: Source, text: str) -> int:
    code = source.names.get(text, OPERAND_CODES.get(text))
    if code is None or code == IMMEDIATE:
        raise ValueError(f"there is no operand {text!r}")
    return code


def _data(source: Source, op: Op, texts: Sequence[str], one: bool) -> Instruction:
    dst = _operand(source, texts[0])
    given = [
        _operand(source, text) if (bits := _number(text)) is None else Immediate(bits) for text in texts[1:]
    ]
    try:
        return data_instruction(op, dst, given, one=one)
    except ValueError as error:
        raise ValueError(f"{op.mnemonic} {texts[0]}: {error}") from None


def _number(text: str) -> int | None:
    """Return the bits of an immediate; None if the text is no number."""
    if _INTEGER.match(text):
        return immediate_bits(int(text, 0) if "x" in text.lower() else int(text))
    return immediate_bits(float(text)) if _FLOAT.match(text) else None


def _control(
    source: Source, op: Op, parts: list[str], label: str | None, open_loops: list[str | None]
) -> int:
    """Return the imm field, and keep the list of open loops."""
    if op == Op.NEXT:
        if not open_loops:
            raise ValueError("next without a loop")
        opened = open_loops.pop()
        if parts and parts[0] not in source.names and parts[0] not in OPERAND_CODES:
            if parts[0] != opened:
                name = f"the loop {opened!r}" if opened else "a loop without a label"
                raise ValueError(f"next {parts[0]}, but the innermost loop is {name}")
            parts = parts[1:]
    elif form_of(op) == Form.LOOP:
        open_loops.append(label)
    if form_of(op) != Form.STEP and parts:
        raise ValueError(f"{op.mnemonic} takes no operands")
    mask = 0
    for part in parts:
        code = _operand(source, part)
        if kind_of(code) != Kind.STREAM:
            raise ValueError(f"{part} is no input stream, so it cannot advance")
        mask |= 1 << code - OPERAND_CODES["s0"]
    return mask
