"""Runs of `make coverage`: a selection that reaches most of what all tests reach."""

import dataclasses
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from echo_sim.build import COVERAGE_VARIABLE, build
from echo_sim.run import RUNS
from echo_sim.tools import find_verilator
from tb.children import in_pool, run_python
from tb.coverage.points import Counts, add_counts, files_of, read_counts
from tb.repository import ROOT

RUN_TIMEOUT_S = 1800.0
CONFIGS = ("small", "default")


@dataclasses.dataclass(frozen=True)
class CoverageRun:
    """A command that simulates; its simulators write their coverage to $ECHO_NPU_COVERAGE."""

    name: str
    arguments: tuple[str, ...]

    @property
    def command(self) -> list[str]:
        """The command line, as started and as typed to repeat it."""
        return [sys.executable, "-m", *self.arguments]


def suite_run(suite: str, config: str) -> CoverageRun:
    """Run a suite of the RTL regression, with and without stalls."""
    return CoverageRun(f"{suite}-{config}", ("tb", "rtl", "--test", suite, "--config", config, "--jobs", "1"))


def block_run(block: str) -> CoverageRun:
    """Run the testbenches of one module."""
    (folder,) = (ROOT / "tests" / "rtl").glob(f"*/{block}")
    return CoverageRun(block, ("pytest", "-q", "-p", "no:cacheprovider", str(folder.relative_to(ROOT))))


def uvm_run(sequence: str, config: str, count: int) -> CoverageRun:
    """Run random programs on all ports."""
    return CoverageRun(
        f"uvm-{sequence}-{config}",
        ("tb", "uvm", "--sequence", sequence, "--config", config, "--count", str(count)),
    )


# The small configuration reaches every edge of blocks, programs and queues with small shapes. The default one
# is left with what depends on width.
SMALL_SUITES = (
    "errors",
    "matmul_types",
    "vector_errors",
    "vector",
    "vector_programs",
    "programs",
    "huge_commands",
    "anywhere",
    "long",
    "host_window",
    "overlap",
    "interrupts",
    "load_program",
    "guard",
    "watchdog",
    "ring",
    "reset_values",
)
DEFAULT_SUITES = ("matmul_types", "matmul_blocks", "vector_programs", "huge_commands", "long", "host_window")
# Their ports reach what the commands above do not: refused bursts, positions near 2^31.
BLOCKS = (
    "axi_slave",
    "register_block",
    "element_packer",
    "stream_window",
    "stream_walker",
)


def planned() -> list[CoverageRun]:
    """Return all runs, longest first."""
    return [
        *(suite_run(suite, "default") for suite in DEFAULT_SUITES),
        *(suite_run(suite, "small") for suite in SMALL_SUITES),
        *(block_run(block) for block in BLOCKS),
        uvm_run("mixed", "small", 25),
    ]


@dataclasses.dataclass(frozen=True)
class Done:
    """Outcome of a run: its `log` file, and the number of `new` points that no earlier run reached."""

    run: CoverageRun
    passed: bool
    seconds: float
    new: int
    log: Path


class CoverageRunner:
    """Execute runs in parallel and add up their coverage."""

    def __init__(self, seed: int, jobs: int) -> None:
        """Raises ValueError if `jobs` is less than 1."""
        if jobs < 1:
            raise ValueError(f"JOBS={jobs}: it must be 1 or more")
        self.seed = seed
        self._jobs = jobs
        self._lock = threading.Lock()
        self.counts: Counts = {}
        self._folder = RUNS / "coverage" / str(os.getpid())

    def execute(self, runs: Sequence[CoverageRun], say: Callable[[Done], None]) -> list[Done]:
        """Build the simulators and execute all runs; `say` gets each outcome. Raises BuildError,
        ToolMissingError."""
        find_verilator()
        for config in CONFIGS:
            if any(config in run.arguments for run in runs):
                build(config, "coverage")
        finished: list[Done] = []
        try:
            for done in in_pool(self._one, runs, self._jobs):
                say(done)
                finished.append(done)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        return finished

    def _one(self, run: CoverageRun) -> Done:
        started = time.monotonic()
        folder, log = self._folder / run.name, RUNS / f"coverage-{run.name}.log"
        folder.mkdir(parents=True, exist_ok=True)
        environment = {"SEED": str(self.seed), COVERAGE_VARIABLE: str(folder)}
        try:
            status = run_python(run.command[1:], log, RUN_TIMEOUT_S, environment)
        except subprocess.TimeoutExpired:
            status = -1
        counts: Counts = {}
        for path in files_of([folder]):
            add_counts(counts, read_counts(path))
        with self._lock:
            new = sum(1 for name, count in counts.items() if count and not self.counts.get(name))
            add_counts(self.counts, counts)
        shutil.rmtree(folder, ignore_errors=True)
        return Done(run, status == 0 and bool(counts), time.monotonic() - started, new, log)
