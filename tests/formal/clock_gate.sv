// The clock gate of a proof, in place of rtl/cells/clock_gate.sv: always open. A proof has one clock, so it covers a block
// that never rests. Simulation compares a block that rests with one that does not (lockstep_checker).
module clock_gate (
    input  logic clk_i,
    input  logic enable_i,
    input  logic test_enable_i,
    output logic clk_o
);
  assign clk_o = clk_i;

  logic unused;
  assign unused = &{1'b0, enable_i, test_enable_i};
endmodule
