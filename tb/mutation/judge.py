"""Run the regression on changes of the RTL, likeliest tests first; a survivor has passed all of them."""

import contextlib
import dataclasses
import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from echo_sim.build import build
from echo_sim.designs import npu_design
from echo_sim.processes import stop_all
from echo_sim.run import SimulationError, run
from tb.changed_trees import verilator_args
from tb.mutation.block_trials import BlockTrials, UnchangedFailsError, alone, state_of_code
from tb.mutation.broken_rules import broken_rule
from tb.mutation.dispatcher import Trial
from tb.mutation.schemata import SELECTOR_VARIABLE
from tb.mutation.tree import CONFIG
from tb.mutation.trials import Experience, Key, load_cycles, save_cycles
from tb.mutation.worker import Worker
from tb.suites import SUITE_FOLDERS
from tb.whole_files import write_whole

QUICK_S = 10.0
"""Seconds of the first trials. All changes meet these before any change meets the others."""
HASTY = 0.25
"""Share of a proof's time that a change gets before larger testbenches; most proofs need no more."""
PROGRAMS = 20
"""pyuvm programs that a change must survive as well."""
WALL_S = 120.0
WALL_FACTOR = 20.0
REFERENCE_S = 3600.0
POWER_UPS = 3
POWER_UP_TESTS = tuple(
    f"tests.commands.test_{name}" for name in ("sync", "memcpy", "gather", "host_window", "overlap")
)
POWER_UP_TIMEOUT_S = 300.0
_WITHOUT_LIMIT = 10_000_000


@dataclasses.dataclass(frozen=True)
class Case:
    """A change to be judged.

    Attributes:
        number: of the change.
        file: name of the changed file.
        hints: parts of the names of tests that may find it.
        reset: whether it may show only after power-up.
    """

    number: int
    file: str
    hints: tuple[str, ...] = ()
    reset: bool = False


@dataclasses.dataclass(frozen=True)
class MutantFinding:
    """The test that found a change and its message; empty if none did."""

    killer: str
    how: str
    seconds: float

    @property
    def killed(self) -> bool:
        """Whether a test found it."""
        return bool(self.killer)


def short(trial: Trial) -> str:
    """Return a test's short name."""
    name = trial.test.removeprefix("tests.commands.test_").removeprefix("tests.programs.test_")
    return f"{name} (stalls)" if trial.stalls else name


