"""Coverage points in Verilator's format, read and added up over runs.

Each line of `coverage.dat` is a point: ``C '<key><value><key><value>...' count``. A key follows a byte 1 and
its value a byte 2. Verilator itself adds up the instances of a module.
"""

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
"""Hits of each point, by its text in the file."""


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One coverage point.

    Attributes:
        file: source, relative to the repository ("rtl/cells/sync_fifo.sv").
        line: the source line; for a toggle, that of the signal's declaration.
        column: distinguishes branches and signals on one line; 0 for a line.
        kind: a "line" with a statement, an arm of a "branch", or one edge of one bit (a "toggle").
        text: the arm of a branch ("if", "else", "elsif", "case", "cond_then", "cond_else"); the bit and edge
            of a toggle ("count_q[3]:0->1").
    """

    file: str
    line: int
    column: int
    kind: Kind
    text: str


class CoverageError(ValueError):
    """A file that is not coverage data, or belongs to other sources; the message names it."""


def read_counts(path: Path) -> Counts:
    """Read a file. Raises OSError if it is missing, CoverageError if it is something else or truncated."""
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
    """Add `more` to `total` in place."""
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def write_counts(counts: Mapping[bytes, int], path: Path) -> None:
    """Write counts in the format that `read_counts` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(HEADER)
        file.writelines(b"C '%s' %d\n" % item for item in counts.items())


def merged_points(counts: Mapping[bytes, int]) -> dict[Point, int]:
    """Return the hits of each point of the synthesizable RTL, over all instances.

    A module counts once, whatever its instances and parameters: a point is reached if any instance reached
    it. The whole NPU in its named configurations defines which points exist. A testbench of one module, which
    may have other widths, only adds to those. Without a run of the whole NPU, all points count.

    Raises CoverageError: a point lies beyond the end of its source, so the data belongs to other sources.
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
            # A line can be part of several blocks; the highest count is how often it ran.
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
    """Map paths relative to the repository to the sources of the NPU."""
    return {str(path.relative_to(ROOT)): path for path in read_file_list(RTL / "npu.f")[0]}


@functools.lru_cache(maxsize=4096)
def source_name(path: str) -> str | None:
    """Return a source's path relative to the repository, whatever tree it was built in; None if it is not
    RTL."""
    name = "rtl/" + path.rpartition("/rtl/")[2]
    return name if name in synthesizable() else None


@functools.lru_cache(maxsize=1024)
def _length(file: str) -> int:
    return len(synthesizable()[file].read_bytes().splitlines())


# Verilator reports an arm of a `case` and the middle of an else-if chain as lines.
ARMS = frozenset({"if", "else", "elsif", "case", "cond_then", "cond_else"})


def _points(file: str, fields: Mapping[str, str]) -> list[Point]:
    """Convert one of Verilator's points to a toggle, or to an arm and the lines that run with it."""
    kind, text, line, column = fields.get("t"), fields.get("o", ""), int(fields["l"]), int(fields["n"])
    if kind == "toggle":
        return [Point(file, line, column, "toggle", text)]
    if kind not in ("line", "branch"):
        return []
    lines = [Point(file, number, 0, "line", "") for number in _lines(fields.get("S", ""))]
    return [*lines, Point(file, line, column, "branch", text)] if text in ARMS else lines


@functools.lru_cache(maxsize=65536)
def _lines(text: str) -> tuple[int, ...]:
    """Expand "3,5-7" to (3, 5, 6, 7)."""
    lines: list[int] = []
    for part in re.findall(r"\d+(?:-\d+)?", text):
        first, _, last = part.partition("-")
        lines.extend(range(int(first), int(last or first) + 1))
    return tuple(lines)


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Return the given files, and all *.dat below the given folders, sorted."""
    found: list[Path] = []
    for path in paths:
        found += sorted(path.rglob("*.dat")) if path.is_dir() else [path]
    return found
