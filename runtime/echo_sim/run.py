"""Run cocotb tests in a simulator: `run` waits for their end, `launch` returns at once.

cocotb's own runner makes the commands. They are executed here, in their own process group, with a time-out.
"""

import dataclasses
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from echo_sim.build import COVERAGE_VARIABLE, Kind, as_asked, as_design, build
from echo_sim.claims import own_folder
from echo_sim.cocotb_commands import plan
from echo_sim.designs import Design
from echo_sim.numerals import choose_seed
from echo_sim.places import CHECKOUT, PACKAGE, SIM_BUILD, WAVES
from echo_sim.processes import ChildProcess

RUNS_VARIABLE = "ECHO_NPU_RUNS"


def _runs_folder() -> Path:
    asked = os.environ.get(RUNS_VARIABLE)
    if not asked:
        return own_folder(SIM_BUILD / "runs")
    folder = Path(asked).resolve()
    os.environ[RUNS_VARIABLE] = str(folder)  # simulators run in other directories
    return folder


RUNS = _runs_folder()
"""Absolute path of the folder for run directories and for files that campaigns give to their simulators.

It is sim_build/runs, or sim_build/runs-2 and so on if another process has claimed that. $ECHO_NPU_RUNS names
another folder."""

# Only these modules get pytest's messages for failed assertions. Rewriting every module, numpy included,
# would take most of a simulator's start.
REWRITTEN_MODULES = "test_*.py cocotb_*.py"

RUN_TIMEOUT_S = 1200.0


class SimulationError(RuntimeError):
    """A simulation that gave no usable result: it crashed, ran into its time-out, or ran no test at all."""


def coverage_file(run_directory: Path) -> Path:
    """Return where a simulator of the kind "coverage" writes what it reached."""
    folder = os.environ.get(COVERAGE_VARIABLE)
    if not folder:
        return run_directory / "coverage.dat"
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder).resolve() / f"{run_directory.name}-{os.getpid()}-{time.monotonic_ns()}.dat"


@dataclasses.dataclass(frozen=True)
class TestOutcome:
    """One cocotb test: what it did, and how fast. `cycles` assumes the 10 ns clock of the testbenches."""

    __test__ = False

    module: str
    name: str
    passed: bool
    skipped: bool
    message: str
    sim_time_ns: float
    wall_s: float

    @property
    def cycles(self) -> int:
        """Clock cycles simulated."""
        return round(self.sim_time_ns / 10)


@dataclasses.dataclass(frozen=True)
class RunResult:
    """Everything that one simulator run left behind."""

    outcomes: list[TestOutcome]
    seed: int
    log: Path
    waves: Path | None
    replay: str

    @property
    def passed(self) -> bool:
        """Whether every test passed."""
        return all(outcome.passed or outcome.skipped for outcome in self.outcomes)

    def failures(self) -> str:
        """Return a report of the failed tests, the seed and the command that replays them; empty when all
        passed."""
        failed = [outcome for outcome in self.outcomes if not (outcome.passed or outcome.skipped)]
        if not failed:
            return ""
        lines = [f"{outcome.module}.{outcome.name} failed: {outcome.message}" for outcome in failed]
        lines += self._broken_assertions()
        return "\n".join([*lines, f"seed {self.seed}; log: {self.log}", f"replay: {self.replay}"])

    def _broken_assertions(self) -> list[str]:
        """Return the messages of failed assertions in the log. The first of them ended the run."""
        if not self.log.is_file():
            return []
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return [line.strip() for line in file if "%Error" in line and "Assertion failed in" in line]


def wave_path(name: str) -> Path:
    """Return the VCD file of the test `name`."""
    return WAVES / f"{name}.vcd"


