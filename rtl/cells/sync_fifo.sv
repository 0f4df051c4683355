// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// First-in first-out queue in one clock domain. The oldest element is visible without a pop. Many bits are in a memory
// with a registered read, few in registers; ports and clocks are the same.
// Reset and clear state: empty.
module sync_fifo #(
    parameter int unsigned Width = 32,  // bits an element, at least 1
    parameter int unsigned Depth = 4,   // elements, a power of two from 2
    parameter bit          InRam = Width * Depth > 4096 // the elements are in a memory
) (
    input  logic                     clk_i,
    input  logic                     rst_ni,
    input  logic                     clear_i,  // drop everything
    input  logic                     push_i,
    input  logic [Width-1:0]         data_i,
    input  logic                     pop_i,
    output logic [Width-1:0]         data_o,   // oldest element, valid unless empty
    output logic                     full_o,
    output logic                     empty_o,
    output logic [$clog2(Depth):0]   count_o
);
  localparam int unsigned IndexBits = $clog2(Depth);

  logic [IndexBits:0] read_q, write_q;

  assign count_o = write_q - read_q;
  assign empty_o = write_q == read_q;
  assign full_o  = count_o == (IndexBits + 1)'(Depth);

  if (InRam) begin : g_ram
    // The memory shows the oldest element: it is read when the one before it leaves, or as it comes in.
    logic [IndexBits-1:0] oldest;

    assign oldest = read_q[IndexBits-1:0] + IndexBits'(pop_i);

    ram_1r1w #(
        .Width     (Width),
        .Depth     (Depth),
        .WriteFirst(1'b1)
    ) u_storage (
        .clk_i,
        .rst_ni,
        .write_i     (push_i),
        .write_addr_i(write_q[IndexBits-1:0]),
        .write_data_i(data_i),
        .read_i      (pop_i || (push_i && empty_o)),
        .read_addr_i (oldest),
        .read_data_o (data_o)
    );
  end else begin : g_registers
    logic [Width-1:0] storage_q [Depth];

    assign data_o = storage_q[read_q[IndexBits-1:0]];

    always_ff @(posedge clk_i) begin
      if (push_i) storage_q[write_q[IndexBits-1:0]] <= data_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || clear_i) begin
      read_q  <= '0;
      write_q <= '0;
    end else if (push_i || pop_i) begin
      if (push_i) write_q <= write_q + 1'b1;
      if (pop_i)  read_q  <= read_q + 1'b1;
      `NPU_CHECK(NoOverflow, !(push_i && full_o), "an element was pushed into a full queue")
      `NPU_CHECK(NoUnderflow, !(pop_i && empty_o), "an element was popped from an empty queue")
    end
  end

  if (Depth < 2 || (Depth & (Depth - 1)) != 0) begin : g_bad_depth
    $fatal(1, "sync_fifo: Depth must be a power of two of at least 2");
  end
endmodule
