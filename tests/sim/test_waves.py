"""WAVES=1 writes a VCD named after the test, which fits the saved view."""

import re
from collections import Counter
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


def pulses(path: Path, *wanted: str) -> list[int]:
    """How often each of these signals of one bit rises in a VCD file."""
    text = path.read_text(encoding="ascii")
    head, _, changes = text.partition("$enddefinitions")
    scopes: list[str] = []
    codes = {}
    for words in map(str.split, head.splitlines()):
        if words[:1] == ["$scope"]:
            scopes.append(words[2])
        elif words[:1] == ["$upscope"]:
            scopes.pop()
        elif words[:1] == ["$var"]:
            codes[".".join([*scopes, words[4]])] = words[3]
    lines = Counter(changes.splitlines())
    return [lines[f"1{codes[name]}"] for name in wanted]


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
    # No product runs in this suite, so the matrix engine's clock rests; its registers are reset all the same.
    clock, gated = pulses(result.waves, "npu_tb.clk", "npu_tb.dut.matrix_clk")
    assert 0 < gated < clock / 10
