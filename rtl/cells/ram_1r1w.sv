// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// On-chip memory with one write and one read port, both on one clock. It stands for a technology's macros: no module
// but this one has a memory of more than 4 kbit that a macro could be (docs/integration.md).
//
// A macro must
// - write, at an edge with write_i, the lanes that write_i names, and leave the others as they are;
// - show, behind an edge with read_i, what the entry held before the edge, and keep showing it until the next read_i;
// - show of an entry that is written at the same edge what it held with ReadFirst, and what is written with WriteFirst.
//   Without both, nobody reads such an entry, and the macro may show anything. Logic beside a macro can do either: for
//   ReadFirst, writes go in one clock later, and a read in that clock takes from the waiting write; for WriteFirst, the
//   data waits in a register for such a read.
// It needs no reset. Contents are undefined until written, the output is until the first read.
module ram_1r1w #(
    parameter int unsigned Width = 512,  // bits of an entry, a multiple of Lanes
    parameter int unsigned Depth = 1024, // entries, at least 2
    parameter int unsigned Lanes = 1,    // parts of an entry, written each for itself, at least 1
    parameter int unsigned PieceWidth = Width / Lanes,  // bits of a piece; an entry's pieces belong to the lanes in turn
    parameter bit          ReadFirst  = 1'b0, // an entry that is read at the edge of its write shows what it held
    parameter bit          WriteFirst = 1'b0  // it shows what is written; needs one lane
) (
    input  logic                     clk_i,
    input  logic                     rst_ni,       // for the assertion alone
    input  logic [Lanes-1:0]         write_i,      // [0] the lane of the lowest bits
    input  logic [$clog2(Depth)-1:0] write_addr_i,
    input  logic [Width-1:0]         write_data_i,
    input  logic                     read_i,
    input  logic [$clog2(Depth)-1:0] read_addr_i,
    output logic [Width-1:0]         read_data_o
);
  // An entry after a write of some lanes. One assignment of it simulates faster than one for each piece.
  function automatic logic [Width-1:0] merged(input logic [Width-1:0] entry);
    merged = entry;
    for (int unsigned piece = 0; piece < Width / PieceWidth; piece++) begin
      if (write_i[piece%Lanes]) merged[piece*PieceWidth+:PieceWidth] = write_data_i[piece*PieceWidth+:PieceWidth];
    end
  endfunction

  logic [Width-1:0] storage_q [Depth];

  if (Lanes == 1) begin : g_whole
    always_ff @(posedge clk_i) begin
      if (write_i[0]) storage_q[write_addr_i] <= write_data_i;
    end
  end else begin : g_lanes
    always_ff @(posedge clk_i) begin
      if (write_i != '0) storage_q[write_addr_i] <= merged(storage_q[write_addr_i]);
    end
  end

  if (WriteFirst) begin : g_write_first
    always_ff @(posedge clk_i) begin
      if (read_i && write_i[0] && write_addr_i == read_addr_i) read_data_o <= write_data_i;
      else if (read_i) read_data_o <= storage_q[read_addr_i];
    end
  end else begin : g_read_first
    always_ff @(posedge clk_i) begin
      if (read_i) read_data_o <= storage_q[read_addr_i];
    end
  end

  if (ReadFirst || WriteFirst) begin : g_no_rule
    logic unused;
    assign unused = &{1'b0, rst_ni};
  end else begin : g_rule
    always_ff @(posedge clk_i) begin
      if (read_i && write_i != '0 && rst_ni) begin
        `NPU_CHECK(NoCollision, read_addr_i != write_addr_i, "an entry was read at the edge at which it was written")
      end
    end
  end

  if (Lanes < 1 || PieceWidth < 1 || Width % (Lanes * PieceWidth) != 0) begin : g_bad_lanes
    $fatal(1, "ram_1r1w: Width must be a multiple of Lanes * PieceWidth");
  end
  if (WriteFirst && (ReadFirst || Lanes != 1)) begin : g_bad_first
    $fatal(1, "ram_1r1w: WriteFirst needs one lane, and no ReadFirst");
  end
  if (Depth < 2) begin : g_bad_depth
    $fatal(1, "ram_1r1w: Depth must be at least 2");
  end
endmodule