class Judge:
    """Judge changes in the tree `folder`, with `jobs` simulators at a time.

    Args:
        name: unique among concurrent judges.
        say: gets a line for each change judged.
        among: parts of the names of the tests to run, besides the testbenches of modules; empty for all.
        config: the hardware configuration.
        measured: as in `BlockTrials`.

    Raises ConfigError: as `load_config`.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        jobs: int,
        name: str,
        say: Callable[[str], None] = lambda _: None,
        among: Sequence[str] = (),
        config: str = CONFIG,
        *,
        measured: bool = True,
    ) -> None:
        self._folder = folder
        self._seed = seed
        self._jobs = jobs
        self._name = name
        self._say = say
        self._among = sorted(set(among))
        self._config = config
        board = npu_design(config, folder)
        self._design = dataclasses.replace(
            board, verilator_args=(*board.verilator_args, *verilator_args(folder))
        )
        self._requests = folder / f"programs-{seed}.json"  # seeds may share the folder
        self._lock = threading.Lock()
        self._blocks = BlockTrials(folder, seed, name, measured=measured)

    def judge(
        self,
        cases: Sequence[Case],
        *,
        whole: bool = True,
        proven: Callable[[Case, float], bool] = lambda *_: False,
    ) -> dict[int, MutantFinding]:
        """Return the finding of each change by number.

        Args:
            whole: otherwise a change survives if the first trials and the testbenches of modules do not find
                it.
            proven: whether a change is proven to be none, in a share of the time for a proof. It is asked
                after the module's own testbench, with HASTY, and again before the whole regression, with 1:
                what comes next takes longest where there is nothing to be found.

        Raises:
            UnchangedFailsError: the RTL without a change fails.
            SimulationError: a simulator does not work.
            BuildError, ToolMissingError: as `build`.
        """
        directory = build(self._design, quiet=False)
        programs = [{"sequence": "mixed", "seed": self._seed + number} for number in range(PROGRAMS)]
        write_whole(self._requests, json.dumps(programs))
        experience = Experience(self._cycles(directory))
        findings: dict[int, MutantFinding] = {}

        def first(worker: Worker, case: Case) -> MutantFinding:
            trials = experience.order(case.file, case.hints)
            if self._among:
                trials = [trial for trial in trials if any(name in trial.test for name in case.hints)]
            else:
                trials, _ = experience.split(trials, QUICK_S)
            return self._simulate(worker, experience, case, trials)

        def others(worker: Worker, case: Case) -> MutantFinding:
            return self._simulate(worker, experience, case, experience.order(case.file))

        def own_block(_: None, case: Case) -> MutantFinding:
            return self._block(case, own=True)

        def other_blocks(_: None, case: Case) -> MutantFinding:
            return self._block(case, own=False)

        def power_up(_: None, case: Case) -> MutantFinding:
            return self._power_up(case)

        self._each(cases, first, findings, simulator=True)
        left = [case for case in cases if not findings[case.number].killed]
        self._each([case for case in left if case.reset], power_up, findings, simulator=False)
        left = [case for case in left if not findings[case.number].killed]
        self._each(left, own_block, findings, simulator=False)
        left = [case for case in left if not findings[case.number].killed]
        left = self._unproven(left, proven, HASTY)
        self._each(left, other_blocks, findings, simulator=False)
        left = [case for case in left if not findings[case.number].killed]
        left = self._unproven(left, proven, 1.0)
        if whole and not self._among:
            self._each(left, others, findings, simulator=True)
        return findings

    def _unproven(
        self, cases: Sequence[Case], proven: Callable[[Case, float], bool], share: float
    ) -> list[Case]:
        with ThreadPoolExecutor(self._jobs) as pool:
            none = list(pool.map(lambda case: proven(case, share), cases))
        return [case for case, equal in zip(cases, none, strict=True) if not equal]

    def _cycles(self, directory: Path) -> Mapping[Key, int]:
        """Return the cycles of every trial without a change; all must pass.

        They are measured once per simulator, seed and state of the tests.
        """
        facts = json.dumps(
            [
                self._seed,
                self._among,
                (directory / "fingerprint").read_text(),
                state_of_code(*SUITE_FOLDERS, "tb", "runtime"),
            ]
        )
        kept = directory / f"cycles-{hashlib.sha256(facts.encode()).hexdigest()[:16]}.json"
        with alone(directory / ".cycles.lock"):
            with contextlib.suppress(OSError):
                return load_cycles(kept)
            self._say("running the tests on the unchanged RTL ...")
            with ThreadPoolExecutor(self._jobs) as pool:
                parts = list(pool.map(self._reference, range(self._jobs)))
            cycles = {key: count for part in parts for key, count in part.items()}
            save_cycles(kept, cycles)
            return cycles

    def _reference(self, part: int) -> dict[Key, int]:
        """Measure every `jobs`-th trial, starting at number `part`."""
        with self._worker(f"reference{part}") as worker:
            keys = [
                (test, stalls)
                for test in worker.tests
                for stalls in (False, True)
                if not test.startswith("tb.mutation.")
                and not (stalls and test.startswith("tb.uvm."))
                and (not self._among or any(name in test for name in self._among))
            ][part :: self._jobs]
            verdict = worker.judge(0, [Trial(*key, _WITHOUT_LIMIT) for key in keys], REFERENCE_S)
        if verdict.trial is not None:
            raise UnchangedFailsError(f"{short(verdict.trial)} fails without a change: {verdict.how}")
        return dict(zip(keys, verdict.passed, strict=True))

    def _worker(self, part: str) -> Worker:
        return Worker(self._design, self._config, f"{self._name}-{part}", self._seed, self._requests)

    def _each(
        self,
        cases: Sequence[Case],
        what: Callable[..., MutantFinding],
        findings: dict[int, MutantFinding],
        *,
        simulator: bool,
    ) -> None:
        """Judge each case with `what` on a pool, adding up the seconds per case."""
        waiting = deque(cases)

        def serve(part: int) -> None:
            with contextlib.ExitStack() as stack:
                worker = stack.enter_context(self._worker(f"worker{part}")) if simulator else None
                while True:
                    with self._lock:
                        if not waiting:
                            return
                        # Neighbours have the same testbench, which runs once at a time.
                        case = waiting.pop() if part % 2 else waiting.popleft()
                    finding = what(worker, case)
                    with self._lock:
                        before = findings.get(case.number)
                        seconds = finding.seconds + (before.seconds if before else 0.0)
                        findings[case.number] = dataclasses.replace(finding, seconds=seconds)
                        mark = f"killed by {finding.killer}" if finding.killed else "not yet found"
                        self._say(f"{case.number:4} {case.file:24} {mark}")

        if not cases:
            return
        parts = min(self._jobs, len(cases))
        with ThreadPoolExecutor(parts) as pool:
            try:
                for future in [pool.submit(serve, part) for part in range(parts)]:
                    future.result()
            except BaseException:
                waiting.clear()
                pool.shutdown(wait=False, cancel_futures=True)
                stop_all()
                raise

    def _simulate(
        self, worker: Worker, experience: Experience, case: Case, trials: Sequence[Trial]
    ) -> MutantFinding:
        limit = WALL_S + WALL_FACTOR * experience.expected(trials)
        verdict = worker.judge(case.number, trials, limit)
        if verdict.trial is None:
            return MutantFinding("", "", verdict.seconds)
        with self._lock:
            experience.learn(case.file, (verdict.trial.test, verdict.trial.stalls))
        return MutantFinding(short(verdict.trial), verdict.how, verdict.seconds)

    def _power_up(self, case: Case) -> MutantFinding:
        """Run a few tests from random initial states; a fork starts from the state of a device that was
        reset."""
        started = time.monotonic()
        for number in range(POWER_UPS):
            try:
                result = run(
                    self._design,
                    POWER_UP_TESTS,
                    name=f"{self._name}-{case.number}",
                    replay="",
                    env={
                        "ECHO_NPU_CONFIG": self._config,
                        SELECTOR_VARIABLE: str(case.number),
                        "COCOTB_MAX_FAILURES": "1",
                    },
                    seed=self._seed + number,
                    timeout=POWER_UP_TIMEOUT_S,
                    quiet=True,
                )
                failed = [outcome for outcome in result.outcomes if not outcome.passed]
                how = ""
                if failed:
                    rule = broken_rule(result.log.read_text(encoding="utf-8", errors="replace"))
                    how = f"{failed[0].name}: {rule or failed[0].message}"
            except SimulationError as error:
                how = broken_rule(str(error)) or str(error).splitlines()[0]
            if how:
                return MutantFinding(f"power-up {number}", how, time.monotonic() - started)
        return MutantFinding("", "", time.monotonic() - started)

    def _block(self, case: Case, *, own: bool) -> MutantFinding:
        started = time.monotonic()
        tests, how = self._blocks.find(case.file, case.number, own=own)
        return MutantFinding(tests, how, time.monotonic() - started)
