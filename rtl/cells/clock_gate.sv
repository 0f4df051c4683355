// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// An integrated clock gate: clk_o has the pulse of clk_i in every clock whose edge enable_i precedes.
//
// The latch holds the enable while the clock is high, so clk_o has no short pulse. A technology library's own cell
// replaces this module: its name, its ports and its test enable are the usual ones.
// There is no reset: each user enables its clock while its own reset is active.
module clock_gate (
    input  logic clk_i,
    input  logic enable_i,
    input  logic test_enable_i,  // clk_o is clk_i: for a scan test, and to compare with a design without gates
    output logic clk_o
);
  logic enable_q;

  always_latch begin
    if (!clk_i) enable_q = enable_i || test_enable_i;
  end

  assign clk_o = clk_i && enable_q;
endmodule
