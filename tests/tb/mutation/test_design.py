"""Design mistakes: an example of each class, and changes that are no mistake."""

from pathlib import Path

import pytest

from tb.mutation import design
from tb.mutation.operators import CLASSES, mutants_of
from tb.mutation.schemata import Mutant, by_file, render
from tb.mutation.syntax import RtlSource
from tb.mutation.widths import widths_of
from tb.repository import ROOT

TEXT = """
module m (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        valid_i,
    input  logic        ready_i,
    input  logic [31:0] base_i,
    input  logic [31:0] stride_i,
    output logic        beat_o,
    output logic        hazard_o
);
  logic [15:0] rows_q, rows_d;
  logic [7:0] step_q;
  logic [31:0] addr_q, batch0_q, batch1_q, table_q [4], src0 [2], src1 [2], wide0 [2], wide1;
  assign beat_o   = valid_i && ready_i;
  assign hazard_o = addr_q == base_i || addr_q == stride_i || step_q == 8'd1;
  assign rows_d   = beat_o ? rows_q : (hazard_o ? 16'd3 : 16'd4);
  reader u_reader (.table_i(src0), .wide_i(wide0), .first_i(src0[0]));
  walker u_walker (.batch0_i(batch0_q), .batch1_i(batch1_q));
  always_comb begin
    automatic logic [15:0] inner;
    inner = rows_q;
  end
  always_ff @(posedge clk_i) begin
    if (!rst_ni) rows_q <= '0;
    else if (valid_i) rows_q <= rows_d;
    addr_q <= base_i + stride_i;
    if (step_q == 8'd1) batch0_q <= base_i;
    else if (step_q == 8'd2) batch1_q <= base_i;
  end
endmodule
module reader (input logic [31:0] table_i [2], wide_i [2], first_i);
endmodule
module walker (input logic [31:0] batch0_i, batch1_i);
endmodule
"""


@pytest.fixture
def source(tmp_path: Path) -> RtlSource:
    return RtlSource(tmp_path / "m.sv", TEXT)


def of_class(source: RtlSource, name: str) -> list[Mutant]:
    return [mutant for mutant in mutants_of(source) if mutant.operator == name]


def changes(source: RtlSource, name: str, context: str) -> set[str]:
    """Return the changed texts of the places in a context."""
    return {mutant.mutated for mutant in of_class(source, name) if mutant.context.startswith(context)}


def test_all_classes_are_documented(source: RtlSource) -> None:
    for name in design.CLASSES:
        assert of_class(source, name), name
        assert f"| {name} |" in (design.__doc__ or "")
        assert name in CLASSES
    docs = (ROOT / "docs" / "verification.md").read_text(encoding="utf-8")
    for name in CLASSES:
        assert name in docs, name


FIRST, SECOND, THIRD = "addr_q == base_i", "addr_q == stride_i", "step_q == 8'd1"


@pytest.mark.parametrize(
    ("operator", "context", "wanted"),
    [
        # A size is cut to fewer bits than it has.
        ("width", "addr_q <=", {"8'(base_i + stride_i)", "16'(base_i + stride_i)"}),
        ("width", "rows_q <= rows_d", {"8'(rows_d)"}),
        ("width", "assign beat_o", set()),
        ("handshake", "assign beat_o", {"valid_i", "ready_i"}),
        ("term", "assign hazard_o", {f"{SECOND} || {THIRD}", f"{FIRST} || {THIRD}", f"{FIRST} || {SECOND}"}),
        ("extent", "addr_q <=", {"base_i", "stride_i"}),
        (
            "priority",
            "if (!rst_ni)",
            {
                "if (valid_i) begin rows_q <= rows_d; end else if (!rst_ni) begin rows_q <= '0; end",
                "if ((!rst_ni) || (valid_i)) begin rows_q <= '0; end",
            },
        ),
        # The order of two mutually exclusive conditions does not matter.
        ("priority", f"if ({THIRD})", {f"if (({THIRD}) || (step_q == 8'd2)) begin batch0_q <= base_i; end"}),
        (
            "priority",
            "assign rows_d",
            {
                "(hazard_o) ? (16'd3) : ((beat_o) ? (rows_q) : (16'd4))",
                "((beat_o) || (hazard_o)) ? (rows_q) : (16'd4)",
            },
        ),
        # Nothing replaces a whole array.
        ("sibling", ".table_i", set()),
        ("sibling", ".wide_i", set()),
        ("sibling", ".first_i", {"src1[0]"}),
    ],
)
def test_what_becomes_of_a_place(source: RtlSource, operator: str, context: str, wanted: set[str]) -> None:
    assert changes(source, operator, context) == wanted


def test_an_operand_of_a_comparison_is_cut(source: RtlSource) -> None:
    found = changes(source, "width", "assign hazard_o")
    assert {"8'(addr_q)", "16'(addr_q)", "8'(base_i)", "16'(stride_i)"} <= found
    assert not [text for text in found if "step_q" in text]


def test_widths_are_those_of_the_elaborated_design(source: RtlSource) -> None:
    widths = widths_of(source)
    at = TEXT.index("base_i + stride_i")
    assert widths[at, at + len("base_i + stride_i")] == 32
    assert widths[at, at + len("base_i")] == 32


def test_a_register_in_place_of_its_next_value(source: RtlSource) -> None:
    assert "rows_q" in changes(source, "stale", "rows_q <= rows_d")


def test_a_signal_of_the_clock_before_brings_its_register(source: RtlSource) -> None:
    late = [mutant for mutant in of_class(source, "stale") if mutant.mutated == "late_ready_i"]
    assert [edit.kind for edit in late[0].edits] == ["expression", "insertion"]
    twice = {number: mutant.edits for number, mutant in enumerate((late[0], late[0]), 1)}
    text = render(TEXT, by_file(twice)["m.sv"])
    assert text.count("type(ready_i) late_ready_i;") == 1
    assert text.index("type(ready_i) late_ready_i;") < text.index("assign beat_o")
    assert "always_ff @(posedge clk_i) late_ready_i <= ready_i;" in text


def test_nothing_is_delayed_that_has_no_clock_of_its_own(source: RtlSource) -> None:
    found = {mutant.mutated for mutant in of_class(source, "stale")}
    assert not found & {"late_clk_i", "late_rst_ni", "late_inner", "late_table_q"}


def test_inner_and_outer_batch_are_mistaken_and_exchanged(source: RtlSource) -> None:
    assert changes(source, "sibling", ".batch0_i") == {"batch1_q"}
    (pair,) = of_class(source, "exchange")
    assert [edit.mutated for edit in pair.edits] == ["batch1_q", "batch0_q"]
    text = render(TEXT, by_file({7: pair.edits})["m.sv"])
    assert ".batch0_i((mutation_pkg::selected == 32'd7 ? (batch1_q) : (batch0_q)))" in text
    assert ".batch1_i((mutation_pkg::selected == 32'd7 ? (batch0_q) : (batch1_q)))" in text
