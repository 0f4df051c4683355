"""Places of a source that may be changed, and places that may not."""

from pathlib import Path

import pytest

from echo_sim.places import RTL
from tb.mutation.syntax import RtlSource, SourceError, constant_functions, one_line
from tests.refusals import refuses

TEXT = """
`define PAIR(A, B) (A && B)
module m #(parameter int unsigned Width = 8 + 1) (
    input  logic clk_i,
    input  logic rst_ni,
    input  logic [Width-1:0] a_i,
    output logic [Width-1:0] b_o
);
  localparam int unsigned Twice = 2 * Width;
  logic [Width-1:0] c_q;
  logic unused;
  assign unused = a_i[0] && a_i[1];
  assign b_o = `PAIR(a_i, c_q);
  other #(.Depth(4 + 4)) u_other (.data_i(a_i + 1'b1), .data_o(c_q[3]));
  always_ff @(posedge clk_i) begin
    if (!rst_ni) c_q <= '0;
    else begin
      for (int unsigned i = 0; i < Width; i++) c_q[i] <= a_i[i] ^ b_o[i];
      case (a_i)
        8'd3: begin c_q[2] <= 1'b1; end
        default: c_q <= Width'(a_i - 8'd2);
      endcase
    end
  end
endmodule
"""


@pytest.fixture
def source(tmp_path: Path) -> RtlSource:
    return RtlSource(tmp_path / "m.sv", TEXT)


def texts(source: RtlSource, kind: str) -> list[str]:
    return [one_line(source.text[site.start : site.end]) for site in source.sites() if site.kind == kind]


def test_expressions_that_are_evaluated_in_simulation(source: RtlSource) -> None:
    found = texts(source, "expression")
    for wanted in ("a_i + 1'b1", "!rst_ni", "'0", "a_i[i] ^ b_o[i]", "1'b1", "a_i - 8'd2", "8'd2"):
        assert wanted in found


def test_no_constants_of_elaboration_targets_and_macros(source: RtlSource) -> None:
    found = texts(source, "expression")
    unwanted = ("8 + 1", "2 * Width", "4 + 4", "8'd3", "i < Width", "c_q[3]", "c_q[2]", "a_i[0] && a_i[1]")
    assert not set(unwanted) & set(found)
    assert not [text for text in found if "`" in text]


def test_statements(source: RtlSource) -> None:
    found = texts(source, "statement")
    assert "c_q <= '0;" in found
    assert "begin c_q[2] <= 1'b1; end" in found  # the arm
    assert not [text for text in found if text.startswith("assign")]


def test_reset_is_known(source: RtlSource) -> None:
    by_text = {one_line(source.text[site.start : site.end]): site for site in source.sites()}
    assert by_text["'0"].reset
    assert not by_text["8'd2"].reset
    assert by_text["!rst_ni"].context == "if (!rst_ni)"


def test_functions_that_compute_constants_stay_whole() -> None:
    package = RtlSource(RTL / "npu_pkg.sv")
    assert {"splits_blocks", "block_taps"} <= constant_functions()
    assert "type_shift" not in constant_functions()
    found = texts(package, "expression")
    assert "half ? TypeFp16 : kind" in found  # of a function that the engines call
    assert not [text for text in found if "BlockValues" in text or "splits_blocks" in text]


def test_what_is_no_systemverilog(tmp_path: Path) -> None:
    refuses(SourceError, "the parser finds errors", RtlSource, tmp_path / "m.sv", "module m; assign = ;")
    refuses(SourceError, "ASCII", RtlSource, tmp_path / "m.sv", "module m; // \u00b5s\nendmodule")
