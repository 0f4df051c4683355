// The reset of a module on a bench: active from power-up to the first clock edge at which rst_ni is low.
//
// A bench's inputs start with random values, rst_ni among them, and a random clock may start with an edge. The rules
// of a module hold outside reset, so it must not see that edge.
module power_up_reset (
    input  logic clk_i,
    input  logic rst_ni,
    output logic rst_no
);
  logic awake_q;
  initial awake_q = 1'b0;
  always_ff @(posedge clk_i) if (!rst_ni) awake_q <= 1'b1;

  assign rst_no = rst_ni && awake_q;
endmodule
