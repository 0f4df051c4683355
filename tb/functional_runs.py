"""Run the RTL regression and random programs with functional coverage."""

import os
import shutil
from pathlib import Path

from echo_sim.run import RUNS
from tb import suites
from tb.functional import FOLDER_VARIABLE
from tb.uvm import program_campaign
from tb.uvm.sequences import CLOSING_PROGRAMS, PACKED_PROGRAMS, STATES_PROGRAMS

FOLDER = RUNS / "functional"
STATES_ROUNDS = 6
"""Rounds of all scenes. Details that a scene leaves open, such as the clock of a reset, are random."""


def play(folder: Path, seed: int, count: int, jobs: int) -> bool:
    """Run everything with functional coverage in an empty `folder`; return whether all passed.

    Args:
        count: random programs on the configuration small; default gets a tenth of it.

    Raises: as `echo_sim.build.build`.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.environ |= {FOLDER_VARIABLE: str(folder)}
    good = suites.play("", "all", "fast", seed, jobs).passed
    for config, sequence, programs in (
        ("small", "closing", CLOSING_PROGRAMS),
        ("default", "packed", PACKED_PROGRAMS),
        ("small", "states", STATES_ROUNDS * STATES_PROGRAMS),
        ("small", "mixed", count),
        ("default", "mixed", -(-count // 10)),
    ):
        good &= program_campaign.play(config, sequence, seed, count=programs, hours=None).passed
    return good
