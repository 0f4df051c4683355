"""The Makefile: what a user sets reaches the commands, and its list of goals is a table."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts import place
from scripts.synth import __main__ as synth
from tb.repository import ROOT

UNSET = (
    *("BACKEND", "ECHO_NPU_BACKEND", "JOBS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"),
    *("CONFIG", "BLOCK", "ON", "LIBERTY", "UPDATE", "DEVICE"),
)
"""Variables of the environment that goals would take."""
PARSERS = {"synth": synth.parser(), "place": place.parser()}


def made(*words: str, **environment: str) -> str:
    """Return the commands that `make` would run."""
    usual = {name: value for name, value in os.environ.items() if name not in UNSET}
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


@pytest.mark.parametrize(
    ("goal", "variables", "wanted"),
    [
        ("synth", [], {"config": ["small", "default"], "block": None, "target": None, "update": False}),
        ("synth", ["CONFIG=small", "BLOCK=a,b"], {"config": ["small"], "block": ["a", "b"], "target": None}),
        ("synth", ["ON=ecp5,xilinx", "JOBS=3"], {"block": None, "target": ["ecp5", "xilinx"], "jobs": 3}),
        ("synth", ["LIBERTY=x.lib", "UPDATE=1"], {"liberty": Path("x.lib"), "update": True, "target": None}),
        ("place", ["BLOCK=a"], {"block": "a", "config": "small", "device": "85k"}),
        ("place", ["BLOCK=u.b", "CONFIG=default", "DEVICE=25k"], {"config": "default", "device": "25k"}),
    ],
)
def test_what_is_not_set_reaches_no_command(goal: str, variables: list[str], wanted: dict[str, Any]) -> None:
    """The command's own parser takes what make passes."""
    usual = {name: value for name, value in os.environ.items() if name not in UNSET}
    stamps = [f"--old-file=.venv/{name}" for name in (".dev", ".verify")]
    done = subprocess.run(
        ["make", "--silent", goal, r"PY=printf '%s\n'", *stamps, *variables],
        cwd=ROOT,
        env=usual,
        capture_output=True,
        text=True,
        check=True,
    )
    module, name, *words = done.stdout.splitlines()
    assert (module, name) == ("-m", f"scripts.{goal}")
    found = vars(PARSERS[goal].parse_args(words))
    assert {name: found[name] for name in wanted} == wanted


def test_the_goals_stand_in_columns() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    goals = re.findall(r"^  make (\S+ +)\S", done.stdout, re.MULTILINE)
    assert len(goals) > 30
    assert len({len(goal) for goal in goals}) == 1
