"""Verdicts on changes from the files that a fork left."""

from pathlib import Path

from tb.mutation.dispatcher import Trial, TrialAnswer
from tb.mutation.worker import TrialVerdict, _verdict

TRIALS = (
    Trial("tests.commands.test_nop.test_nop", False, 100),
    Trial("tests.commands.test_add.test_sizes", True, 100),
    Trial("tests.commands.test_nop.test_nop", True, 100),
)
DISPATCH = '<testcase classname="tb.mutation.dispatcher" name="dispatch" time="0"/>'


def case(module: str, name: str, failure: str = "") -> str:
    inner = f'<failure type="AssertionError" message="{failure}"/>' if failure else ""
    return f'<testcase classname="tests.commands.{module}" name="{name}" time="0.5">{inner}</testcase>'


def left(folder: Path, *cases: str, log: str = "") -> Path:
    text = "".join([DISPATCH, *cases])
    if cases:
        (folder / "results.xml").write_text(f"<testsuites><testsuite>{text}</testsuite></testsuites>")
    (folder / "simulator.log").write_text(log)
    return folder


def test_all_passed(tmp_path: Path) -> None:
    nop = case("test_nop", "test_nop")
    verdict = _verdict(TRIALS, TrialAnswer(0, 1.0), left(tmp_path, nop, nop, case("test_add", "test_sizes")))
    assert verdict == TrialVerdict(None, "", 1.0, (0, 0, 0))
    assert not verdict.killed


def test_the_first_that_failed_although_results_are_sorted_by_suite(tmp_path: Path) -> None:
    passed, failed = case("test_nop", "test_nop"), case("test_nop", "test_nop", "stopped")
    folder = left(tmp_path, passed, failed, case("test_add", "test_sizes", "1 is not 2"))
    verdict = _verdict(TRIALS, TrialAnswer(0, 1.0), folder)
    assert (verdict.trial, verdict.how) == (TRIALS[1], "AssertionError: 1 is not 2")
    assert verdict.killed


LOG = """running tests.commands.test_nop.test_nop (1/4)
running tests.commands.test_add.test_sizes (2/4)
%Error: rtl/cells/sync_fifo.sv:42: Assertion failed: an element was pushed into a full queue
"""


def test_a_simulator_that_died(tmp_path: Path) -> None:
    verdict = _verdict(TRIALS, TrialAnswer(-6, 1.0), left(tmp_path, log=LOG))
    assert verdict.trial == TRIALS[1]
    assert verdict.how == "broken rule: an element was pushed into a full queue"


def test_a_failed_assertion_is_named_where_cocotb_saw_an_end(tmp_path: Path) -> None:
    ended = case("test_add", "test_sizes", "the simulation ended prematurely")
    verdict = _verdict(
        TRIALS, TrialAnswer(0, 1.0), left(tmp_path, case("test_nop", "test_nop"), ended, log=LOG)
    )
    assert (verdict.trial, verdict.how) == (TRIALS[1], "broken rule: an element was pushed into a full queue")


def test_one_that_did_not_end(tmp_path: Path) -> None:
    verdict = _verdict(TRIALS, TrialAnswer(None, 9.0), left(tmp_path, log=LOG.partition("%")[0]))
    assert (verdict.trial, verdict.how) == (TRIALS[1], "no end after 9 s")


def test_results_that_pass_are_not_enough(tmp_path: Path) -> None:
    nop = case("test_nop", "test_nop")
    verdict = _verdict(TRIALS, TrialAnswer(1, 1.0), left(tmp_path, nop, nop, case("test_add", "test_sizes")))
    assert verdict.killed
    assert verdict.how == "the simulator ended with 1"
