"""Committed cycle numbers: changes are found, and the file changes only on request."""

import json
from pathlib import Path

import pytest

from tb.committed_cycles import UPDATE_VARIABLE, CommittedCycles
from tests.refusals import refuses


@pytest.fixture(autouse=True)
def _no_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(UPDATE_VARIABLE, raising=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "cycles.json"
    file.write_text(json.dumps({"default": {"a": 1000, "b": 50}, "small": {"a": 7}}), encoding="utf-8")
    return file


@pytest.mark.parametrize("cycles", [999, 1001])
def test_without_a_tolerance_every_cycle_counts(path: Path, cycles: int) -> None:
    exact = CommittedCycles(path)
    exact.compare("default", {"a": 1000})
    refuses(AssertionError, rf"'a': \(1000, {cycles}\)", exact.compare, "default", {"a": cycles, "b": 50})


def test_the_tolerance_holds_either_way(path: Path) -> None:
    one_percent = CommittedCycles(path, tolerance=0.01)
    for cycles in (990, 1000, 1010):
        one_percent.compare("default", {"a": cycles})
    for cycles in (989, 1011):
        refuses(AssertionError, "a", one_percent.compare, "default", {"a": cycles})


def test_what_is_not_committed_has_moved(path: Path) -> None:
    committed = CommittedCycles(path, tolerance=0.01)
    assert committed.moved("default", {"c": 3}) == {"c": (None, 3)}
    assert committed.moved("giant", {"a": 7}) == {"a": (None, 7)}


def test_an_update_keeps_what_was_not_measured(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UPDATE_VARIABLE, "1")
    CommittedCycles(path).compare("default", {"a": 900, "c": 3})
    kept = {"default": {"a": 900, "b": 50, "c": 3}, "small": {"a": 7}}
    assert json.loads(path.read_text(encoding="utf-8")) == kept


def test_a_replacement_forgets_the_rest_of_its_configuration(path: Path) -> None:
    CommittedCycles(path).update("default", {"c": 3}, replace=True)
    assert json.loads(path.read_text(encoding="utf-8")) == {"default": {"c": 3}, "small": {"a": 7}}


def test_a_file_comes_to_be(tmp_path: Path) -> None:
    committed = CommittedCycles(tmp_path / "new.json")
    committed.update("default", {"a": 1})
    assert committed.load("default") == {"a": 1}
