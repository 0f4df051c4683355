"""Which testbenches judge a change, in which order, and how long they may take."""

import functools
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from echo_sim.run import SimulationError
from tb.mutation import block_trials, changed
from tb.mutation.block_trials import BlockTrials, UnchangedFailsError, blocks_of
from tb.mutation.schemata import SELECTOR_VARIABLE
from tests.refusals import refuses

OWN, OTHER = "tests/rtl/own", "tests/rtl/other"


class PytestStandIn:
    """Stands for pytest: `status` of each testbench, for each change."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, int]] = []
        self.status: dict[tuple[str, int], int] = {}
        self.hangs: set[tuple[str, int]] = set()
        self.said = "FAILED test_it - wrong"

    def __call__(
        self, arguments: Sequence[str], log: Path, limit: float, environment: Mapping[str, str]
    ) -> int:
        run = arguments[-1], int(environment[SELECTOR_VARIABLE])
        self.runs.append(run)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"{self.said}\n", encoding="utf-8")
        if run in self.hangs:
            raise subprocess.TimeoutExpired(list(arguments), limit)
        return self.status.get(run, 0)


@pytest.fixture
def testbenches(monkeypatch: pytest.MonkeyPatch) -> PytestStandIn:
    made = PytestStandIn()
    monkeypatch.setattr(changed, "run_python", made)
    monkeypatch.setattr(block_trials, "blocks_of", lambda file: [OWN, OTHER])
    return made


def test_a_modules_own_testbench_is_first() -> None:
    assert blocks_of("dma_read.sv")[0] == "tests/rtl/memory/dma_read"
    assert len(blocks_of("sync_fifo.sv")) > 1
    assert blocks_of("sync_fifo.sv")[0] == "tests/rtl/cells/sync_fifo"
    assert blocks_of("nothing.sv") == []


def test_the_own_testbench_and_the_larger_ones_are_tried_apart(
    testbenches: PytestStandIn, tmp_path: Path
) -> None:
    testbenches.status[OWN, 3] = testbenches.status[OTHER, 4] = 1
    trials = BlockTrials(tmp_path, 1, "a")
    assert trials.find("own.sv", 3, own=True) == (OWN, "FAILED test_it - wrong")
    assert trials.find("own.sv", 4, own=True) == ("", "")
    assert testbenches.runs == [(OWN, 0), (OWN, 3), (OWN, 4)]
    assert trials.find("own.sv", 3, own=False) == ("", "")
    assert trials.find("own.sv", 4, own=False) == (OTHER, "FAILED test_it - wrong")
    assert trials.find("a_package.sv", 4, own=True) == ("", "")
    assert testbenches.runs[3:] == [(OTHER, 0), (OTHER, 3), (OTHER, 4)]


def test_the_unchanged_rtl_runs_once_for_all_users(testbenches: PytestStandIn, tmp_path: Path) -> None:
    for name in "ab":
        BlockTrials(tmp_path, 1, name).find("own.sv", 1, own=True)
    assert testbenches.runs.count((OWN, 0)) == 1
    BlockTrials(tmp_path, 2, "a").find("own.sv", 1, own=True)
    assert testbenches.runs.count((OWN, 0)) == 2


@pytest.mark.parametrize(
    ("said", "how"),
    [
        ("ERROR test_it - in a fixture", "ERROR test_it - in a fixture"),
        ("", "it fails"),
        (
            "E [4] %Error: x.sv:3: Assertion failed in tb.u.Holds: it changed\nFAILED it",
            "broken rule: it changed",
        ),
    ],
)
def test_a_failure_is_one_whatever_pytest_says(
    testbenches: PytestStandIn, tmp_path: Path, said: str, how: str
) -> None:
    testbenches.status[OWN, 3] = 1
    testbenches.said = said
    assert BlockTrials(tmp_path, 1, "a").find("own.sv", 3, own=True) == (OWN, how)


def test_only_what_fails_must_pass_without_the_change(testbenches: PytestStandIn, tmp_path: Path) -> None:
    testbenches.status[OWN, 3] = testbenches.status[OWN, 4] = 1
    trials = BlockTrials(tmp_path, 1, "a", measured=False)
    assert trials.find("own.sv", 2, own=True) == ("", "")
    for number in (3, 4):
        assert trials.find("own.sv", number, own=True) == (OWN, "FAILED test_it - wrong")
    testbenches.hangs.add((OWN, 5))
    tests, how = trials.find("own.sv", 5, own=True)
    assert (tests, how) == (OWN, "it hangs: no end after 900 s")
    assert testbenches.runs == [(OWN, 2), (OWN, 3), ("test_it", 0), (OWN, 4), (OWN, 5), (OWN, 0)]


def test_what_fails_without_the_change_too_finds_nothing(testbenches: PytestStandIn, tmp_path: Path) -> None:
    testbenches.status[OWN, 3] = testbenches.status["test_it", 0] = 1
    find = functools.partial(BlockTrials(tmp_path, 1, "a", measured=False).find, own=True)
    refuses(UnchangedFailsError, "test_it fails without a change: FAILED test_it - wrong", find, "own.sv", 3)


def test_a_hang_is_found(testbenches: PytestStandIn, tmp_path: Path) -> None:
    testbenches.hangs.add((OTHER, 5))
    tests, how = BlockTrials(tmp_path, 1, "a").find("own.sv", 5, own=False)
    assert tests == OTHER
    assert how.startswith("it hangs: no end after 60 s")


@pytest.mark.parametrize(
    ("run", "status", "error", "message"),
    [
        ((OTHER, 0), 1, UnchangedFailsError, f"{OTHER} fails without a change: FAILED test_it - wrong"),
        ((OWN, 7), 4, SimulationError, f"{OWN} does not run with change 7"),
    ],
)
def test_testbenches_must_work(
    testbenches: PytestStandIn,
    tmp_path: Path,
    run: tuple[str, int],
    status: int,
    error: type[Exception],
    message: str,
) -> None:
    testbenches.status[run] = status
    find = functools.partial(BlockTrials(tmp_path, 1, "a").find, own=run[0] == OWN)
    refuses(error, message, find, "own.sv", 7)
