// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Two-entry register stage for a valid/ready stream. It cuts all combinational paths and passes one element a cycle.
// Reset and idle state: empty, valid_o low, ready_o high.
module skid_buffer #(
    parameter int unsigned Width = 32  // bits an element, at least 1
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic [Width-1:0] data_i,
    input  logic             valid_i,
    output logic             ready_o,
    output logic [Width-1:0] data_o,
    output logic             valid_o,
    input  logic             ready_i
);

  logic [Width-1:0] data_q, spare_q;
  logic valid_q, spare_valid_q;

  assign data_o  = data_q;
  assign valid_o = valid_q;
  assign ready_o = !spare_valid_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q       <= 1'b0;
      spare_valid_q <= 1'b0;
    end else if (ready_i || !valid_q) begin
      valid_q       <= spare_valid_q || valid_i;
      spare_valid_q <= 1'b0;
    end else if (valid_i && ready_o) begin
      spare_valid_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (ready_i || !valid_q) begin
      if (spare_valid_q) data_q <= spare_q;
      else if (valid_i) data_q <= data_i;
    end else if (valid_i && ready_o) begin
      spare_q <= data_i;
    end
  end

  `NPU_ASSERT_HANDSHAKE(OutputHolds, valid_o, ready_i, data_o,
                        "an element changed or was withdrawn before it was taken")
endmodule
