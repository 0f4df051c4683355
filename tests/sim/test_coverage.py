"""A simulator of the kind "coverage" runs the same tests, and the report shows what they reached."""

from pathlib import Path

import pytest

from echo_sim.build import COVERAGE_VARIABLE
from tb.cli import main
from tb.results import CampaignResult
from tb.suites import select


@pytest.mark.sim
def test_from_the_simulator_to_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NOPs reach the arms of the queue, but not those of the matrix engine's blocks."""
    monkeypatch.setenv(COVERAGE_VARIABLE, str(tmp_path / "data"))
    done = select("nop", "small")[0].run("fast", seed=1)
    assert done.passed, done.failures()
    out = ["--html", str(tmp_path / "html"), "--json", str(tmp_path / "x.json"), "--partial"]
    assert main(["coverage", str(tmp_path / "data"), *out]) == 0
    result = CampaignResult.load(tmp_path / "x.json")
    for kind in ("line", "branch", "toggle"):
        assert 0 < result.figures[f"{kind}_covered"] < result.figures[f"{kind}_points"]
    missed = {item.name: item.detail for item in result.items}
    assert ": if: " in missed["rtl/matrix/block_iterator.sv"]
    assert ": if: " not in missed.get("rtl/cells/sync_fifo.sv", "")
    page = (tmp_path / "html" / "sync_fifo.html").read_text(encoding="utf-8")
    assert "module sync_fifo" in page


@pytest.mark.sim
def test_a_run_of_its_kind_keeps_its_points() -> None:
    """A run of this kind without a common folder leaves its points beside its log."""
    done = select("nop", "small")[0].run("coverage", seed=1)
    assert (done.log.parent / "coverage.dat").exists()
