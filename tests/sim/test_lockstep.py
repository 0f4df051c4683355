"""A device with clock gates does in every clock what one without them does, on the small configuration.

The level `full` of `make regress` compares them over the whole regression, on `small` and `default`.
"""

import os
import subprocess
from pathlib import Path

import pytest

from echo_sim.designs import npu_design
from echo_sim.numerals import choose_seed
from echo_sim.places import CONFIGS
from echo_sim.tools import find_verilator
from tb import suites
from tb.faults import case_campaign
from tb.results import CampaignResult, failures
from tb.shard import WHOLE
from tb.uvm import program_campaign

CONFIG = "lockstep-small"
SUITES = ("sync", "ring", "interrupts", "errors")
"""Commands, interrupts, errors and soft resets, so close to each other that units rest in between or not."""


def judged(result: CampaignResult) -> None:
    assert result.passed, f"seed {result.seed}\n{failures(result)}"


@pytest.mark.sim
@pytest.mark.parametrize("suite", SUITES)
def test_suites(suite: str) -> None:
    judged(suites.play(suite, CONFIG, "fast", choose_seed(), 1))


@pytest.mark.sim
def test_random_programs() -> None:
    judged(program_campaign.play(CONFIG, "mixed", choose_seed(), count=20, hours=None, first=True))


@pytest.mark.sim
@pytest.mark.parametrize(("name", "count"), [("faults", 1_000), ("fuzz", 10_000)])
def test_faults_and_resets(name: case_campaign.Name, count: int) -> None:
    judged(case_campaign.play(name, CONFIG, choose_seed(), count, WHOLE, "fast"))


def test_two_devices_without_gates_are_legal(tmp_path: Path) -> None:
    """Verilator warns of some names only where a module is there twice, as of a device beside its equal."""
    path = tmp_path / "open.toml"
    text = (CONFIGS / "small.toml").read_text(encoding="utf-8")
    path.write_text(text.replace("clock_gating = 1", "clock_gating = 0"), encoding="utf-8")
    design, verilator = npu_design(f"lockstep-{path}"), find_verilator()
    assert design.parameters["ClockGating"] == 0
    done = subprocess.run(
        [
            *(str(verilator.program), "--lint-only", "--quiet", "--no-timing", "-Wall", "--assert"),
            *("--top-module", design.top, *(f"-I{folder}" for folder in design.includes)),
            *(f"-G{name}={value}" for name, value in design.parameters.items()),
            *map(str, (*design.control, *design.sources)),
        ],
        env={**os.environ, **verilator.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
