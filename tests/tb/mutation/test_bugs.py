"""Known bugs, each put into the RTL: the regression must find it."""

import os

import pytest

from tb.cli import main
from tb.mutation import bugs
from tb.mutation.patches import bug_names
from tb.regress.goals import judge
from tb.regress.levels import LEVELS

SEED = 1


def test_the_regression_finds_every_known_bug_of_the_device() -> None:
    """One simulator holds all bugs; with none selected it passes the tests that find them.

    `make bugs` and the level `full` of `make regress` play those that testbenches of modules find, too.
    """
    result = bugs.play(SEED, os.cpu_count() or 1, on_board=True)
    assert result.figures["bugs"] > len(bug_names()) / 2
    assert result.passed, bugs.report(result)
    goals = [goal for goal in LEVELS["full"].goals if goal.campaign == "bugs"]
    assert goals
    for goal in goals:
        assert judge(goal, {"bugs": result}).met, goal.text


def test_an_unknown_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bugs", "--only", "nothing"]) == 2
    assert "no bug 'nothing'; there are" in capsys.readouterr().err


def test_a_bug_that_no_test_of_the_device_finds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bugs", "--on-board", "--only", "row_bytes_wrap"]) == 2
    assert "'row_bytes_wrap' names no test of the whole device" in capsys.readouterr().err


def test_the_farm_names_the_command_that_shows_a_bug() -> None:
    result = bugs.look_in_chunks(SEED, 1, "bias_of_next_tile")
    (item,) = result.items
    assert item.status == "pass"
    assert "command" in item.detail
    assert "MATMUL" in item.detail


def test_a_bug_that_chunks_do_not_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bugs", "--chunks", "--only", "busy_cycles_of_16_bits"]) == 2
    assert "that chunks show; there are bias_of_next_tile" in capsys.readouterr().err
