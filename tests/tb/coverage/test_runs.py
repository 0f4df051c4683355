"""The runs of `make coverage`, and the sum of what they reach."""

from pathlib import Path

import pytest

from tb.coverage import runs
from tb.coverage.runs import BLOCKS, DEFAULT_SUITES, SMALL_SUITES, CoverageRun, CoverageRunner, planned
from tb.repository import ROOT
from tb.suites import suites

WRITES = (
    "import os, sys; sys.path.insert(0, '.'); from pathlib import Path; from tests.tb.coverage.data import *;"
)


def script(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> CoverageRun:
    """Return a run that executes some Python."""
    monkeypatch.setattr(CoverageRun, "command", property(lambda self: ["python3", "-c", *self.arguments]))
    return CoverageRun(name, (WRITES + text,))


def test_what_is_run_exists() -> None:
    """Suites and blocks by name, each run once."""
    assert set(SMALL_SUITES) | set(DEFAULT_SUITES) <= set(suites())
    assert all(len([*(ROOT / "tests" / "rtl").glob(f"*/{block}")]) == 1 for block in BLOCKS)
    names = [run.name for run in planned()]
    assert len(set(names)) == len(names)


def test_runs_add_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each run has its own folder and reports how many points are new; one without data has failed."""
    monkeypatch.setattr(runs, "RUNS", tmp_path)
    folder = "f = Path(os.environ['ECHO_NPU_COVERAGE']);"
    point = "write(f / 'x.dat', record('toggle', 'a:0->1', 20, 2), record('toggle', 'a:1->0', 20, {}))"
    made = [
        script("one", folder + point.format(0), monkeypatch),
        script("two", folder + point.format(1), monkeypatch),
        script("nothing", "pass", monkeypatch),
        script("broken", folder + point.format(1) + "; sys.exit(1)", monkeypatch),
    ]
    runner = CoverageRunner(seed=7, jobs=1)
    done = runner.execute(made, lambda _: None)
    assert [(each.passed, each.new) for each in done] == [(True, 1), (True, 1), (False, 0), (False, 0)]
    assert sorted(runner.counts.values()) == [2, 6]


def test_jobs() -> None:
    """There must be at least one job."""
    with pytest.raises(ValueError, match="JOBS=0"):
        CoverageRunner(1, 0)
