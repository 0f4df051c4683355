"""Measured coverage, per module and in total."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tb.coverage.exclusions import Excluded, source_line
from tb.coverage.points import KINDS, Kind, Point
from tb.results import CampaignResult, Item

GOALS: Mapping[Kind, float] = {"line": 98.0, "branch": 98.0, "toggle": 95.0}
"""Goals, in percent of the points that are not excluded."""


@dataclasses.dataclass(frozen=True)
class Tally:
    """Number of points that count, of those reached, and of those excluded besides."""

    points: int = 0
    covered: int = 0
    excluded: int = 0

    @property
    def percent(self) -> float:
        """Percentage of points reached; 100 if there are none."""
        return 100.0 * self.covered / self.points if self.points else 100.0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.points + other.points, self.covered + other.covered, self.excluded + other.excluded)


@dataclasses.dataclass(frozen=True)
class Module:
    """Coverage of one source, which holds one module or package.

    Attributes:
        file: relative to the repository.
        tallies: by kind.
        points: how often each point was reached, including excluded points.
        missed: points not reached, in source order, without excluded points.
        excluded: excluded points with their reasons.
    """

    file: str
    tallies: Mapping[Kind, Tally]
    points: Mapping[Point, int]
    missed: Sequence[Point]
    excluded: Mapping[Point, str]

    @property
    def name(self) -> str:
        """Name of the module."""
        return Path(self.file).stem


@dataclasses.dataclass(frozen=True)
class MeasuredCoverage:
    """Coverage of the NPU. `faults` lists wrong exclusions."""

    modules: Sequence[Module]
    faults: Sequence[str]

    @property
    def tallies(self) -> dict[Kind, Tally]:
        """Totals over all modules."""
        return {kind: sum((each.tallies[kind] for each in self.modules), Tally()) for kind in KINDS}


def measure(points: Mapping[Point, int], excluded: Excluded) -> MeasuredCoverage:
    """Count points by module."""
    by_file: dict[str, list[Point]] = {}
    for point in points:
        by_file.setdefault(point.file, []).append(point)
    modules = []
    for file, own in sorted(by_file.items()):
        own.sort(key=_in_source_order)
        reasons = {point: excluded.reasons[point] for point in own if point in excluded.reasons}
        counted = [point for point in own if point not in reasons]
        missed = [point for point in counted if not points[point]]
        tallies: dict[Kind, Tally] = {}
        for kind in KINDS:
            total = sum(point.kind == kind for point in counted)
            lost = sum(point.kind == kind for point in missed)
            tallies[kind] = Tally(total, total - lost, sum(point.kind == kind for point in reasons))
        modules.append(Module(file, tallies, {point: points[point] for point in own}, missed, reasons))
    return MeasuredCoverage(modules, excluded.faults)


def _in_source_order(point: Point) -> tuple[int, int, str, list[int], str]:
    numbers = [int(number) for number in re.findall(r"\d+", point.text)]
    return (point.line, point.column, point.text.partition("[")[0], numbers, point.text)


def bit_ranges(toggles: Iterable[Point]) -> list[str]:
    """Name toggles concisely: adjacent bits as a range, both edges of a bit without edge.

    "a[3]:0->1", "a[3]:1->0", "a[4]:0->1", "a[4]:1->0", "b:0->1" become "a[4:3]", "b:0->1".
    """
    edges: dict[tuple[str, int | None], set[str]] = {}
    for point in toggles:
        signal, _, edge = point.text.rpartition(":")
        parsed = re.fullmatch(r"(.*)\[(\d+)\]", signal)
        key = (parsed[1], int(parsed[2])) if parsed else (signal, None)
        edges.setdefault(key, set()).add(edge)
    names: list[str] = []
    run: list[tuple[str, int | None, str]] = []

    def close() -> None:
        if run:
            name, last, edge = run[-1]
            first = run[0][1]
            bits = "" if last is None else f"[{last}]" if first == last else f"[{last}:{first}]"
            names.append(f"{name}{bits}{edge}")
            run.clear()

    for (name, bit), both in sorted(edges.items(), key=lambda item: (item[0][0], item[0][1] or 0)):
        edge = "" if len(both) == 2 else f":{min(both)}"
        if run and (run[-1][0], run[-1][2]) == (name, edge) and bit is not None and run[-1][1] == bit - 1:
            run.append((name, bit, edge))
        else:
            close()
            run.append((name, bit, edge))
    close()
    return names


def missed_texts(module: Module) -> list[str]:
    """Describe what a module misses, one text per source line and kind."""
    texts = []
    lines = sorted({point.line for point in module.missed})
    for line in lines:
        here = [point for point in module.missed if point.line == line]
        where, text = f"{module.file}:{line}", source_line(module.file, line).strip()
        if any(point.kind == "line" for point in here):
            texts.append(f"{where}: line: {text}")
        texts += [f"{where}: {point.text}: {text}" for point in here if point.kind == "branch"]
        bits = bit_ranges(point for point in here if point.kind == "toggle")
        if bits:
            texts.append(f"{where}: toggle: {', '.join(bits)}")
    return texts


def result(
    measured: MeasuredCoverage, seconds: float, pages: Sequence[Path], *, partial: bool
) -> CampaignResult:
    """Return the campaign's result: goals, wrong exclusions, and what each module misses.

    With `partial`, runs are missing, so neither goals nor exclusions are judged.
    """
    figures: dict[str, int] = {}
    items = []
    for kind, tally in measured.tallies.items():
        figures[f"{kind}_points"] = tally.points
        figures[f"{kind}_covered"] = tally.covered
        figures[f"{kind}_excluded"] = tally.excluded
        goal = f"{tally.percent:.2f} % of {tally.points}, goal {GOALS[kind]:.0f} %"
        good = partial or tally.percent >= GOALS[kind]
        items.append(Item(kind, "pass" if good else "fail", message="" if good else goal, detail=goal))
    if not partial:
        items += [Item(f"exclusion: {fault}", "fail", message=fault) for fault in measured.faults]
    for module in measured.modules:
        if module.missed:
            items.append(Item(module.file, "pass", detail="\n".join(missed_texts(module))))
    return CampaignResult("coverage", 0, seconds, figures, items, [str(page) for page in pages])
