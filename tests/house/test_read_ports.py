"""Memories with many read ports become copies that hold the same words and read them alike."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scripts.synth.flow import elaborate_module
from scripts.synth.read_ports import with_copies
from scripts.synth.tools import SynthesisError, yosys

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
    copies = with_copies(design, most)
    found = memories(copies)
    assert [int(cell["parameters"]["RD_PORTS"], 2) for cell in found.values()] == ports
    assert len({cell["parameters"]["MEMID"] for cell in found.values()}) == len(ports)
    prove(design, copies, tmp_path)


@pytest.mark.parametrize("signal", ["RD_ADDR", "RD_EN", "RD_DATA", "WR_DATA"])
def test_wrong_copies_are_refuted(design: Mapping[str, Any], signal: str, tmp_path: Path) -> None:
    """Two bits of a signal of one copy are exchanged."""
    copies = json.loads(json.dumps(with_copies(design, 4)))
    bits = next(iter(memories(copies).values()))["connections"][signal]
    wrong = [*bits[:1], bits[3], bits[2], bits[1], *bits[4:]]
    assert wrong != bits
    bits[:] = wrong
    with pytest.raises(SynthesisError):
        prove(design, copies, tmp_path)


@pytest.mark.parametrize("most", [PORTS, PORTS + 1])
def test_few_ports_stay(design: Mapping[str, Any], most: int) -> None:
    assert with_copies(design, most) is design


def test_wide_ports_are_refused(design: Mapping[str, Any]) -> None:
    wide = json.loads(json.dumps(design))
    next(iter(memories(wide).values()))["parameters"]["RD_WIDE_CONTINUATION"] = "00010"
    with pytest.raises(SynthesisError, match="words_q: wide read ports are not copied"):
        with_copies(wide, 2)
