"""Runs the RTL regression and random programs, and reports the functional coverage of all of it.

python -m tb.functional.campaign [--count 200] [--jobs 2] [--html FILE] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tb import regression
from tb.functional import FOLDER_VARIABLE
from tb.functional.report import HTML, report, show
from tb.runner import SIM_BUILD, choose_seed
from tb.uvm import campaign as uvm
from tb.uvm.sequences import CLOSING_PROGRAMS, STATES_PROGRAMS

FOLDER = SIM_BUILD / "functional"
STATES_ROUNDS = 6
"""How often each scene is played: what it leaves open, such as the clock of a reset, is random."""


def collect(folder: Path, seed: int, count: int, jobs: int) -> bool:
    """Run everything with $ECHO_NPU_FUNCTIONAL naming an empty `folder`; whether all of it passed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.environ |= {FOLDER_VARIABLE: str(folder), "SEED": str(seed)}
    good = regression.main(["--config", "all", "--jobs", str(jobs)]) == 0
    for config, sequence, programs in (
        ("small", "closing", CLOSING_PROGRAMS),
        ("small", "states", STATES_ROUNDS * STATES_PROGRAMS),
        ("small", "mixed", count),
        ("default", "mixed", -(-count // 10)),
    ):
        words = ["--config", config, "--sequence", sequence, "--count", str(programs)]
        good &= uvm.main(words) == 0
    return good


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; exit status 0 when everything passed and every reachable bin was hit, 1 when not, 2 for
    wrong arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m tb.functional.campaign", description="functional coverage of regression and programs"
    )
    parser.add_argument("--count", type=int, default=200, help="random programs; a tenth of it on default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="simulators at a time")
    parser.add_argument("--html", type=Path, default=HTML)
    parser.add_argument("--json", type=Path, default=HTML.parent.with_suffix(".json"))
    options = parser.parse_args(argv)
    try:
        if options.count < 1 or options.jobs < 1:
            raise ValueError("N and JOBS must be more than 0")
        seed = choose_seed()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"seed {seed}")
    good = collect(FOLDER, seed, options.count, options.jobs)
    rows, outcome = report([FOLDER], options.html)
    show(rows, outcome)
    outcome.save(options.json)
    return 0 if good and outcome.passed else 1


if __name__ == "__main__":
    sys.exit(main())
