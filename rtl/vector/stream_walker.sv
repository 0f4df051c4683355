// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Generates the memory transfers of one stream of a command, batch by batch and
// row by row. A row that does not stay on chip is transferred in every pass.
//
// Where a row is a single segment, all rows of a batch are one transfer. A row
// that is the same throughout the command and stays on chip is transferred once.
// Reset and abort state: none.
module stream_walker
  import npu_pkg::*;
  import vector_pkg::*;
(
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        abort_i,
    input  logic        start_i,      // pulse, with the stream
    input  stream_t     stream_i,     // stable until the last transfer is taken
    input  logic        resident_i,   // a row stays on chip: it is transferred once for all passes
    input  logic        constant_i,   // the command has one row of this stream, and it is resident
    input  logic [24:0] rows_i,
    input  logic [15:0] batch0_i,
    input  logic [15:0] batch1_i,
    output logic        desc_valid_o,
    input  logic        desc_ready_i,
    output dma_desc_t   desc_o
);
  logic valid_q, merge, one_row, one_pass, last_pass, last_row, last0, last1;
  logic [3:0] pass_q;
  logic [24:0] row_q;
  logic [15:0] batch0_q, batch1_q;
  address_t addr_q, addr0_q, addr1_q;  // of the row, the inner batch, the outer batch

  assign one_pass = resident_i || stream_i.passes <= 4'd1;
  assign merge    = stream_i.segs == 25'd1 && one_pass && !constant_i;
  assign one_row  = merge || constant_i;

  assign last_pass = one_pass || pass_q == stream_i.passes;
  assign last_row  = one_row || row_q == rows_i;
  assign last0     = constant_i || batch0_q == batch0_i;
  assign last1     = constant_i || batch1_q == batch1_i;

  assign desc_valid_o = valid_q;
  assign desc_o = '{
          addr: addr_q,
          row_bytes: stream_i.seg_bytes,
          rows: merge ? 32'(rows_i) : 32'(stream_i.segs),
          stride: merge ? stream_i.row_stride : stream_i.seg_stride
      };

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) valid_q <= 1'b0;
    else if (start_i) valid_q <= 1'b1;
    else if (desc_ready_i && last_pass && last_row && last0 && last1) valid_q <= 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      pass_q   <= 4'd1;
      row_q    <= 25'd1;
      batch0_q <= 16'd1;
      batch1_q <= 16'd1;
      addr_q   <= stream_i.addr;
      addr0_q  <= stream_i.addr;
      addr1_q  <= stream_i.addr;
    end else if (valid_q && desc_ready_i) begin
      pass_q <= last_pass ? 4'd1 : pass_q + 4'd1;
      if (last_pass) begin
        row_q  <= last_row ? 25'd1 : row_q + 25'd1;
        addr_q <= addr_q + address_t'(stream_i.row_stride);
        if (last_row) begin
          batch0_q <= last0 ? 16'd1 : batch0_q + 16'd1;
          addr_q   <= addr0_q + address_t'(stream_i.batch0_stride);
          addr0_q  <= addr0_q + address_t'(stream_i.batch0_stride);
          if (last0) begin
            batch1_q <= batch1_q + 16'd1;
            addr_q   <= addr1_q + address_t'(stream_i.batch1_stride);
            addr0_q  <= addr1_q + address_t'(stream_i.batch1_stride);
            addr1_q  <= addr1_q + address_t'(stream_i.batch1_stride);
          end
        end
      end
    end
  end

  logic unused;
  assign unused = &{1'b0, stream_i.seg_len, stream_i.length, stream_i.segments, stream_i.row_granules, stream_i.size,
                    stream_i.bcast, stream_i.enable};

  `NPU_ASSERT_HANDSHAKE(DescHolds, desc_valid_o, desc_ready_i, desc_o,
                        "a descriptor changed or was withdrawn before it was taken", abort_i)
endmodule
