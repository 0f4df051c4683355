"""Exclusions: the points that they describe; each must describe some."""

import pytest

from tb.coverage.exclusions import (
    EXCLUSIONS,
    Exclusion,
    ExclusionError,
    apply_exclusions,
    parse_exclusions,
    source_line,
)
from tb.coverage.points import KINDS, Point, synthesizable
from tests.tb.coverage.data import SOURCE

REASON = "no reason at all"


def both_edges(name: str) -> set[str]:
    return {f"{name}:0->1", f"{name}:1->0"}


def toggles(*names: str) -> dict[Point, int]:
    """Return both edges of these bits, not reached."""
    return {Point(SOURCE, 20, 3, "toggle", text): 0 for name in names for text in both_edges(name)}


def described(text: str, points: dict[Point, int], kind: str = "toggle") -> set[str]:
    """Return the points that one text excludes."""
    excluded = apply_exclusions([Exclusion(SOURCE, kind, (text,), REASON)], points)  # type: ignore[arg-type]
    return {point.text for point in excluded.reasons}


def test_the_committed_file_is_understood() -> None:
    """Files and kinds exist, and each entry gives a reason."""
    for exclusion in parse_exclusions(EXCLUSIONS.read_text(encoding="utf-8")):
        assert exclusion.kind in KINDS
        assert "*" in exclusion.file or exclusion.file in synthesizable()


def test_bits() -> None:
    """A signal, a bit, a range, an edge, any signal of a name, elements of an array, a member."""
    points = toggles("a", "addr[0]", "addr[1]", "addr[2]", "addr_q[2]", "m[0][1]", "m[1][1]", "s.f[2]")
    assert described("a", points) == both_edges("a")
    assert described("addr", points) == both_edges("addr[0]") | both_edges("addr[1]") | both_edges("addr[2]")
    assert described("addr[2:1]:0->1", points) == {"addr[1]:0->1", "addr[2]:0->1"}
    assert described("addr*[2]:1->0", points) == {"addr[2]:1->0", "addr_q[2]:1->0"}
    assert described("m[*][1]:1->0", points) == {"m[0][1]:1->0", "m[1][1]:1->0"}
    assert described("s.f[2]:1->0", points) == {"s.f[2]:1->0"}


def test_source_text() -> None:
    """A line by its text, and one arm of a branch."""
    number = next(n for n in range(1, 200) if "if (" in source_line(SOURCE, n))
    points = {
        Point(SOURCE, number, 3, "branch", "if"): 0,
        Point(SOURCE, number, 4, "branch", "else"): 0,
        Point(SOURCE, 1, 3, "branch", "else"): 0,
    }
    text = source_line(SOURCE, number).strip()
    assert described(text, points, "branch") == {"if", "else"}
    assert described(f"else: {text}", points, "branch") == {"else"}


def test_a_wrong_entry_is_a_fault() -> None:
    """An entry is wrong if it describes nothing, or if a part of it is reached, so that its reason is not
    true."""
    points = toggles("a") | toggles("b")
    points[Point(SOURCE, 20, 3, "toggle", "a:1->0")] = 5
    excluded = apply_exclusions([Exclusion(SOURCE, "toggle", ("b", "c", "a"), REASON)], points)
    assert excluded.faults == [
        f"{SOURCE}: no toggle is described by 'c'",
        f"{SOURCE}: 'a' describes what is reached: a:1->0, {SOURCE}:20",
    ]
    assert {point.text for point in excluded.reasons} == {"a:0->1", "b:0->1", "b:1->0"}
    assert apply_exclusions([Exclusion("rtl/*.sv", "toggle", ("b",), REASON)], points).faults == []
    assert apply_exclusions([Exclusion("rtl/other.sv", "toggle", ("b",), REASON)], points).faults


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[exclusion]", "not TOML"),
        ("[[excluded]]", "unknown key excluded"),
        ('[[exclusion]]\nreason = "because of it"', "exclusion 1 .*must name a file"),
        ('[[exclusion]]\na = ["a"]\nkind = "toggles"\nreason = "because of it"', "1 .a.: kind must be"),
        ('[[exclusion]]\na = []\nreason = "because of it"', "list of texts"),
        ('[[exclusion]]\na = ["x"]\nreason = "never"', "must say why"),
        ('[[exclusion]]\na = ["x"]', "must say why"),
    ],
)
def test_refused(text: str, message: str) -> None:
    """Malformed entries are refused with their numbers."""
    with pytest.raises(ExclusionError, match=message):
        parse_exclusions(text)
