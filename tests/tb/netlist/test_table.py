"""Netlists that the table of gates cannot hold are refused with their reason."""

from pathlib import Path
from typing import Any

import pytest

from echo_sim.build import BuildError
from tb.netlist.table import write_table
from tests.tb.netlist.modules import cell, memory, module

GATE = "clock_gate"
BOX = module({"clk_i": [2], "enable_i": [3], "test_enable_i": [4]}, {"clk_o": [5]})


def store(**changes: str) -> dict[str, Any]:
    """Return a memory of one bit with two ports of each kind, some of whose parameters are others."""
    made = memory(2, 1, [([3], [4])] * 2, [(2, [3], [3], [3])] * 2)
    assert changes.keys() <= made["parameters"].keys()
    made["parameters"] |= changes
    return made


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (cell("$_DFF_N_", C=2, D=3, Q=4), r"top has a cell \$_DFF_N_, which is no gate"),
        (cell("$_DLATCH_P_", E=3, D=3, Q=4), r"\$_DLATCH_P_"),
        (cell("$_DFF_P_", C=3, D=3, Q=4), "1 clocks of registers come from no clock gate"),
        (cell(GATE, clk_i=3, enable_i=3, test_enable_i=3, clk_o=4), "1 clock gates have a clock that comes"),
        (cell("$_NOT_", A=2, Y=4), "a clock is an input of a gate"),
        (cell("$_MUX_", A=3, B=3, S=2, Y=4), "a clock is an input of a gate"),
        (store(RD_CLK_ENABLE="01"), "a memory has registers of its own"),
        (store(RD_CLK_ENABLE="10"), "a memory has registers of its own"),
        (store(OFFSET="1"), "does not begin at 0"),
        (store(WR_CLK_ENABLE="01"), "not written at the rising edge"),
        (store(WR_CLK_POLARITY="10"), "not written at the rising edge"),
    ],
)
def test_what_the_table_does_not_hold(tmp_path: Path, made: dict[str, Any], words: str) -> None:
    modules = {"top": module({"clk": [2], "i": [3]}, {"o": [4]}, made), GATE: BOX}
    with pytest.raises(BuildError, match=words):
        write_table(modules, "top", GATE, tmp_path / "table")
    assert not (tmp_path / "table").exists()


def test_a_port_of_both_directions_is_refused(tmp_path: Path) -> None:
    top = module({"clk": [2]}, {})
    top["ports"]["pad"] = {"direction": "inout", "bits": [3]}
    with pytest.raises(BuildError, match="top has a port of direction inout"):
        write_table({"top": top}, "top", GATE, tmp_path / "table")


def test_ports_that_a_parameter_pads_are_the_last_bits(tmp_path: Path) -> None:
    """Yosys writes a one-bit parameter with as many digits as it likes."""
    made = store(RD_CLK_ENABLE="1100", WR_CLK_ENABLE="0011", WR_CLK_POLARITY="0011")
    write_table({"top": module({"clk": [2], "i": [3]}, {"o": [4]}, made)}, "top", GATE, tmp_path / "table")
    assert (tmp_path / "table").stat().st_size > 0
