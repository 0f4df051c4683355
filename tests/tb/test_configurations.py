"""Random configurations: drawing, failures and their replay, without a simulator."""

import dataclasses
from pathlib import Path

import pytest

from echo_sim.config import load_config
from tb import configurations
from tb.cli import main
from tb.configurations import LARGE, lint, lint_many, linted, play, suites_of
from tb.results import CampaignResult, Item
from tb.suites import suites


def test_lint_says_what_does_not_elaborate() -> None:
    broken = dataclasses.replace(load_config("small"), vector_lanes=16, vector_length=16)
    assert "VectorLength" in lint(broken)


def test_what_is_linted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Lint draws the configurations that are played on, and some of any size; a failure names its seed."""
    assert linted(17) == load_config("random-17")
    assert linted(2 * LARGE).name == f"large-{2 * LARGE}"
    assert max(linted(LARGE * number).array_rows for number in range(40)) == 64
    monkeypatch.setattr(
        configurations, "lint", lambda config: "a latch" if config.name == "random-18" else ""
    )
    result = lint_many(17, 3)
    assert result.figures == {"configs_linted": 3}
    assert [item.status for item in result.items] == ["pass", "fail", "pass"]
    assert result.items[1].replay == "SEED=18 python -m tb configurations --count 1"
    assert "fail  random-18: ArrayRows" in capsys.readouterr().out


def test_suites_are_drawn() -> None:
    drawn = {suite for number in range(300) for suite in suites_of(f"random-{number}")}
    assert drawn == set(suites())


@pytest.mark.parametrize("bad", [False, True])
def test_play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bad: bool) -> None:
    """A simulator that found nothing is removed; each finding is an item with its own replay."""
    directory = tmp_path / "simulator"
    directory.mkdir()

    def programs(config: str, sequence: str, seed: int, *, count: int, hours: None) -> CampaignResult:
        items = [Item("a program", "fail", 0.0, "a bit", "again")] if bad else []
        return CampaignResult("uvm", seed, 0.0, {"uvm_programs": count}, items)

    def suite(name: str, config: str, kind: str, seed: int, jobs: int) -> CampaignResult:
        return CampaignResult("rtl", seed, 0.0, {"tests": 0})

    monkeypatch.setattr(configurations, "build", lambda name: directory)
    monkeypatch.setattr(configurations.program_campaign, "play", programs)
    monkeypatch.setattr(configurations.suites, "play", suite)
    result = play("random-17", 17, 5)
    assert result.figures == {"configs_played": 1, "config_programs": 5, "config_tests": 0}
    assert result.passed != bad
    assert directory.exists() == bad
    assert result.items[0].replay == "SEED=17 python -m tb configurations random-17 --count 5"
    assert [item.replay for item in result.items[1:]] == ["again"] * bad


def test_wrong_arguments() -> None:
    assert main(["configurations", "huge"]) == 2
    assert main(["configurations", "--count", "0"]) == 2