def launch(
    design: Design | str,
    kind: Kind = "fast",
    *,
    test_module: str | Sequence[str],
    name: str,
    env: Mapping[str, str] | None = None,
    seed: int = 1,
    test_filter: str | None = None,
    quiet: bool = False,
) -> ChildProcess:
    """Build if needed and start a simulator on cocotb tests in its own process group; return without waiting.

    `name` (unique among this process's runs at the same time) names the run's directory RUNS/<name>, which
    gets simulator.log and results.xml, and with kind "waves" the file waves/<name>.vcd. The simulator ends
    when this process does.

    Raises: as `build`.
    """
    kind = as_asked(kind)
    target = as_design(design)
    directory = build(target, kind, quiet=quiet)
    run_directory = RUNS / name
    run_directory.mkdir(parents=True, exist_ok=True)
    results = run_directory / "results.xml"
    # For coverage, bits start as zeros: a bit that only powers up as a one has not toggled.
    power_up = 2 if target.random_power_up and kind != "coverage" else 0
    arguments = [f"+verilator+rand+reset+{power_up}", f"+verilator+seed+{seed % 0x7FFFFFFF + 1}"]
    if kind == "waves":
        WAVES.mkdir(exist_ok=True)
        arguments = ["--trace-file", str(wave_path(name)), *arguments]
    if kind == "coverage":
        arguments.append(f"+verilator+coverage+file+{coverage_file(run_directory)}")
    planned = plan(
        {},
        "test",
        test_module=test_module,
        hdl_toplevel=target.top,
        hdl_toplevel_lang="verilog",
        test_args=arguments,
        build_dir=directory,
        test_dir=run_directory,
        results_xml=str(results),
        waves=kind == "waves",
        seed=seed,
        test_filter=test_filter,
    )
    (command,) = planned.commands
    repository = [] if CHECKOUT is None else [str(CHECKOUT)]
    search = [*repository, str(PACKAGE.parent), *planned.environment["PYTHONPATH"].split(os.pathsep)]
    environment = {
        **planned.environment,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(path for path in search if path)),
        "COCOTB_RANDOM_SEED": str(seed),
        "COCOTB_REWRITE_ASSERTION_FILES": REWRITTEN_MODULES,
        **(env or {}),
    }
    results.unlink(missing_ok=True)
    return ChildProcess(command, env=environment, cwd=run_directory, log=run_directory / "simulator.log")


def run(
    design: Design | str,
    test_module: str | Sequence[str],
    kind: Kind = "fast",
    *,
    name: str,
    replay: str,
    env: Mapping[str, str] | None = None,
    seed: int | None = None,
    test_filter: str | None = None,
    timeout: float = RUN_TIMEOUT_S,
    quiet: bool = False,
) -> RunResult:
    """Build if needed, run cocotb tests to the end and collect what they did.

    `replay` is the command, without the seed, that runs the same again; `timeout` is in seconds of wall time.

    Raises:
        SimulationError: a crash, a time-out (the whole process group is ended), or no test was run.

    Raises also as `build`.
    """
    chosen = choose_seed() if seed is None else seed
    child = launch(
        design,
        kind,
        test_module=test_module,
        name=name,
        env=env,
        seed=chosen,
        test_filter=test_filter,
        quiet=quiet,
    )
    again = f"SEED={chosen} {replay}" if not replay.startswith("make ") else f"{replay} SEED={chosen}"
    where = f"seed {chosen}; log: {child.log}\nreplay: {again}"
    with child:
        try:
            status = child.wait(timeout)
        except subprocess.TimeoutExpired:
            child.stop()
            raise SimulationError(
                f"{name} ran for more than {timeout:.0f} s and was stopped\n{where}"
            ) from None
    results = child.log.parent / "results.xml"
    outcomes = read_results(results) if results.exists() else []
    if not outcomes:
        what = f"ended with status {status} and ran no test"
        raise SimulationError(f"{name} {what}\n{child.log_tail()}\n{where}")
    if status != 0 and all(outcome.passed for outcome in outcomes):
        raise SimulationError(
            f"{name}: all tests passed but the simulator ended with {status}\n{child.log_tail()}\n{where}"
        )
    waves = wave_path(name) if kind == "waves" else None
    return RunResult(outcomes, chosen, child.log, waves, again)


def read_results(path: Path) -> list[TestOutcome]:
    """Return the tests in cocotb's JUnit file. SimulationError when it is not readable."""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise SimulationError(f"{path} is not a results file: {error}") from error
    outcomes = []
    for case in root.iter("testcase"):
        bad = [*case.findall("failure"), *case.findall("error")]
        message = f"{bad[0].get('type')}: {bad[0].get('message')}" if bad else ""
        facts = {item.get("name"): item.get("value") for item in case.iter("property")}
        skipped = case.find("skipped") is not None
        outcomes.append(
            TestOutcome(
                module=case.get("classname", ""),
                name=case.get("name", ""),
                passed=not bad and not skipped,
                skipped=skipped,
                message=message,
                sim_time_ns=float(facts.get("sim_time_duration") or 0),
                wall_s=float(case.get("time") or 0),
            )
        )
    return outcomes
