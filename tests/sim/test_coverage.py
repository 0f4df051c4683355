"""The simulator of the kind "coverage" builds, runs the same tests, and writes what was reached."""

from __future__ import annotations

import pytest

from tb.regression import select


@pytest.mark.sim
def test_coverage_is_written() -> None:
    """Line and toggle points of the command processor, some reached and some not by a few NOPs."""
    result = select("nop", "small")[0].run("coverage", seed=1)
    assert result.passed, result.failures()
    points = (result.log.parent / "coverage.dat").read_text(encoding="utf-8", errors="replace").splitlines()
    own = [line for line in points if line.startswith("C ") and "command_processor.sv" in line]
    assert any("v_line" in line for line in own)
    assert any("v_toggle" in line for line in own)
    reached = [int(line.rsplit(" ", 1)[1]) > 0 for line in own]
    assert any(reached)
    assert not all(reached)
