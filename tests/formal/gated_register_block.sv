// register_block, whose registers rest, beside one whose registers never do: the host and the device see no difference.
`include "formal.svh"
`include "register_block.svh"

module gated_register_block_formal
  import npu_perf_pkg::*;
(
    `REGISTER_BLOCK_INPUTS
);
  localparam int unsigned Gated = 0;
  localparam int unsigned Open  = 1;

  `REGISTER_BLOCK_OUTPUTS
  outputs_t outputs [2];

  for (genvar i = 0; i < 2; i++) begin : g_block
    register_block dut (
        .clk_i,
        .rst_ni,
        .test_enable_i(1'(i == Open)),
        `REGISTER_BLOCK_PORTS(outputs[i])
    );
  end

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET
  always_comb assume (clk_i);

  // ---------------------------------------------------------------- proven
  always_comb begin
    if (rst_ni) begin
      SameOutputs : assert (outputs[Gated] == outputs[Open]);
      Rests       : cover (!g_block[Gated].dut.awake);
      WakesAgain  : cover (g_block[Gated].dut.left_q == '0 && irq_done);
    end
  end
endmodule
