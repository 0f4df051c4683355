"""Points that cannot be reached, each with its reason: read from exclusions.toml and applied.

    [[exclusion]]
    file = "rtl/memory/burst_splitter.sv"
    kind = "toggle"
    match = ["addr_i[31:29]", "addr_q[31:29]"]
    reason = "..."

Of a toggle, `match` names bits: the signal (`*` stands for anything), and a bit or a range of bits behind it
if not all are meant; an edge may follow (":0->1"). Of a branch or a line it is a part of the source line; of
a branch an arm may stand in front ("else: if (stall_i)"). `file` may hold `*` too.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tb.coverage.points import ARMS, KINDS, Kind, Point, synthesizable

EXCLUSIONS = Path(__file__).with_name("exclusions.toml")


class ExclusionError(ValueError):
    """An entry that is not understood; the message says which."""


@dataclasses.dataclass(frozen=True)
class Exclusion:
    """One entry: the points of the kind `kind` in `file` that one of `match` describes, and why."""

    file: str
    kind: Kind
    match: tuple[str, ...]
    reason: str


def parse_exclusions(text: str) -> list[Exclusion]:
    """The entries of a TOML text. ExclusionError: one is not understood."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ExclusionError(f"not TOML: {error}") from None
    if set(table) - {"exclusion"}:
        raise ExclusionError(f"unknown key {', '.join(sorted(set(table) - {'exclusion'}))}")
    return [_entry(number, entry) for number, entry in enumerate(table.get("exclusion", []), 1)]


def _entry(number: int, entry: Mapping[str, object]) -> Exclusion:
    where = f"exclusion {number} ({entry.get('file')})"
    names = {field.name for field in dataclasses.fields(Exclusion)}
    if set(entry) != names:
        raise ExclusionError(f"{where}: it must have {', '.join(sorted(names))} and nothing else")
    file, kind, match, reason = (entry[name] for name in ("file", "kind", "match", "reason"))
    if kind not in KINDS:
        raise ExclusionError(f"{where}: kind must be one of {', '.join(KINDS)}")
    if not (isinstance(match, list) and match and all(isinstance(text, str) and text for text in match)):
        raise ExclusionError(f"{where}: match must be a list of texts")
    if not (isinstance(reason, str) and len(reason.split()) >= 3):
        raise ExclusionError(f"{where}: the reason must say why, in words")
    return Exclusion(str(file), kind, tuple(match), reason)


@dataclasses.dataclass(frozen=True)
class Excluded:
    """What a list of exclusions does to some points.

    Attributes:
        reasons: the points that it takes out, and why; one that is reached stays in.
        faults: entries that are wrong: nothing is described, or something that was reached.
    """

    reasons: Mapping[Point, str]
    faults: Sequence[str]


def apply_exclusions(exclusions: Iterable[Exclusion], points: Mapping[Point, int]) -> Excluded:
    """Take points out; what a text describes must exist, and none of it may be reached."""
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
    """The lines of a source of the NPU."""
    return tuple(synthesizable()[file].read_text(encoding="utf-8").splitlines())


def source_line(file: str, line: int) -> str:
    """One line of it, counted from 1."""
    return source(file)[line - 1]
