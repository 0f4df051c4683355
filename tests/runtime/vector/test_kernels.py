"""The library's programs: docs/ops.md has their names and what they cost."""

import re
from pathlib import Path

from echo_npu.vector import Program
from echo_npu.vector.isa import Form, Kind, Op, kind_of
from echo_npu.vector.kernels.library import kernel_library

PAGE = Path(__file__).resolve().parents[3] / "docs" / "ops.md"

PROGRAMS = kernel_library()


def cost(program: Program) -> str:
    """Return the program's row of the table. Loops work on every element, so they may hold nothing scalar."""
    element = row = depth = 0
    streams: set[int] = set()
    for each in program.instructions:
        streams.update(code - 32 for code in each.sources if kind_of(code) == Kind.STREAM)
        if each.form == Form.LOOP:
            depth += 1
        elif each.op == Op.NEXT:
            depth -= 1
        elif depth:
            assert kind_of(each.dst) != Kind.SCALAR
            element += 1
        elif each.form != Form.END:
            row += 1
    reads = " ".join(str(program.passes[stream]) for stream in sorted(streams)) or "-"
    return f"| `{program.name}` | {element} | {row} | {reads} |"


def test_names_are_unique() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)


def test_the_page_has_every_program_and_its_cost() -> None:
    lines = set(PAGE.read_text(encoding="utf-8").splitlines())
    missing = [cost(program) for program in PROGRAMS if cost(program) not in lines]
    assert not missing, "docs/ops.md should have:\n" + "\n".join(missing)


def test_the_page_has_no_program_that_is_not_there() -> None:
    names = {program.name for program in PROGRAMS}
    programs = PAGE.read_text(encoding="utf-8").split("## Programs")[1].split("\n## ")[0]
    listed = set(re.findall(r"^\| `(\w+)` \|", programs, re.MULTILINE))
    assert listed <= names


def test_programs_fit_the_smallest_program_memory_together() -> None:
    assert sum(len(program) for program in PROGRAMS) <= 4096
