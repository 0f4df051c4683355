"""Unreachable coverage points, each with a reason, read from exclusions.toml.

    [[exclusion]]
    kind = "toggle"
    "rtl/memory/burst_splitter.sv" = ["addr_i[31:29]", "addr_q[31:29]"]
    reason = "..."

Every key besides `kind` and `reason` is a file with texts that describe points. The kind is "toggle" by
default. The text of a toggle names bits: a signal, optionally followed by a bit or a range of bits and by an
edge (":0->1"). The text of a branch or a line is a part of the source line; a branch may have its arm in
front ("else: if (stall_i)"). `*` is a wildcard in signals and files.
"""

import dataclasses
import fnmatch
import functools
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tb.coverage.points import ARMS, KINDS, Kind, Point, synthesizable

EXCLUSIONS = Path(__file__).with_name("exclusions.toml")


class ExclusionError(ValueError):
    """A malformed entry; the message names it."""


@dataclasses.dataclass(frozen=True)
class Exclusion:
    """One entry: excludes the points of `kind` in `file` that one of `match` describes."""

    file: str
    kind: Kind
    match: tuple[str, ...]
    reason: str


def parse_exclusions(text: str) -> list[Exclusion]:
    """Parse a TOML text. Raises ExclusionError."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ExclusionError(f"not TOML: {error}") from None
    if set(table) - {"exclusion"}:
        raise ExclusionError(f"unknown key {', '.join(sorted(set(table) - {'exclusion'}))}")
    entries = enumerate(table.get("exclusion", []), 1)
    return [exclusion for number, entry in entries for exclusion in _exclusions(number, entry)]


def load_exclusions(path: Path = EXCLUSIONS) -> list[Exclusion]:
    """Read a file of exclusions. Raises ExclusionError; OSError: no such file."""
    return parse_exclusions(path.read_text(encoding="utf-8"))


def _exclusions(number: int, entry: Mapping[str, object]) -> Iterator[Exclusion]:
    matches = {file: match for file, match in entry.items() if file not in ("kind", "reason")}
    where = f"exclusion {number} ({', '.join(matches)})"
    kind, reason = entry.get("kind", "toggle"), entry.get("reason")
    if not matches:
        raise ExclusionError(f"{where}: it must name a file")
    if kind not in KINDS:
        raise ExclusionError(f"{where}: kind must be one of {', '.join(KINDS)}")
    if not (isinstance(reason, str) and len(reason.split()) >= 3):
        raise ExclusionError(f"{where}: the reason must say why, in words")
    for file, match in matches.items():
        if not (isinstance(match, list) and match and all(isinstance(text, str) and text for text in match)):
            raise ExclusionError(f"{where}: {file} must have a list of texts")
        yield Exclusion(file, kind, tuple(match), reason)


@dataclasses.dataclass(frozen=True)
class Excluded:
    """Effect of exclusions on a set of points.

    Attributes:
        reasons: the excluded points with their reasons; a point that was reached is not excluded.
        faults: wrong entries, which describe nothing, or a point that was reached.
    """

    reasons: Mapping[Point, str]
    faults: Sequence[str]


def apply_exclusions(exclusions: Iterable[Exclusion], points: Mapping[Point, int]) -> Excluded:
    """Exclude points. Each text must describe existing points, none of them reached."""
    reasons: dict[Point, str] = {}
    faults: list[str] = []
    by_place: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        by_place.setdefault((point.file, point.kind), []).append(point)
    for exclusion in exclusions:
        candidates = [
            point
            for (file, kind), group in by_place.items()
            if kind == exclusion.kind and fnmatch.fnmatchcase(file, exclusion.file)
            for point in group
        ]
        for text in exclusion.match:
            describes = _toggle_test(text) if exclusion.kind == "toggle" else _source_test(text)
            found = [point for point in candidates if describes(point)]
            missed = [point for point in found if not points[point]]
            reasons |= dict.fromkeys(missed, exclusion.reason)
            if not found:
                faults.append(f"{exclusion.file}: no {exclusion.kind} is described by {text!r}")
            elif len(missed) < len(found):
                reached = next(point for point in found if points[point])
                what = f"{reached.text or 'line'}, {reached.file}:{reached.line}"
                faults.append(f"{exclusion.file}: {text!r} describes what is reached: {what}")
    return Excluded(reasons, faults)


def _toggle_test(text: str) -> Callable[[Point], bool]:
    parsed = re.fullmatch(r"(.+?)(?:\[(\d+)(?::(\d+))?\])?(?::(0->1|1->0))?", text)
    assert parsed is not None
    name, high, low, edge = parsed.groups()
    bits = range(int(low or high), int(high) + 1) if high else None
    pattern = re.compile(fnmatch.translate(name.replace("[", "[[]")))

    def describes(point: Point) -> bool:
        signal, _, its_edge = point.text.rpartition(":")
        if edge and its_edge != edge:
            return False
        vector, _, bit = signal.rpartition("[")
        if bits is None:
            return bool(pattern.match(signal) or pattern.match(vector))
        return bool(pattern.match(vector)) and int(bit[:-1]) in bits

    return describes


def _source_test(text: str) -> Callable[[Point], bool]:
    head, colon, tail = text.partition(": ")
    arm, part = (head, tail) if colon and head in ARMS else (None, text)

    def describes(point: Point) -> bool:
        return (arm is None or point.text == arm) and part in source_line(point.file, point.line)

    return describes


@functools.lru_cache(maxsize=256)
def source(file: str) -> tuple[str, ...]:
    """Return the lines of an RTL source."""
    return tuple(synthesizable()[file].read_text(encoding="utf-8").splitlines())


def source_line(file: str, line: int) -> str:
    """Return one line of a source, counted from 1."""
    return source(file)[line - 1]
