// skid_buffer: an element that goes in comes out once, in order, is offered one clock later and stays until taken.
`include "formal.svh"

module skid_buffer_formal #(
    parameter int unsigned Width = 8
) (
    input logic             clk_i,
    input logic             rst_ni,
    input logic [Width-1:0] data_i,
    input logic             valid_i,
    input logic             ready_i,
    input logic             tag_i     // which element is followed: any one
);
  logic [Width-1:0] data;
  logic             valid, ready, kept;

  skid_buffer #(
      .Width(Width)
  ) dut (
      .clk_i,
      .rst_ni,
      .data_i,
      .valid_i,
      .ready_o(ready),
      .data_o (data),
      .valid_o(valid),
      .ready_i
  );

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET

  // ---------------------------------------------------------------- the element that is followed
  logic             push, pop;
  logic [1:0]       inside_q;    // elements
  logic             tagged_q;
  logic [1:0]       ahead_q;     // elements before it
  logic [Width-1:0] tag_data_q;

  assign push = valid_i && ready;
  assign pop  = valid && ready_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      inside_q <= '0;
      tagged_q <= 1'b0;
    end else begin
      inside_q <= inside_q + 2'(push) - 2'(pop);
      if (tagged_q) begin
        if (pop) ahead_q <= ahead_q - 1'b1;
        if (pop && ahead_q == '0) tagged_q <= 1'b0;
      end else if (push && tag_i) begin
        tagged_q   <= 1'b1;
        ahead_q    <= inside_q - 2'(pop);
        tag_data_q <= data_i;
      end
    end
  end

  stream_rule #(
      .Width(Width)
  ) u_output (
      .clk_i,
      .rst_ni,
      .valid_i  (valid),
      .ready_i,
      .payload_i(data),
      .kept_o   (kept)
  );

  // ---------------------------------------------------------------- proven
  always_comb begin
    if (rst_ni) begin
      OutputStable : assert (kept);
      // No later than one clock after it went in, an element is offered; room for two.
      OffersAtOnce : assert (valid == (inside_q != '0));
      TakesTwo     : assert (ready == (inside_q < 2'd2));
      if (tagged_q) begin
        TagKept  : assert (ahead_q < inside_q);
        TagOrder : assert (ahead_q != '0 || data == tag_data_q);
      end
`ifndef PROPERTIES_ONLY
      // What the induction needs: where the followed element waits.
      TagSlot   : assert (!(tagged_q && ahead_q != '0) || dut.spare_q == tag_data_q);
      CountKept : assert (inside_q == 2'(dut.valid_q) + 2'(dut.spare_valid_q));
`endif
      TagLeaves : cover (tagged_q && pop && ahead_q == '0);
      Fills     : cover (inside_q == 2'd2);
    end
  end
endmodule
