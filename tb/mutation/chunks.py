"""Look for known bugs in the chunks of a run: the backend rtlfarm must name the command that shows each."""

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from echo_sim.run import RUNS, RUNS_VARIABLE, SimulationError
from tb.children import in_pool
from tb.mutation.block_trials import UnchangedFailsError
from tb.mutation.changed import run_changed

BUGS: Final = (
    "bias_of_next_tile",
    "depth_of_ragged_int8",
    "extent_without_outer_batch",
    "hazard_of_oldest_only",
    "int8_minimum_clipped",
    "outer_batch_takes_inner_stride",
    "rows_of_a_held_product",
    "sticky_lost_on_carry",
    "strobe_of_full_last_beat",
    "write_after_read_forgotten",
)
"""Bugs that random programs show in memory. Others need stalls, errors, resets, the host or long commands."""

TIMEOUT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Sight:
    """How a change was found.

    Attributes:
        number: of the change.
        where: the chunk and the command that the farm names; empty if it found nothing.
        seconds: wall time.
    """

    number: int
    where: str
    seconds: float


def run_trial(folder: Path, number: int, seed: int) -> dict[str, Any] | None:
    """Run the random programs on the tree `folder` with change `number`; return what `farm_trial` prints.

    Raises SimulationError: it does not run.
    """
    name = f"chunks-{number}"
    with tempfile.TemporaryDirectory(prefix="npu-chunks-") as failures:
        try:
            status, text = run_changed(
                ["-m", "tb.mutation.farm_trial", str(seed), failures],
                folder,
                number,
                name=name,
                limit=TIMEOUT_S,
                environment={RUNS_VARIABLE: str(RUNS / name)},
            )
        except subprocess.TimeoutExpired:
            raise SimulationError(f"change {number} does not end within {TIMEOUT_S:.0f} s") from None
    if status:
        raise SimulationError(f"the programs do not run with change {number}:\n{text}")
    found: dict[str, Any] | None = json.loads(text.splitlines()[-1])
    return found


def look_for(folder: Path, numbers: Sequence[int], seed: int, jobs: int) -> Iterator[Sight]:
    """Run the random programs on each change; yield what the farm found.

    Raises UnchangedFailsError: it finds something without a change. SimulationError: as `run_trial`.
    """
    complaint = run_trial(folder, 0, seed)
    if complaint:
        raise UnchangedFailsError(f"programs of seed {seed} differ without a change: {complaint['what']}")

    def look(number: int) -> Sight:
        began = time.monotonic()
        found = run_trial(folder, number, seed)
        where = f"chunk {found['chunk']}, {found['command']}" if found and found["command"] else ""
        return Sight(number, where, time.monotonic() - began)

    yield from in_pool(look, numbers, jobs)
