"""Memories with many read ports become copies that hold the same words and read them alike."""

import json
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scripts.synth import flow
from scripts.synth.blocks import Block
from scripts.synth.flow import COPIES, MOST_READ_PORTS, READ_PORTS, TARGETS, elaborate_module, map_block
from scripts.synth.tools import SynthesisError, yosys
from tb.repository import ROOT

PORTS = 5
MEMORY = """
module memory (
    input  logic            clk_i,
    input  logic [1:0]      write_i,
    input  logic [1:0][1:0] to_i,
    input  logic [1:0][1:0] data_i,
    input  logic [4:0][1:0] from_i,
    input  logic [4:0]      enable_i,
    output logic [4:0][1:0] read_o
);
  logic [1:0] words_q [4];
  always_ff @(posedge clk_i) begin
    if (write_i[0]) words_q[to_i[0]] <= data_i[0];
    if (write_i[1]) words_q[to_i[1]][0] <= data_i[1][0];
    if (enable_i[1]) read_o[1] <= words_q[from_i[1]];
    if (enable_i[3]) read_o[3] <= words_q[from_i[3]];
  end
  assign read_o[0] = words_q[from_i[0]];
  assign read_o[2] = words_q[from_i[2]];
  assign read_o[4] = words_q[from_i[4]];
endmodule
"""


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """A memory with five read ports, two of them clocked, and two write ports."""
    folder = tmp_path_factory.mktemp("memory")
    (folder / "memory.sv").write_text(MEMORY, encoding="utf-8")
    (folder / "memory.f").write_text("memory.sv\n", encoding="utf-8")
    (block,) = elaborate_module("memory", {}, folder / "memory.f").values()
    return block.netlist


def with_copies(design: Mapping[str, Any], most: int, folder: Path) -> dict[str, Any]:
    """Return a design whose memories have at most `most` read ports."""
    (folder / READ_PORTS).parent.mkdir(exist_ok=True)
    shutil.copy(ROOT / READ_PORTS, folder / READ_PORTS)
    (folder / "in.json").write_text(json.dumps(design), encoding="utf-8")
    command = COPIES.replace(f"={MOST_READ_PORTS}", f"={most}")
    yosys(["read_json in.json", command, "opt_clean", "write_json out.json"], folder, 120)
    copies: dict[str, Any] = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    return copies


def memories(design: Mapping[str, Any]) -> dict[str, Any]:
    cells = design["modules"]["block"]["cells"]
    return {name: cell for name, cell in cells.items() if cell["type"] == "$mem_v2"}


def prove(design: Mapping[str, Any], copies: Mapping[str, Any], folder: Path) -> None:
    """Prove that outputs are equal in the first four clocks, whatever comes in; SynthesisError if not."""
    script = []
    for name, each in (("gold", design), ("gate", copies)):
        (folder / f"{name}.json").write_text(json.dumps(each), encoding="utf-8")
        script += [f"read_json {name}.json", "memory_map", "opt_clean", f"rename block {name}"]
    script += ["miter -equiv -flatten -make_outputs gold gate miter", "hierarchy -top miter"]
    yosys([*script, "sat -verify -seq 4 -set-init-zero -prove trigger 0"], folder, 120)


@pytest.mark.parametrize(("most", "ports"), [(1, [1] * PORTS), (2, [2, 2, 1]), (3, [3, 2]), (4, [4, 1])])
def test_copies_read_the_same_words(
    design: Mapping[str, Any], most: int, ports: list[int], tmp_path: Path
) -> None:
    copies = with_copies(design, most, tmp_path)
    found = memories(copies)
    assert sorted(int(cell["parameters"]["RD_PORTS"], 2) for cell in found.values()) == sorted(ports)
    assert len({cell["parameters"]["MEMID"] for cell in found.values()}) == len(ports)
    prove(design, copies, tmp_path)


EACH_READ_PORT = {
    **dict.fromkeys(("RD_CLK_ENABLE", "RD_CLK_POLARITY", "RD_CE_OVER_SRST"), 1),
    **dict.fromkeys(("RD_TRANSPARENCY_MASK", "RD_COLLISION_X_MASK"), 2),
    **dict.fromkeys(("RD_ARST_VALUE", "RD_SRST_VALUE", "RD_INIT_VALUE"), 2),
}
"""Digits of a parameter for each read port: 1, one for each write port, or one for each bit of a word."""


