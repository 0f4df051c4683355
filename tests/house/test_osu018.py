"""The target osu018 on a small library: registers and gates are mapped, sized, added up and timed."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from scripts.synth import __main__ as command
from scripts.synth import flow
from scripts.synth.flow import TARGETS, elaborate_module, map_block
from scripts.synth.liberty import CLOCK_TRANSITION
from scripts.synth.timing import OUTPUT_LOADS
from scripts.synth.tools import SynthesisError
from tests.house.tiny_library import CELLS, SETUP, liberty

BITS = 24
SOURCE = f"""
module counted (
    input  logic clk_i,
    input  logic [3:0] a_i, b_i,
    input  logic [{BITS - 1}:0] data_i,
    output logic [4:0] sum_o,
    output logic [{BITS - 1}:0] word_q
);
  logic [3:0] a_q, b_q;
  assign sum_o = a_q + b_q;
  always_ff @(posedge clk_i) begin
    a_q <= a_i;
    b_q <= b_i ^ a_q;
    if (a_q[0] & b_q[1]) word_q <= data_i;  // a net with a load that a small gate does not drive well
  end
endmodule
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the sources and the library; nothing of an earlier run is taken again."""
    made = tmp_path_factory.mktemp("osu018")
    (made / "rtl").mkdir()
    (made / "rtl" / "counted.sv").write_text(SOURCE, encoding="utf-8")
    (made / "rtl" / "all.f").write_text("counted.sv\n", encoding="utf-8")
    (made / "tiny.lib").write_text(liberty(), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "WORK", made / "work")
        yield made


@pytest.fixture(scope="module")
def row(folder: Path) -> Mapping[str, Any]:
    """What the command reports of the module."""
    words = ["--files", str(folder / "rtl" / "all.f"), "--module", "counted", "--target", "osu018"]
    files = ["--liberty", str(folder / "tiny.lib"), "--json", str(folder / "r.json")]
    assert command.main([*words, *files, "--html", str(folder / "r.html"), "--jobs", "1"]) == 0
    (found,) = json.loads((folder / "r.json").read_text(encoding="utf-8"))["counted"]
    result: Mapping[str, Any] = found["targets"]["osu018"]
    return result


@pytest.fixture(scope="module")
def netlist(folder: Path, row: object) -> Mapping[str, Any]:
    """What the module was mapped to: there is no time, so it is taken again."""
    (block,) = elaborate_module("counted", {}, folder / "rtl" / "all.f").values()
    return map_block(block, TARGETS["osu018"], folder / "tiny.lib", 0)


def test_all_becomes_cells_of_the_library(netlist: Mapping[str, Any]) -> None:
    kinds = Counter(cell["type"] for cell in netlist["cells"].values())
    assert kinds.keys() <= CELLS.keys()
    assert kinds["DFFPOSX1"] == 2 * 4 + BITS
    assert kinds["XOR2X1"] + kinds["NAND2X1"] + kinds["NOR2X1"] > 10


def test_gates_have_the_size_of_their_load(netlist: Mapping[str, Any]) -> None:
    """What drives the enables of a word is large, or buffers of it; most of the others are neither."""
    kinds = Counter(cell["type"] for cell in netlist["cells"].values())
    assert kinds["INVX8"] + kinds["NAND2X4"] > 0
    assert kinds["BUFX2"] > 0
    assert kinds["INVX1"] + kinds["NAND2X1"] > kinds["INVX8"] + kinds["NAND2X4"]


def test_the_area_is_the_sum_of_the_cells(netlist: Mapping[str, Any], row: Mapping[str, Any]) -> None:
    cells = netlist["cells"].values()
    assert row["cells"] == len(cells)
    assert row["area_um2"] == sum(CELLS[cell["type"]].area for cell in cells)


def test_the_longest_path_is_that_of_all_paths(netlist: Mapping[str, Any], row: Mapping[str, Any]) -> None:
    """Each path is walked from its end to its begin, and its delays are added on the way back."""
    ports, cells = netlist["ports"], netlist["cells"]
    loads: defaultdict[int | str, float] = defaultdict(float)
    ends: list[tuple[int, float]] = []
    drivers: dict[int, Mapping[str, Any]] = {}
    for instance in cells.values():
        cell, nets = CELLS[instance["type"]], instance["connections"]
        for pin, load in cell.pins.items():
            loads[nets[pin][0]] += load
        drivers[nets[cell.output][0]] = instance
        if not cell.function:
            ends.append((nets["D"][0], SETUP))
    for port in ports.values():
        if port["direction"] == "output":
            for net in port["bits"]:
                loads[net] += OUTPUT_LOADS * CELLS["INVX1"].pins["A"]
                ends.append((net, 0.0))

    def arrivals(net: int, edge: int) -> Iterator[tuple[float, float]]:
        """Yield the time and the transition of each path that lets a net rise (0) or fall (1)."""
        if net not in drivers:
            yield 0.0, CLOCK_TRANSITION
            return
        cell, nets = CELLS[drivers[net]["type"]], drivers[net]["connections"]
        transition = cell.transition(edge, loads[net])
        if not cell.function:
            yield cell.time(edge, loads[net], CLOCK_TRANSITION), transition
            return
        for pin in cell.pins:
            for cause in cell.causes(edge):
                for time, given in arrivals(nets[pin][0], cause):
                    yield time + cell.time(edge, loads[net], given), transition

    longest = max(time + setup for net, setup in ends for edge in (0, 1) for time, _ in arrivals(net, edge))
    assert row["longest_path"]["time"] == round(longest, 3)


def test_a_netlist_belongs_to_its_library(folder: Path, netlist: Mapping[str, Any]) -> None:
    """With another library what was mapped is not taken again."""
    (block,) = elaborate_module("counted", {}, folder / "rtl" / "all.f").values()
    other = folder / "other.lib"
    other.write_text(liberty().replace("area : 16", "area : 17"), encoding="utf-8")
    with pytest.raises(SynthesisError, match="not mapped before"):
        map_block(block, TARGETS["osu018"], other, 0)
