"""WAVES=1 writes a VCD named after the test, which fits the saved view."""

import re
from pathlib import Path

import pytest

from echo_sim.places import PACKAGE
from tb.repository import ROOT
from tb.suites import select

VIEW = PACKAGE / "waves" / "npu.gtkw"


def vcd_names(path: Path) -> set[str]:
    """Return the full names of all signals in a VCD file, with their ranges."""
    scopes: list[str] = []
    names = set()
    with open(path, encoding="ascii") as file:
        for line in file:
            words = line.split()
            if words[:1] == ["$scope"]:
                scopes.append(words[2])
            elif words[:1] == ["$upscope"]:
                scopes.pop()
            elif words[:1] == ["$var"]:
                names.add(".".join([*scopes, "".join(words[4:-1])]))
            elif words[:1] == ["$enddefinitions"]:
                break
    return names


@pytest.mark.sim
def test_waves_are_written_and_the_view_fits() -> None:
    job = select("sync", "small")[0]
    result = job.run("waves", seed=1)
    assert result.passed, result.failures()
    assert result.waves == ROOT / "waves" / "sync-small.vcd"
    names = vcd_names(result.waves)
    shown = [line for line in VIEW.read_text(encoding="ascii").splitlines() if re.match(r"npu_tb\.", line)]
    assert len(shown) > 40
    assert [name for name in shown if name not in names] == []
    # trace.vlt names the array's files by a pattern, which Verilator does not check.
    assert not [name for name in names if "u_array." in name]