def test_each_port_keeps_its_parameters(design: Mapping[str, Any], tmp_path: Path) -> None:
    """The last digits are those of the first port; the other parameters are those of the whole memory."""
    rng = random.Random(5)
    drawn = json.loads(json.dumps(design))
    (cell,) = memories(drawn).values()
    whole = cell["parameters"]
    for name, size in EACH_READ_PORT.items():
        assert len(whole[name]) == PORTS * size
        whole[name] = "".join(rng.choice("01") for _ in range(PORTS * size))
    found = memories(with_copies(drawn, 2, tmp_path))
    copies = sorted(found.values(), key=lambda each: str(each["parameters"]["MEMID"]))
    for number, copy in enumerate(copies):
        first, end = 2 * number, min(2 * number + 2, PORTS)
        for name, value in copy["parameters"].items():
            if name in EACH_READ_PORT:
                size = EACH_READ_PORT[name]
                assert value == whole[name][(PORTS - end) * size : (PORTS - first) * size], name
            elif name not in ("RD_PORTS", "MEMID", "RD_WIDE_CONTINUATION"):
                assert value == whole[name], name


@pytest.mark.parametrize("signal", ["RD_ADDR", "RD_EN", "RD_DATA", "WR_DATA"])
def test_wrong_copies_are_refuted(design: Mapping[str, Any], signal: str, tmp_path: Path) -> None:
    """Two bits of a signal of one copy are exchanged."""
    copies = with_copies(design, 4, tmp_path)
    cells = memories(copies).values()
    bits = next(each for each in cells if int(each["parameters"]["RD_PORTS"], 2) == 4)["connections"][signal]
    wrong = [*bits[:1], bits[3], bits[2], bits[1], *bits[4:]]
    assert wrong != bits
    bits[:] = wrong
    with pytest.raises(SynthesisError):
        prove(design, copies, tmp_path)


@pytest.mark.parametrize("most", [PORTS, PORTS + 1])
def test_few_ports_stay(design: Mapping[str, Any], most: int, tmp_path: Path) -> None:
    assert memories(with_copies(design, most, tmp_path)) == memories(design)


def test_wide_ports_stay(design: Mapping[str, Any], tmp_path: Path) -> None:
    wide = json.loads(json.dumps(design))
    next(iter(memories(wide).values()))["parameters"]["RD_WIDE_CONTINUATION"] = "00010"
    assert len(memories(with_copies(wide, 2, tmp_path))) == 1


def ram(ports: int, folder: Path) -> Block:
    """Return a block of one memory of 32 words of 8 bits with registered read ports."""
    text = f"""
module ram (input logic clk_i, write_i, input logic [4:0] to_i, input logic [7:0] data_i,
            input logic [{ports - 1}:0][4:0] from_i, output logic [{ports - 1}:0][7:0] read_o);
  logic [7:0] words_q [32];
  always_ff @(posedge clk_i) begin
    if (write_i) words_q[to_i] <= data_i;
    for (int i = 0; i < {ports}; i++) read_o[i] <= words_q[from_i[i]];
  end
endmodule
"""
    (folder / "ram.sv").write_text(text, encoding="utf-8")
    (folder / "ram.f").write_text("ram.sv\n", encoding="utf-8")
    (block,) = elaborate_module("ram", {}, folder / "ram.f").values()
    return block


@pytest.mark.parametrize("target", ["ecp5", "xilinx"])
def test_memories_with_many_read_ports_are_mapped(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without copies Yosys fails."""
    monkeypatch.setattr(flow, "WORK", tmp_path / "work")
    block = ram(16, tmp_path)
    assert map_block(block, TARGETS[target], None, 300)["cells"]
    monkeypatch.setattr(flow, "MOST_READ_PORTS", 99)
    with pytest.raises(SynthesisError):
        map_block(block, TARGETS[target], None, 300)


def test_another_text_of_the_copies_maps_anew(
    design: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only blocks with many read ports depend on it."""
    monkeypatch.setattr(flow, "WORK", tmp_path / "work")
    block = Block("key", "memory", ("memory",), {}, (), design)
    for most, stays in ((MOST_READ_PORTS, True), (PORTS - 1, False)):
        with monkeypatch.context() as patch:
            patch.setattr(flow, "MOST_READ_PORTS", most)
            map_block(block, TARGETS["ecp5"], None, 300)
            changed = tmp_path / str(most) / READ_PORTS
            changed.parent.mkdir(parents=True)
            changed.write_text((ROOT / READ_PORTS).read_text("utf-8") + "// changed\n", encoding="utf-8")
            patch.setattr(flow, "ROOT", tmp_path / str(most))
            if stays:
                map_block(block, TARGETS["ecp5"], None, 0)
            else:
                with pytest.raises(SynthesisError, match="not mapped before"):
                    map_block(block, TARGETS["ecp5"], None, 0)
