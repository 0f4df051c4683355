"""Random campaigns that search for known bugs: the forms in patches, and one that finds its bug."""

from collections.abc import Callable
from pathlib import Path

import pytest

from echo_sim.run import SimulationError
from tb.mutation import bugs, changed, searches
from tb.mutation.block_trials import UnchangedFailsError
from tb.mutation.patches import load_bugs
from tb.mutation.searches import Search, SearchError, parse_search, run_search
from tb.uvm.sequences import SEQUENCES
from tests.refusals import refuses


@pytest.mark.parametrize(
    ("text", "search"),
    [
        ("fuzz 10", Search("fuzz", 10)),
        ("faults 5", Search("faults", 5)),
        ("uvm host 3", Search("uvm", 3, "host")),
        ("testbench cells/sync_fifo", Search("testbench", module="cells/sync_fifo")),
    ],
)
def test_what_a_patch_may_name(text: str, search: Search) -> None:
    assert parse_search(text) == search
    assert str(search) == text
    if search.module:
        assert search.arguments[-1] == f"tests/rtl/{search.module}"
    else:
        assert search.arguments[-3:] == ["--count", str(search.count), "--first"]


@pytest.mark.parametrize(
    "text", ["", "fuzz", "fuzz many", "fuzz errors 3", "uvm 3", "formal 3", "fuzz -3", "testbench no/such"]
)
def test_anything_else_is_refused(text: str) -> None:
    refuses(SearchError, "fuzz N, faults N, uvm SEQUENCE N or testbench BLOCK/MODULE", parse_search, text)


def test_the_patches_name_sequences_that_exist() -> None:
    named = [bug.search for bug in load_bugs() if bug.search is not None]
    assert len(named) >= 4
    assert {search.sequence for search in named} <= {"", *SEQUENCES}


@pytest.mark.sim
def test_a_search_finds_its_bug() -> None:
    result = bugs.search(20, "host_read_without_room")
    assert result.passed, bugs.report(result)
    assert result.figures == {"bugs": 1, "bugs_found": 1}
    assert "FAIL" in result.items[0].detail


def test_a_search_that_finds_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "run_search", lambda *_: "")
    result = bugs.search(20, "host_read_without_room")
    assert not result.passed
    assert "faults 2000 does not find it" in result.items[0].message


def test_a_search_that_fails_without_a_bug_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "run_search", lambda *_: "FAIL something")
    with pytest.raises(UnchangedFailsError, match="fails without a change"):
        bugs.search(20, "host_read_without_room")


@pytest.mark.parametrize(
    ("text", "found"),
    [("FAIL one\nFAIL two\n", "FAIL one"), ("nothing\n", "it failed"), ("FAIL x\nTraceback (most", "FAIL x")],
)
def test_what_a_search_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, found: str) -> None:
    monkeypatch.setattr(changed, "run_python", writer(text))
    assert run_search(tmp_path, 1, Search("fuzz", 10), 3) == found


def test_a_campaign_that_breaks_down_has_found_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(changed, "run_python", writer("Traceback (most recent call last):\nKeyError"))
    refuses(SimulationError, "does not run with change 1", run_search, tmp_path, 1, Search("fuzz", 10), 3)


def writer(text: str) -> Callable[..., int]:
    """Replace `run_python` by a campaign that writes this text and finds something."""

    def run(_: object, log: Path, *__: object) -> int:
        log.write_text(text, encoding="utf-8")
        return 1

    return run
