"""Results of campaigns: saved, read and added up."""

from pathlib import Path

import pytest

from tb.results import CampaignResult, Item, merged
from tests.refusals import refuses


def part(number: int, **figures: int) -> CampaignResult:
    items = [Item(f"item {number}", "pass", 0.5)]
    return CampaignResult("faults", 7 + number, 1.5, figures, items, ["p.html"])


def test_round_trip(tmp_path: Path) -> None:
    """A saved result is read back unchanged."""
    items = (Item("a", "fail", 1.0, "why", "make uvm"),)
    result = CampaignResult("uvm", 3, 2.0, {"programs": 5}, items, ("x.html",))
    result.save(tmp_path / "deep" / "uvm.json")
    again = CampaignResult.load(tmp_path / "deep" / "uvm.json")
    assert again.items == result.items
    assert dict(again.figures) == {"programs": 5}
    assert not again.passed


def test_something_else_is_refused(tmp_path: Path) -> None:
    """The error names a file that is no result."""
    for text in ("", "[]", '{"name": "x"}', '{"items": [{"name": "a", "status": "maybe"}]}'):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(ValueError, match=r"x\.json is not the result of a campaign"):
            CampaignResult.load(tmp_path / "x.json")


def test_parts_add_up() -> None:
    """Figures and seconds are added, items kept."""
    whole = merged([part(1, faults=10, hangs=0), part(0, faults=5, other=1)])
    assert dict(whole.figures) == {"faults": 15, "hangs": 0, "other": 1}
    assert (whole.seed, whole.seconds, len(whole.items)) == (7, 3.0, 2)
    assert whole.passed


def test_what_is_no_part_is_refused() -> None:
    """No part, another campaign, and the same item twice are refused."""
    refuses(ValueError, "none", merged, [])
    refuses(ValueError, "faults, uvm", merged, [part(1), CampaignResult("uvm", 0, 0.0)])
    refuses(ValueError, "'item 1' is there twice", merged, [part(1), part(1)])
