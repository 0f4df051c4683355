"""Search for the known bugs with random campaigns, without the tests that were written for them.

A line `Search: fuzz 200000`, `Search: uvm hazards 100` or `Search: testbench vector/stream_window` in a patch
of tests/bugs names the campaign that must find the bug, and its most cases, or the module on whose testbench
random traffic must find it.
"""

import dataclasses
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from echo_sim.run import RUNS, RUNS_VARIABLE, SimulationError
from tb.mutation.block_trials import UnchangedFailsError
from tb.mutation.changed import run_changed
from tb.mutation.tree import CONFIG
from tb.repository import ROOT

TIMEOUT_S: Final = 1800.0
CAMPAIGNS: Final = ("fuzz", "faults", "uvm")
TESTBENCH: Final = "testbench"


class SearchError(ValueError):
    """A line `Search:` that names no campaign; the message lists the forms."""


@dataclasses.dataclass(frozen=True)
class Search:
    """A campaign of `count` packets, faults or programs; for pyuvm, programs of `sequence`.

    The campaign `testbench` is the random traffic on the testbench of `module`, a folder below tests/rtl.
    """

    campaign: str
    count: int = 0
    sequence: str = ""
    module: str = ""

    @property
    def arguments(self) -> list[str]:
        """Arguments of the Python interpreter."""
        if self.module:
            return ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/rtl/{self.module}"]
        sequence = ["--sequence", self.sequence] if self.sequence else []
        size = ["--config", CONFIG, "--count", str(self.count)]
        return ["-m", "tb", self.campaign, *sequence, *size, "--first"]

    def __str__(self) -> str:
        return " ".join(filter(None, (self.campaign, self.sequence, self.module, str(self.count or ""))))


def parse_search(text: str) -> Search:
    """Parse a search as patches name it. Raises SearchError."""
    words = text.split()
    if len(words) == 2 + (words[:1] == ["uvm"]) and words[0] in CAMPAIGNS and words[-1].isdecimal():
        return Search(words[0], int(words[-1]), " ".join(words[1:-1]))
    if len(words) == 2 and words[0] == TESTBENCH and (ROOT / "tests" / "rtl" / words[1]).is_dir():
        return Search(TESTBENCH, module=words[1])
    raise SearchError(f"Search: {text}: it is fuzz N, faults N, uvm SEQUENCE N or testbench BLOCK/MODULE")


def run_search(folder: Path, number: int, search: Search, seed: int) -> str:
    """Run the campaign on the tree `folder` with change `number`; return its first failure, empty if it
    passes.

    Raises SimulationError: it does not run.
    """
    name = f"search-{number}-{search}".replace(" ", "-").replace("/", "-")
    try:
        status, text = run_changed(
            search.arguments,
            folder,
            number,
            name=name,
            limit=TIMEOUT_S,
            environment={RUNS_VARIABLE: str(RUNS / name), "SEED": str(seed)},
        )
    except subprocess.TimeoutExpired:
        return f"it hangs: no end after {TIMEOUT_S:.0f} s"
    said = next((line for line in text.splitlines() if line.startswith("FAIL")), "")
    if status == 1 and (said or "Traceback (most recent call last)" not in text):
        return said or "it failed"
    if status != 0:
        raise SimulationError(f"{search} does not run with change {number}:\n{text}")
    return ""


@dataclasses.dataclass(frozen=True)
class Sighting:
    """What a search found, empty for nothing, and its wall seconds."""

    found: str
    seconds: float


def look_for(folder: Path, wanted: Sequence[tuple[int, Search]], seed: int) -> dict[int, Sighting]:
    """Run each search against its change; return the outcomes by the change's number.

    Raises UnchangedFailsError: a search fails without a change. SimulationError: as `run_search`.
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
