"""Coverage points as Verilator writes them, read and added up over runs.

A file `coverage.dat` has a line for each point: ``C '<key><value><key><value>...' count``, where a key
follows a byte 1 and its value a byte 2. Verilator adds up the instances of a module by itself.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from echo_sim.designs import read_file_list
from echo_sim.places import RTL
from tb.repository import ROOT

Kind = Literal["line", "branch", "toggle"]
KINDS: tuple[Kind, ...] = ("line", "branch", "toggle")

HEADER = b"# SystemC::Coverage-3\n"
BOARD_TOPS = ("npu_tb", "npu_top")
"""Top levels that hold the whole NPU in a named configuration."""

Counts = dict[bytes, int]
"""How often each point was reached, by its text in the file."""


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One thing that is reached or not.

    Attributes:
        file: source, relative to the repository ("rtl/cells/sync_fifo.sv").
        line: the source line; of a toggle that of the signal's declaration.
        column: tells branches and signals on one line apart; 0 for a line.
        kind: a source "line" with a statement, one arm of a "branch", or one edge of one bit, a "toggle".
        text: of a branch its arm ("if", "else", "elsif", "case", "cond_then", "cond_else"); of a toggle the
            bit and its edge ("count_q[3]:0->1").
    """

    file: str
    line: int
    column: int
    kind: Kind
    text: str


class CoverageError(ValueError):
    """A file that is no coverage data, or is of other sources; the message names it."""


def read_counts(path: Path) -> Counts:
    """The points of one file. OSError: it is not there; CoverageError: it is something else, or cut off."""
    counts: Counts = {}
    with open(path, "rb") as file:
        if file.readline() != HEADER:
            raise CoverageError(f"{path} is not coverage data of Verilator")
        for number, line in enumerate(file, 2):
            name, quote, count = line.rpartition(b"' ")
            if not (quote and name.startswith(b"C '") and line.endswith(b"\n") and count[:-1].isdigit()):
                raise CoverageError(
                    f"{path}:{number}: this is not a coverage point; was the simulator stopped?"
                )
            name = name[3:]
            counts[name] = counts.get(name, 0) + int(count)
    return counts


def add_counts(total: Counts, more: Mapping[bytes, int]) -> None:
    """Add `more` to `total`."""
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def write_counts(counts: Mapping[bytes, int], path: Path) -> None:
    """Write them in the form in which `read_counts` reads them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(HEADER)
        file.writelines(b"C '%s' %d\n" % item for item in counts.items())


def merged_points(counts: Mapping[bytes, int]) -> dict[Point, int]:
    """The points of the synthesizable RTL, and how often each was reached, in any instance.

    A module counts once, whatever its instances and their parameters: a point is reached if it is in one of
    them. Which points there are is said by the whole NPU in its named configurations; a testbench of one
    module, which may have other widths, adds to those only. If there is no whole NPU, all points count.

    Raises:
        CoverageError: a point behind the end of its source: the data is of other sources.
    """
    total: dict[Point, int] = {}
    own: set[Point] = set()
    for name, count in counts.items():
        fields = _fields(name)
        file = source_name(fields.get("f", ""))
        if file is None:
            continue
        in_board = fields.get("h", "").split(".")[0] in BOARD_TOPS
        for point in _points(file, fields):
            if point.line > _length(file):
                raise CoverageError(
                    f"a point in line {point.line} of {file}, which is shorter: other sources"
                )
            # Of a line that is part of several blocks the one that ran most often says how often it ran.
            before = total.get(point, 0)
            total[point] = max(before, count) if point.kind == "line" else before + count
            if in_board:
                own.add(point)
    return {point: count for point, count in total.items() if point in own} if own else total


def _fields(name: bytes) -> dict[str, str]:
    parts = name.decode("utf-8", "replace").split("\x01")
    return {key: value for key, _, value in (part.partition("\x02") for part in parts if part)}


@functools.lru_cache(maxsize=1)
def synthesizable() -> dict[str, Path]:
    """The sources of the NPU, by their paths relative to the repository."""
    return {str(path.relative_to(ROOT)): path for path in read_file_list(RTL / "npu.f")[0]}


@functools.lru_cache(maxsize=4096)
def source_name(path: str) -> str | None:
    """A source's path relative to the repository, whatever tree it was built in; None if it is not RTL."""
    name = "rtl/" + path.rpartition("/rtl/")[2]
    return name if name in synthesizable() else None


@functools.lru_cache(maxsize=1024)
def _length(file: str) -> int:
    return len(synthesizable()[file].read_bytes().splitlines())


# To Verilator an arm of a `case` and the middle of an else-if chain are lines.
ARMS = frozenset({"if", "else", "elsif", "case", "cond_then", "cond_else"})


def _points(file: str, fields: Mapping[str, str]) -> list[Point]:
    """What one of Verilator's points says: about a bit, or about an arm and the lines that run with it."""
    kind, text, line, column = fields.get("t"), fields.get("o", ""), int(fields["l"]), int(fields["n"])
    if kind == "toggle":
        return [Point(file, line, column, "toggle", text)]
    if kind not in ("line", "branch"):
        return []
    lines = [Point(file, number, 0, "line", "") for number in _lines(fields.get("S", ""))]
    return [*lines, Point(file, line, column, "branch", text)] if text in ARMS else lines


@functools.lru_cache(maxsize=65536)
def _lines(text: str) -> tuple[int, ...]:
    """ "3,5-7" as (3, 5, 6, 7)."""
    lines: list[int] = []
    for part in re.findall(r"\d+(?:-\d+)?", text):
        first, _, last = part.partition("-")
        lines.extend(range(int(first), int(last or first) + 1))
    return tuple(lines)


def files_of(paths: Iterable[Path]) -> list[Path]:
    """The files among `paths`, and all *.dat below the folders among them, sorted."""
    found: list[Path] = []
    for path in paths:
        found += sorted(path.rglob("*.dat")) if path.is_dir() else [path]
    return found
