"""RTL regression: every suite on the simulated NPU, with and without memory stalls."""

import ast
import dataclasses
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

from echo_sim.build import Kind, build
from echo_sim.config import absolute, load_config, small_memory_config_names
from echo_sim.designs import Design
from echo_sim.run import RunResult, SimulationError, run
from tb.children import in_pool
from tb.netlist.design import netlist_design
from tb.repository import ROOT
from tb.results import CampaignResult, Item, Status

SUITE_FOLDERS = ("tests/commands", "tests/programs")

BoardKind = Kind | Literal["netlist"]
"""A kind of simulator, or the board with gates in place of the RTL."""


UNSEEN = (
    "netlist: off is what looks into the device: its assertions, the checkers of AxPROT, of turns, of resting"
    " clocks and of counters, the timeline, functional coverage"
)


class UsageError(ValueError):
    """A name that does not exist; the message lists the existing ones."""


@dataclasses.dataclass(frozen=True)
class Suite:
    """One file of cocotb tests."""

    name: str
    module: str
    path: Path

    def tests(self) -> list[str]:
        """Return the names of its tests, without importing the file."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        return [
            node.name
            for node in tree.body
            if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test")
        ]


@dataclasses.dataclass(frozen=True)
class Job:
    """One simulator run: a suite, or one test of it, on a configuration (name or file)."""

    suite: Suite
    config: str
    stalls: bool
    test: str | None = None

    @property
    def name(self) -> str:
        """Unique name among the jobs of a regression, also used for the run's files."""
        parts = [self.suite.name, self.test, load_config(self.config).name, "stalls" if self.stalls else None]
        return "-".join(part for part in parts if part)

    @property
    def replay(self) -> str:
        """Command that runs it again, without the seed."""
        what = f"{self.suite.name}.{self.test}" if self.test else self.suite.name
        return f"make SIM=verilator TEST={what} CONFIG={self.config}"

    def run(self, kind: BoardKind, seed: int | None, *, quiet: bool = True) -> RunResult:
        """Run it to the end. Raises as `echo_sim.run.run`, and as `board_of`."""
        design, simulator = board_of(self.config, kind, quiet=quiet)
        gates = kind == "netlist"
        return run(
            design,
            self.suite.module,
            simulator,
            name=f"{self.name}-netlist" if gates else self.name,
            replay=f"{self.replay} KIND=netlist" if gates else self.replay,
            env={"ECHO_NPU_CONFIG": self.config, "ECHO_NPU_STALLS": "1" if self.stalls else "0"},
            seed=seed,
            # cocotb appends the parameters to the name of a parametrised test.
            test_filter=rf"\.{self.test}(/.*)?$" if self.test else None,
            quiet=quiet,
        )


def board_of(config: str, kind: BoardKind, *, quiet: bool = False) -> tuple[Design | str, Kind]:
    """Return what to build for a kind of board, and as which kind of simulator.

    Raises: for a netlist, as `netlist_design`.
    """
    return (netlist_design(config, quiet=quiet), "fast") if kind == "netlist" else (config, kind)


def suites() -> dict[str, Suite]:
    """Return all suites by name, in the order in which they run."""
    found = {}
    for folder in SUITE_FOLDERS:
        for path in sorted((ROOT / folder).glob("test_*.py")):
            name = path.stem.removeprefix("test_")
            found[name] = Suite(name, f"{folder.replace('/', '.')}.{path.stem}", path)
    return found


def suite_of(path: Path) -> Suite:
    """Return the suite in the file `path`. Raise UsageError if it is none."""
    for suite in suites().values():
        if suite.path == path:
            return suite
    raise UsageError(f"{path} is not one of the suites in {', '.join(SUITE_FOLDERS)}")


def select(test: str | None, config: str) -> list[Job]:
    """Return the jobs that TEST and CONFIG name.

    Raises UsageError or ConfigError, listing the names that exist.
    """
    configs = small_memory_config_names() if config == "all" else [absolute(config)]
    for each in configs:
        if load_config(each).large_memory:
            raise UsageError(f"CONFIG={config}: the tests place their operands in memory below 4 GiB")
    available = suites()
    chosen, wanted = list(available.values()), None
    if test:
        name, _, wanted_text = test.partition(".")
        wanted = wanted_text or None
        if name not in available:
            raise UsageError(f"TEST={test}: no test {name!r}; those that exist: {', '.join(available)}")
        chosen = [available[name]]
        names = chosen[0].tests()
        if wanted and wanted not in names:
            raise UsageError(f"TEST={test}: {name} has no test {wanted!r}; it has {', '.join(names)}")
    return [
        Job(suite, config_name, stalls, wanted)
        for config_name in configs
        for suite in chosen
        for stalls in (False, True)
    ]


