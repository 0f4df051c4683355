"""Coverage as self-contained HTML: an index of modules and a page per source."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tb.coverage.exclusions import source
from tb.coverage.measure import GOALS, MeasuredCoverage, Module, bit_ranges
from tb.coverage.points import KINDS, Point
from tb.report.page import render


@dataclasses.dataclass(frozen=True, slots=True)
class SourceLine:
    """A source line as its page shows it.

    Attributes:
        count: how often it ran; None if it holds no statement.
        state: "full", "part" or "none" of its points are covered; "plain" if it has none.
        arms: the arms of its branches with their counts.
        toggles: bits of signals declared here that miss an edge.
        excluded: excluded points on this line, with the reasons.
    """

    number: int
    text: str
    count: int | None
    state: Literal["full", "part", "none", "plain"]
    arms: Sequence[tuple[str, int]]
    toggles: Sequence[str]
    excluded: Sequence[tuple[str, str]]


def source_lines(module: Module) -> list[SourceLine]:
    """Return the lines of a module's page."""
    missed = set(module.missed)
    at: dict[int, list[Point]] = {}
    for point in module.points:
        at.setdefault(point.line, []).append(point)
    lines = []
    for number, text in enumerate(source(module.file), 1):
        here = at.get(number, [])
        counted = [point for point in here if point not in module.excluded]
        lost = [point for point in here if point in missed]
        state: Literal["full", "part", "none", "plain"] = "plain"
        if counted:
            state = "full" if not lost else "none" if len(lost) == len(counted) else "part"
        reasons: dict[str, list[Point]] = {}
        for point in here:
            if point in module.excluded:
                reasons.setdefault(module.excluded[point], []).append(point)
        lines.append(
            SourceLine(
                number,
                text,
                next((module.points[point] for point in here if point.kind == "line"), None),
                state,
                [(point.text, module.points[point]) for point in here if point.kind == "branch"],
                bit_ranges(point for point in lost if point.kind == "toggle"),
                [(", ".join(_names(points)), reason) for reason, points in reasons.items()],
            )
        )
    return lines


def _names(points: Sequence[Point]) -> list[str]:
    other = [point.text or "line" for point in points if point.kind != "toggle"]
    return [*other, *bit_ranges(point for point in points if point.kind == "toggle")]


def write_pages(measured: MeasuredCoverage, folder: Path, sources: str) -> Path:
    """Write the pages into `folder` and return index.html. `sources` says what was merged."""
    folder.mkdir(parents=True, exist_ok=True)
    for module in measured.modules:
        text = render("source", module=module, lines=source_lines(module), kinds=KINDS)
        (folder / f"{module.name}.html").write_text(text, encoding="utf-8")
    index = folder / "index.html"
    text = render(
        "coverage", measured=measured, tallies=measured.tallies, sources=sources, kinds=KINDS, goals=GOALS
    )
    index.write_text(text, encoding="utf-8")
    return index
