"""Tallies, goals, and the names of missed points."""

from pathlib import Path

from tb.coverage.exclusions import Excluded
from tb.coverage.measure import MeasuredCoverage, Tally, bit_ranges, measure, missed_texts, result
from tb.coverage.points import Point
from tests.tb.coverage.data import SOURCE


def toggle(text: str) -> Point:
    return Point(SOURCE, 20, 3, "toggle", text)


def some() -> MeasuredCoverage:
    """Return points: lines 1 of 2, arms 1 of 1 and one excluded, toggles 0 of 2."""
    points = {
        Point(SOURCE, 30, 0, "line", ""): 4,
        Point(SOURCE, 31, 0, "line", ""): 0,
        Point(SOURCE, 30, 3, "branch", "if"): 4,
        Point(SOURCE, 30, 4, "branch", "else"): 0,
        toggle("a[1]:0->1"): 0,
        toggle("a[1]:1->0"): 0,
    }
    reasons = {Point(SOURCE, 30, 4, "branch", "else"): "it is the last one"}
    return measure(points, Excluded(reasons, ("one of no use",)))


def test_tallies() -> None:
    """Excluded points are counted, but are part of no percentage."""
    measured = some()
    assert measured.tallies == {"line": Tally(2, 1), "branch": Tally(1, 1, 1), "toggle": Tally(2, 0)}
    assert measured.tallies["line"].percent == 50.0
    assert Tally().percent == 100.0
    assert [module.name for module in measured.modules] == ["skid_buffer"]


def test_ranges() -> None:
    """Adjacent bits are one range; a bit that misses one edge is shown with it."""
    names = [f"a[{bit}]:{edge}" for bit in (2, 3, 10) for edge in ("0->1", "1->0")]
    names += ["a[4]:0->1", "b:1->0", "m[1][0]:0->1", "m[1][1]:0->1"]
    assert bit_ranges(map(toggle, names)) == ["a[3:2]", "a[4]:0->1", "a[10]", "b:1->0", "m[1][1:0]:0->1"]
    assert bit_ranges([]) == []


def test_missed() -> None:
    """In the order of the source, with its text."""
    (module,) = some().modules
    toggles, line = missed_texts(module)
    assert toggles == f"{SOURCE}:20: toggle: a[1]"
    assert line.startswith(f"{SOURCE}:31: line: ")


def test_result() -> None:
    """Goals and unused exclusions are judged, unless runs are missing."""
    whole = result(some(), 2.0, [Path("x.html")], partial=False)
    assert whole.figures == {
        **{"line_points": 2, "line_covered": 1, "line_excluded": 0},
        **{"branch_points": 1, "branch_covered": 1, "branch_excluded": 1},
        **{"toggle_points": 2, "toggle_covered": 0, "toggle_excluded": 0},
    }
    failed = {item.name for item in whole.items if item.status == "fail"}
    assert failed == {"line", "toggle", "exclusion: one of no use"}
    part = result(some(), 2.0, [], partial=True)
    assert part.passed
    assert "a[1]" in next(item.detail for item in part.items if item.name == SOURCE)
