"""Lets the random campaigns look for the known bugs, without the tests that were written for them.

A patch in tests/bugs may have a line `Search: fuzz 30000`, `Search: uvm errors 20` or
`Search: bench vector/stream_window`: the campaign that must find the bug, and how much of it, or the module
on whose bench random traffic must find it.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from echo_sim.places import RTL_VARIABLE
from echo_sim.processes import run_bounded
from echo_sim.run import RUNS, RUNS_VARIABLE, SimulationError
from tb.mutation.judge import UnchangedFailsError
from tb.mutation.schemata import SELECTOR_VARIABLE
from tb.mutation.tree import CONFIG
from tb.repository import ROOT

TIMEOUT_S: Final = 1800.0
CAMPAIGNS: Final = ("fuzz", "faults", "uvm")
BENCH: Final = "bench"


class SearchError(ValueError):
    """A line `Search:` that names no campaign; the message says what it may be."""


@dataclasses.dataclass(frozen=True)
class Search:
    """A campaign of `count` packets, faults or programs; of pyuvm programs those of `sequence`.

    The campaign `bench` is the random traffic on the bench of `module`, a folder below tests/rtl.
    """

    campaign: str
    count: int = 0
    sequence: str = ""
    module: str = ""

    @property
    def arguments(self) -> list[str]:
        """What Python is called with."""
        if self.module:
            return ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/rtl/{self.module}"]
        sequence = ["--sequence", self.sequence, "--first"] if self.sequence else []
        return ["-m", "tb", self.campaign, *sequence, "--config", CONFIG, "--count", str(self.count)]

    def __str__(self) -> str:
        return " ".join(filter(None, (self.campaign, self.sequence, self.module, str(self.count or ""))))


def parse_search(text: str) -> Search:
    """A search as patches name it. SearchError: it is none."""
    words = text.split()
    if len(words) == 2 + (words[:1] == ["uvm"]) and words[0] in CAMPAIGNS and words[-1].isdecimal():
        return Search(words[0], int(words[-1]), " ".join(words[1:-1]))
    if len(words) == 2 and words[0] == BENCH and (ROOT / "tests" / "rtl" / words[1]).is_dir():
        return Search(BENCH, module=words[1])
    raise SearchError(f"Search: {text}: it is fuzz N, faults N, uvm SEQUENCE N or bench BLOCK/MODULE")


def run_search(folder: Path, number: int, search: Search, seed: int) -> str:
    """Play the campaign on the tree `folder` with change `number`; the first line in which it says that
    something is wrong, empty if nothing is.

    Raises:
        SimulationError: it does not run.
    """
    name = f"search-{number}-{search}".replace(" ", "-").replace("/", "-")
    log = RUNS / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        status = run_bounded(
            [sys.executable, *search.arguments],
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT / 'runtime'}{os.pathsep}{ROOT}",
                RTL_VARIABLE: str(folder),
                SELECTOR_VARIABLE: str(number),
                RUNS_VARIABLE: str(RUNS / name),
                "SEED": str(seed),
            },
            cwd=ROOT,
            log=log,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return f"it hangs: no end after {TIMEOUT_S:.0f} s"
    text = log.read_text(encoding="utf-8", errors="replace")
    said = next((line for line in text.splitlines() if line.startswith("FAIL")), "")
    if status == 1 and (said or "Traceback (most recent call last)" not in text):
        return said or "it failed"
    if status != 0:
        raise SimulationError(f"{search} does not run with change {number}:\n{text}")
    return ""


@dataclasses.dataclass(frozen=True)
class Sighting:
    """What a search said about a bug; `found` is empty if it found nothing."""

    found: str
    seconds: float


def look_for(folder: Path, wanted: Sequence[tuple[int, Search]], seed: int) -> dict[int, Sighting]:
    """Let each search look for its change; by the change's number.

    Raises:
        UnchangedFailsError: a search fails without a change. SimulationError: as `run_search`.
    """
    for search in dict.fromkeys(search for _, search in wanted):
        complaint = run_search(folder, 0, search, seed)
        if complaint:
            raise UnchangedFailsError(f"{search} with seed {seed} fails without a change: {complaint}")
    sightings = {}
    for number, search in wanted:
        started = time.monotonic()
        found = run_search(folder, number, search, seed)
        sightings[number] = Sighting(found, time.monotonic() - started)
    return sightings
