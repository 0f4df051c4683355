"""The levels: their tasks exist, and have the requested seed."""

import re

import pytest

from tb.cli import app
from tb.regress.levels import LEVELS
from tb.regress.run import again, planned
from tb.regress.task import RESULT
from tb.repository import ROOT
from tb.suites import suites


@pytest.mark.parametrize("name", list(LEVELS))
def test_tasks(name: str) -> None:
    """Names are unique, programs and folders are there, each writes a result."""
    tasks = [*LEVELS[name].tasks(11), *LEVELS[name].closing]
    commands = {each.callback.__name__ for each in app.registered_commands if each.callback}
    assert len({task.name for task in tasks}) == len(tasks)
    for task in tasks:
        assert RESULT in task.arguments
        if task.campaign == "lint":
            assert (ROOT / task.arguments[0]).is_file()
            continue
        assert task.arguments[:2] in (("-m", "tb"), ("-m", "pytest"))
        assert task.arguments[1] == "pytest" or task.arguments[2] in commands
        for word in task.arguments:
            assert not word.startswith("tests/") or (ROOT / word).exists()


@pytest.mark.parametrize("name", list(LEVELS))
def test_goals_have_their_campaign(name: str) -> None:
    level = LEVELS[name]
    campaigns = {task.campaign for task in [*level.tasks(1), *level.closing]}
    assert {goal.campaign for goal in level.goals} <= campaigns
    assert len({goal.text for goal in level.goals}) == len(level.goals)


def test_seeds_do_not_meet() -> None:
    """No two tasks of a campaign draw with the same seed."""
    for task in (tasks := LEVELS["full"].tasks(1000)):
        assert re.fullmatch(r"\d+|", task.environment.get("SEED", ""))
    seeded = [(task.arguments, task.environment.get("SEED")) for task in tasks]
    assert len({str(each) for each in seeded}) == len(seeded)


def test_everything_is_in_the_full_level() -> None:
    """The full level has all suites, all folders of tests, and each campaign of the quick level."""
    words = {word for task in LEVELS["full"].tasks(1) for word in task.arguments}
    assert {"tests/runtime", "tests/rtl", "tests/tb"} | set(suites()) <= words
    campaigns = {name: {task.campaign for task in level.tasks(1)} for name, level in LEVELS.items()}
    assert campaigns["quick"] <= campaigns["full"]


def test_campaigns_are_chosen_by_a_regular_expression() -> None:
    quick = LEVELS["quick"]
    assert {task.campaign for task in planned(quick, 1, "uvm|faults")} == {"uvm", "faults"}
    for wrong, says in (("[", "no regular expression"), ("nothing", "has no such campaign")):
        with pytest.raises(ValueError, match=says):
            planned(quick, 1, wrong)


def test_the_command_that_repeats_a_regression_survives_a_shell() -> None:
    quick = LEVELS["quick"]
    assert again(quick, 7, "") == "make regress LEVEL=quick SEED=7"
    assert again(quick, 7, "uvm|faults") == "make regress LEVEL=quick SEED=7 'ONLY=uvm|faults'"
