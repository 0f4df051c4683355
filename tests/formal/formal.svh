// What every formal wrapper begins with. It expects the names `clk_i` and `rst_ni` in scope.
`ifndef FORMAL_SVH
`define FORMAL_SVH

// A run starts with a clock in reset, from any state at all; later resets come at any time.
`define FORMAL_RESET \
  logic started_q = 1'b0; \
  always_ff @(posedge clk_i) started_q <= 1'b1; \
  always_comb if (!started_q) assume (!rst_ni);

`endif
