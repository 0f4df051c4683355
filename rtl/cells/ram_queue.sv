// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// First-in first-out queue in a memory with a registered read, for queues too large for registers. It takes and gives
// one element a clock. An element shows at the output two clocks after it went in.
// Reset and idle state: empty, valid_o low, ready_o high.
module ram_queue #(
    parameter int unsigned Width = 32,  // bits an element, at least 1
    parameter int unsigned Depth = 16   // elements, a power of two from 2
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic             valid_i,
    output logic             ready_o,
    input  logic [Width-1:0] data_i,
    output logic             valid_o,
    input  logic             ready_i,
    output logic [Width-1:0] data_o
);
  localparam int unsigned IndexBits = $clog2(Depth);

  logic [IndexBits:0] read_q, write_q, stored;
  logic valid_q, push, fetch;

  assign stored  = write_q - read_q;
  assign ready_o = stored != (IndexBits + 1)'(Depth);
  assign valid_o = valid_q;
  assign push    = valid_i && ready_o;
  // The memory's own output register holds the oldest element.
  assign fetch   = stored != '0 && (ready_i || !valid_q);

  ram_1r1w #(
      .Width(Width),
      .Depth(Depth)
  ) u_storage (
      .clk_i,
      .rst_ni,
      .write_i     (push),
      .write_addr_i(write_q[IndexBits-1:0]),
      .write_data_i(data_i),
      .read_i      (fetch),
      .read_addr_i (read_q[IndexBits-1:0]),
      .read_data_o (data_o)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      read_q  <= '0;
      write_q <= '0;
      valid_q <= 1'b0;
    end else begin
      if (push) write_q <= write_q + 1'b1;
      if (fetch) read_q <= read_q + 1'b1;
      if (fetch) valid_q <= 1'b1;
      else if (ready_i) valid_q <= 1'b0;
    end
  end

  `NPU_ASSERT_HANDSHAKE(OutputHolds, valid_o, ready_i, data_o,
                        "an element changed or was withdrawn before it was taken")

  if (Depth < 2 || (Depth & (Depth - 1)) != 0) begin : g_bad_depth
    $fatal(1, "ram_queue: Depth must be a power of two of at least 2");
  end
endmodule
