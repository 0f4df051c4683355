"""The Makefile: what a user sets reaches the commands, and its list of goals is a table."""

import os
import re
import subprocess

import pytest

from tb.repository import ROOT


def made(*words: str, **environment: str) -> str:
    """Return the commands that `make` would run."""
    usual = {
        name: value
        for name, value in os.environ.items()
        if name not in ("BACKEND", "ECHO_NPU_BACKEND", "JOBS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    }
    done = subprocess.run(
        ["make", "--dry-run", *words],
        cwd=ROOT,
        env=usual | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("goal", ["transformer", "lenet", "smollm2", "chat"])
def test_a_model_runs_on_the_backend_that_is_named(goal: str) -> None:
    assert '--backend "$BACKEND"' in made(goal, "BACKEND=cmodel")
    assert "--jobs" not in made(goal, "BACKEND=cmodel")
    assert '--backend "$BACKEND" --jobs "$JOBS"' in made(goal, "BACKEND=rtlfarm")


@pytest.mark.parametrize(
    ("named", "environment", "backend"),
    [
        ([], {}, "rtlmodel"),
        ([], {"ECHO_NPU_BACKEND": "cmodel"}, "cmodel"),
        (["BACKEND=rtlfarm"], {"ECHO_NPU_BACKEND": "cmodel"}, "rtlfarm"),
    ],
)
def test_the_backend_is_that_of_the_runtime_where_none_is_named(
    named: list[str], environment: dict[str, str], backend: str
) -> None:
    shown = made("shown", "--eval=shown: ; backend $(BACKEND)", *named, **environment)
    assert shown == f"backend {backend}\n"


def test_a_target_of_the_core_takes_its_options() -> None:
    """The shell divides them, and takes them from the environment."""
    shown = made("fusesoc", "TARGET=sim", "ARGS=--spoil --QueueDepth=32")
    assert '-m scripts.ip.fusesoc "$TARGET" $ARGS\n' in shown
    exported = made("shown", "--eval=shown: ; +@echo options $$ARGS", "ARGS=--spoil --QueueDepth=32")
    assert exported.endswith("\noptions --spoil --QueueDepth=32\n")


def test_the_goals_stand_in_columns() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    goals = re.findall(r"^  make (\S+ +)\S", done.stdout, re.MULTILINE)
    assert len(goals) > 30
    assert len({len(goal) for goal in goals}) == 1
