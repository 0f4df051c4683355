"""Mutant schemata: many changes in one source, of which a number selects one at simulation start.

An expression becomes `(selected == 17 ? (changed) : (original))`, a statement an `if` with both. Originals
contain the changes within them, so changes may nest but not cross.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from tb.changed_trees import SELECTOR_FILE
from tb.mutation.syntax import Kind

SELECTOR_VARIABLE = "ECHO_NPU_MUTANT"
"""Environment variable with the selected number; without it, nothing is changed."""
SELECTOR = "mutation_pkg::selected"

_GETENV = f'std::getenv(\\"{SELECTOR_VARIABLE}\\")'
SELECTOR_TEXT = f"""// Generated: which change of the RTL is simulated.
`ifndef MUTATION_PKG_SVH
`define MUTATION_PKG_SVH
// verilator lint_off PROCASSINIT
package mutation_pkg;
  function automatic int unsigned asked();
    asked = $c32("({_GETENV} ? std::atoi({_GETENV}) : 0)");
  endfunction
  int unsigned selected = asked();
endpackage
`endif
"""
SELECTOR_TOP = "npu_top.sv"
# Each reset rereads the number, so that one simulator can switch to another change.
SELECTOR_UPDATE = f"  always @(posedge clk) if (!rst_n) {SELECTOR} <= mutation_pkg::asked();\n"

# Warnings that deliberate mistakes provoke.
_ALLOWED = (
    "ALWCOMBORDER",
    "CASEINCOMPLETE",
    "CASEOVERLAP",
    "CMPCONST",
    "LATCH",
    "LITENDIAN",
    "SELRANGE",
    "UNDRIVEN",
    "UNOPTFLAT",
    "UNSIGNED",
    "UNUSEDPARAM",
    "UNUSEDSIGNAL",
    "WIDTHCONCAT",
    "WIDTHEXPAND",
    "WIDTHTRUNC",
    "WIDTHXZEXPAND",
)


class CrossingError(ValueError):
    """Two overlapping changes, neither of which contains the other."""


@dataclasses.dataclass(frozen=True)
class Edit:
    """Replacement of the characters `start` to `end` (exclusive) of a file.

    An empty replacement removes a statement. An "insertion" adds text for all numbers: a declaration that a
    change needs.
    """

    file: str
    kind: Kind | Literal["insertion"]
    start: int
    end: int
    mutated: str


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One mistake, identified by text and not by position, so that moved lines keep their mutants.

    Attributes:
        context: statement, condition or connection that contains it.
        operator: its class.
        occurrence: number among equal mutants of the file, from 1.
        line: its current line.
    """

    file: str
    context: str
    operator: str
    original: str
    mutated: str
    occurrence: int
    line: int
    edits: tuple[Edit, ...]

    @property
    def of_reset(self) -> bool:
        """Whether it changes what a reset does."""
        return self.operator == "reset" or "rst_n" in self.original

    @property
    def identity(self) -> str:
        """Unique name among all mutants of the RTL."""
        number = f" #{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.file}: {self.context} | {self.original} -> {self.mutated or '(nothing)'}{number}"


def render(text: str, edits: Sequence[tuple[int, Edit]]) -> str:
    """Return a file's source `text` with all (number, edit) behind the selector.

    Raises CrossingError: two edits cross.
    """
    ordered = sorted(edits, key=lambda each: (each[1].start, -each[1].end))
    return _header() + _render(text, 0, len(text), ordered)


def _header() -> str:
    off = "".join(f"// verilator lint_off {name}\n" for name in _ALLOWED)
    return f'{off}`include "{SELECTOR_FILE}"\n'


def _render(text: str, start: int, end: int, edits: Sequence[tuple[int, Edit]]) -> str:
    out: list[str] = []
    at, index = start, 0
    while index < len(edits):
        _, first = edits[index]
        span = (first.start, first.end)
        # Insertions are empty spans: those at one place are one group.
        near = [(each, (each[1].start, each[1].end)) for each in edits[index:]]
        inside = [each for each, its in near if its[0] < first.end or its == span]
        same = [each for each, its in near if its == span]
        nested = [each for each in inside if each not in same]
        if any(each[1].end > first.end for each in nested):
            raise CrossingError(f"{first.file}: changes cross at character {first.start}")
        original = _render(text, first.start, first.end, nested)
        out += [text[at : first.start], _select(same, original)]
        at, index = first.end, index + len(inside)
    return "".join([*out, text[at:end]])


def _select(choices: Sequence[tuple[int, Edit]], original: str) -> str:
    kind = choices[0][1].kind
    if kind == "insertion":
        return "".join(dict.fromkeys(edit.mutated for _, edit in choices))
    if kind == "expression":
        arms = "".join(f"{SELECTOR} == 32'd{number} ? ({edit.mutated}) : " for number, edit in choices)
        return f"({arms}({original}))"
    tests = "".join(
        f"if ({SELECTOR} == 32'd{number}) begin {edit.mutated} end else " for number, edit in choices
    )
    return f"begin {tests}begin {original} end end"


def by_file(numbered: Mapping[int, Sequence[Edit]]) -> dict[str, list[tuple[int, Edit]]]:
    """Group the edits of all numbers by file."""
    files: dict[str, list[tuple[int, Edit]]] = {}
    for number, edits in numbered.items():
        for edit in edits:
            files.setdefault(edit.file, []).append((number, edit))
    return files
