"""The commands `echo-npu asm` and `echo-npu disasm`."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

from echo_npu.vector.assembler import assemble
from echo_npu.vector.disassembler import describe, disassemble
from echo_npu.vector.isa import Instruction
from echo_npu.vector.program import Program

_R = TypeVar("_R")
_WORD = re.compile(r"(0[xX])?[0-9a-fA-F]{1,16}")


def asm_command(
    file: Annotated[Path, typer.Argument(help="Assembly text.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: name, words, passes.")] = False,
) -> None:
    """Assemble a vector program: its words in hexadecimal, one a line, each with its instruction."""
    program = _or_exit(lambda: assemble(file.read_text(encoding="utf-8"), str(file)))
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
    typer.echo(_or_exit(lambda: disassemble(_read(file))), nl=False)


def _read(file: Path) -> Program:
    text = file.read_text(encoding="utf-8")
    name = file.stem
    if text.lstrip().startswith("{"):
        content: Any = json.loads(text)
        name, words = content.get("name"), content.get("words")
        if not (isinstance(name, str) and isinstance(words, list)):
            raise ValueError(f"{file}: it must have a text `name` and a list `words`")
    else:
        words = [line for line in (raw.partition(";")[0].strip() for raw in text.splitlines()) if line]
    instructions = []
    for number, word in enumerate(words):
        try:
            if not (isinstance(word, str) and _WORD.fullmatch(word)):
                raise ValueError("it must be hexadecimal, of at most 64 bits")
            instructions.append(Instruction.decode(int(word, 16)))
        except ValueError as error:
            raise ValueError(f"{file}: word {number}, {word!r}: {error}") from None
    return Program(name, tuple(instructions), (1, 1, 1, 1))


def _or_exit(action: Callable[[], _R]) -> _R:
    """Return the result of `action`, or report its error as one message and exit status 2."""
    try:
        return action()
    except (ValueError, OSError) as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(2) from None
