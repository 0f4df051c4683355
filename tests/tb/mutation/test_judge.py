"""The order in which a judge tries what may find a change."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from echo_sim.places import RTL
from tb.mutation import judge as judge_module
from tb.mutation.judge import HASTY, Case, Judge, MutantFinding

CASES = [Case(number, "sync_fifo.sv", reset=number == 2) for number in range(1, 7)]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder with changed sources."""
    return Path(shutil.copytree(RTL, tmp_path / "tree"))


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, list[int]]]:
    """Replace simulations: first trials find change 1, power-ups 2, the module's testbench 3, larger ones 5.

    Note who tries what.
    """
    tried: list[tuple[str, list[int]]] = []
    finds = {"first": 1, "power_up": 2, "own_block": 3, "other_blocks": 5}

    def each(
        _: Judge,
        cases: Sequence[Case],
        what: Callable[..., MutantFinding],
        findings: dict[int, MutantFinding],
        *,
        simulator: bool,
    ) -> None:
        tried.append((what.__name__, [case.number for case in cases]))
        for case in cases:
            killer = what.__name__ if finds.get(what.__name__) == case.number else ""
            findings[case.number] = MutantFinding(killer, "", 1.0)

    monkeypatch.setattr(judge_module, "build", lambda *_, **__: tmp_path)
    monkeypatch.setattr(Judge, "_cycles", lambda *_: {})
    monkeypatch.setattr(Judge, "_each", each)
    return tried


def test_a_proof_saves_larger_testbenches_and_the_regression(
    stages: list[tuple[str, list[int]]], tree: Path
) -> None:
    asked: list[tuple[int, float]] = []

    def proven(case: Case, share: float) -> bool:
        asked.append((case.number, share))
        return case.number == 4

    findings = Judge(tree, 1, 2, "test").judge(CASES, proven=proven)
    assert stages == [
        ("first", [1, 2, 3, 4, 5, 6]),
        ("power_up", [2]),
        ("own_block", [3, 4, 5, 6]),
        ("other_blocks", [5, 6]),
        ("others", [6]),
    ]
    assert sorted(asked) == [(4, HASTY), (5, HASTY), (6, HASTY), (6, 1.0)]
    assert [number for number, finding in findings.items() if not finding.killed] == [4, 6]


def test_a_quick_judgement_ends_before_the_whole_regression(
    stages: list[tuple[str, list[int]]], tree: Path
) -> None:
    Judge(tree, 1, 1, "test").judge(CASES, whole=False)
    assert [name for name, _ in stages] == ["first", "power_up", "own_block", "other_blocks"]
