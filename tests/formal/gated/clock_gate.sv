// The clock gate of a proof that a block with gates does what the same block does without, in place of
// rtl/cells/clock_gate.sv. A step of such a proof is a clock, and a clock signal says whether its registers have it
// (clock_enable.v), so the latch is left out.
module clock_gate (
    input  logic clk_i,
    input  logic enable_i,
    input  logic test_enable_i,
    output logic clk_o
);
  assign clk_o = clk_i && (enable_i || test_enable_i);
endmodule