@dataclasses.dataclass(frozen=True)
class Finished:
    """Outcome of a job; without a `result`, `error` says why the simulator failed."""

    job: Job
    result: RunResult | None
    error: str = ""

    @property
    def passed(self) -> bool:
        return self.result is not None and self.result.passed


def execute(jobs: Sequence[Job], kind: BoardKind, seed: int, workers: int) -> Iterator[Finished]:
    """Run jobs on a pool of simulators and yield each outcome as it arrives."""

    def one(job: Job) -> Finished:
        try:
            return Finished(job, job.run(kind, seed))
        except SimulationError as error:
            return Finished(job, None, str(error))

    return in_pool(one, jobs, workers)


def _rate(cycles: int, wall_s: float) -> str:
    return f"{cycles / wall_s:,.0f}" if wall_s > 0 and cycles else "-"


def table(finished: Sequence[Finished], seed: int, *, each_test: bool) -> Table:
    """Return the summary table: a row per run, or per test if `each_test`."""
    out = Table(title="RTL regression (Verilator)", title_justify="left")
    out.add_column("test")
    out.add_column("config")
    out.add_column("memory")
    for name in ("tests", "cycles", "cycles/s", "seed"):
        out.add_column(name, justify="right")
    out.add_column("result")
    green, red = "[green]pass[/]", "[red]FAIL[/]"
    for item in finished:
        job, result = item.job, item.result
        memory = "stalls" if job.stalls else "steady"
        if result is None:
            out.add_row(job.suite.name, job.config, memory, "-", "-", "-", str(seed), "[red]ERROR[/]")
            continue
        good = f"{sum(outcome.passed for outcome in result.outcomes)}/{len(result.outcomes)}"
        rows = [(job.suite.name, good, result.passed, result.outcomes)]
        if each_test:
            rows = [(f"{job.suite.name}.{each.name}", "1", each.passed, [each]) for each in result.outcomes]
        for name, count, passed, outcomes in rows:
            cycles, wall_s = sum(o.cycles for o in outcomes), sum(o.wall_s for o in outcomes)
            verdict, rate = green if passed else red, _rate(cycles, wall_s)
            out.add_row(name, job.config, memory, count, f"{cycles:,}", rate, str(seed), verdict)
    return out


def campaign_result(finished: Sequence[Finished], seed: int, seconds: float) -> CampaignResult:
    """Convert the runs to a campaign result with an item per test. Figures: tests, cycles."""
    items = []
    for each in finished:
        if each.result is None:
            items.append(Item(each.job.name, "error", 0.0, each.error, f"{each.job.replay} SEED={seed}"))
            continue
        for outcome in each.result.outcomes:
            memory = "stalls" if each.job.stalls else "steady"
            status: Status = "pass" if outcome.passed else "error" if outcome.skipped else "fail"
            name = f"{each.job.suite.name}.{outcome.name} {each.job.config} {memory}"
            replay = "" if outcome.passed else each.result.replay
            items.append(Item(name, status, outcome.wall_s, outcome.message, replay))
    cycles = sum(outcome.cycles for each in finished if each.result for outcome in each.result.outcomes)
    return CampaignResult("rtl", seed, seconds, {"tests": len(items), "cycles": cycles}, items)


def play(test: str, config: str, kind: BoardKind, seed: int, jobs: int) -> CampaignResult:
    """Run what TEST and CONFIG name; print each run as it ends, then a table and the failures.

    Raises UsageError, ConfigError: no such test or configuration. BuildError, ToolMissingError: as `build`.
    """
    started = time.monotonic()
    console = Console(width=None if sys.stdout.isatty() else 120)
    chosen = select(test or None, config)
    for each in dict.fromkeys(job.config for job in chosen):
        build(*board_of(each, kind))
    if kind == "netlist":
        print(UNSEEN)
    finished = []
    for item in execute(chosen, kind, seed, jobs):
        finished.append(item)
        mark = "pass" if item.passed else "FAIL"
        console.print(f"{mark}  {item.job.name}", style="" if item.passed else "red", highlight=False)
    order = {job: index for index, job in enumerate(chosen)}
    finished.sort(key=lambda item: order[item.job])
    console.print(table(finished, seed, each_test=bool(test)))
    for item in finished:
        if not item.passed:
            text = item.error or (item.result.failures() if item.result else "")
            console.print(f"\n[red]{item.job.name}[/]")
            console.print(text, markup=False, highlight=False)
    for path in (item.result.waves for item in finished if item.result and item.result.waves):
        console.print(f"waves: {path.relative_to(ROOT)}", highlight=False)
    result = campaign_result(finished, seed, time.monotonic() - started)
    bad = sum(not item.passed for item in finished)
    verdict = (
        f"[red]{bad} of {len(finished)} runs failed[/]"
        if bad
        else f"[green]all {result.figures['tests']} tests passed[/]"
    )
    console.print(f"{verdict} in {result.seconds:.0f} s, seed {seed}", highlight=False)
    return result
