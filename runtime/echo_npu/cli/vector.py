"""The commands `echo-npu asm` and `echo-npu disasm`."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from echo_npu.cli.support import read_text, reported
from echo_npu.vector.assembler import assemble
from echo_npu.vector.disassembler import describe, disassemble
from echo_npu.vector.isa import Instruction
from echo_npu.vector.program import Program

_WORD = re.compile(r"(0[xX])?[0-9a-fA-F]{1,16}")


def asm_command(
    file: Annotated[Path, typer.Argument(help="Assembly text.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: name, words, passes.")] = False,
) -> None:
    """Assemble a vector program: its words in hexadecimal, one a line, each with its instruction."""
    with reported(OSError):
        program = assemble(read_text(file), str(file))
    words = [f"0x{int(word):016x}" for word in program.words]
    if as_json:
        typer.echo(json.dumps({"name": program.name, "words": words, "passes": program.passes}, indent=2))
        return
    for word, instruction in zip(words, program.instructions, strict=True):
        typer.echo(f"{word}  ; {describe(instruction)}")


def disasm_command(
    file: Annotated[Path, typer.Argument(help="Words as `echo-npu asm` prints them, plain or JSON.")],
) -> None:
    """Print the assembly text of a vector program."""
    with reported(OSError):
        text = disassemble(_read(file))
    typer.echo(text, nl=False)


def _read(file: Path) -> Program:
    text = read_text(file)
    name = file.stem
    if text.lstrip().startswith("{"):
        try:
            content: Any = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{file}: not JSON: {error}") from None
        name, words = content.get("name"), content.get("words")
        if not (isinstance(name, str) and isinstance(words, list)):
            raise ValueError(f"{file}: it must have a text `name` and a list `words`")
    else:
        words = [line for line in (raw.partition(";")[0].strip() for raw in text.splitlines()) if line]
    if not words:
        raise ValueError(f"{file}: it has no words")
    instructions = []
    for number, word in enumerate(words):
        try:
            if not (isinstance(word, str) and _WORD.fullmatch(word)):
                raise ValueError("it must be hexadecimal, of at most 64 bits")
            instructions.append(Instruction.decode(int(word, 16)))
        except ValueError as error:
            raise ValueError(f"{file}: word {number}, {word!r}: {error}") from None
    return Program(name, tuple(instructions), (1, 1, 1, 1))
