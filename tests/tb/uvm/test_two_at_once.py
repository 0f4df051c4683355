"""Two simultaneous campaigns in one tree, with one configuration and seed, do not interfere."""

import os
import subprocess
import sys

import pytest

from echo_sim.build import build
from echo_sim.run import RUNS_VARIABLE
from tb.repository import ROOT

pytestmark = pytest.mark.sim

CAMPAIGNS = {"uvm": ("uvm", "--sequence", "neighbour", "--count", "4"), "fuzz": ("fuzz", "--count", "3000")}


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_two_at_once(name: str) -> None:
    build("small")
    environment = {**os.environ, "SEED": "3", "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop(RUNS_VARIABLE, None)
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "tb", *CAMPAIGNS[name], "--config", "small"],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    said = [each.communicate(timeout=300)[0] for each in both]
    assert [each.returncode for each in both] == [0, 0], "\n".join(said)
