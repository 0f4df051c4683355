// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Turns a two-dimensional transfer into AXI bursts. A burst has at most MaxBurst
// whole beats, and stays within a row and a 4 KiB page. A row may start at any
// byte of a beat.
// Reset and abort state: no transfer, ready for one.
module burst_splitter
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth = 256,  // bits of a beat, a power of two from 32 to 1024
    parameter int unsigned MaxBurst  = 16    // beats of the longest burst, 1 to 256
) (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        abort_i,        // forget the transfer

    input  logic        desc_valid_i,
    output logic        desc_ready_o,
    input  dma_desc_t   desc_i,

    output logic        burst_valid_o,
    input  logic        burst_ready_i,
    output address_t    burst_addr_o,   // aligned down to a beat
    output logic [7:0]  burst_len_o     // beats - 1
);
  localparam int unsigned BeatBytes  = DataWidth / 8;
  localparam int unsigned OffsetBits = $clog2(BeatBytes);
  localparam int unsigned PageBytes  = 4096;
  localparam int unsigned PageBits   = $clog2(PageBytes);
  localparam int unsigned PageBeats  = PageBytes / BeatBytes;

  logic active_q;
  address_t row_addr_q, addr_q;
  logic [31:0] left_q, rows_q, stride_q, row_bytes_q;

  logic [OffsetBits-1:0]        offset;       // bytes in front of the first one in its beat
  logic [32-OffsetBits:0]       beats_left;   // to the end of the row
  logic [$clog2(PageBeats):0]   beats_page;   // to the end of the page
  logic [$clog2(MaxBurst):0]    beats_most, beats;
  logic [31:0]                  covered;      // bytes of the row
  logic last_of_row, last;

  assign desc_ready_o  = !active_q;
  assign burst_valid_o = active_q;
  assign burst_addr_o  = {addr_q[AddressBits-1:OffsetBits], {OffsetBits{1'b0}}};
  assign burst_len_o   = 8'(32'(beats) - 32'd1);

  assign offset      = addr_q[OffsetBits-1:0];
  assign beats_left  = (33 - OffsetBits)'((33'(left_q) + 33'(offset) + 33'(BeatBytes - 1)) >> OffsetBits);
  assign beats_page  = ($clog2(PageBeats) + 1)'(PageBeats - 32'(addr_q[PageBits-1:OffsetBits]));
  assign beats_most  = ($clog2(MaxBurst) + 1)'((32'(beats_page) < MaxBurst) ? 32'(beats_page) : MaxBurst);
  assign last_of_row = 32'(beats_left) <= 32'(beats_most);
  assign beats       = last_of_row ? ($clog2(MaxBurst) + 1)'(beats_left) : beats_most;
  assign covered     = (32'(beats) << OffsetBits) - 32'(offset);
  assign last        = last_of_row && rows_q == 32'd1;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      active_q <= 1'b0;
    end else if (!active_q) begin
      active_q <= desc_valid_i;
    end else if (burst_ready_i && last) begin
      active_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (desc_ready_o && desc_valid_i) begin
      row_addr_q  <= desc_i.addr;
      addr_q      <= desc_i.addr;
      left_q      <= desc_i.row_bytes;
      rows_q      <= desc_i.rows;
      stride_q    <= desc_i.stride;
      row_bytes_q <= desc_i.row_bytes;
    end else if (active_q && burst_ready_i) begin
      if (last_of_row) begin
        row_addr_q <= row_addr_q + address_t'(stride_q);
        addr_q     <= row_addr_q + address_t'(stride_q);
        left_q     <= row_bytes_q;
        rows_q     <= rows_q - 32'd1;
      end else begin
        addr_q <= addr_q + address_t'(covered);
        left_q <= left_q - covered;
      end
    end
  end

  if (DataWidth < 32 || DataWidth > 1024 || (DataWidth & (DataWidth - 1)) != 0) begin : g_bad_width
    $fatal(1, "burst_splitter: DataWidth must be a power of two from 32 to 1024");
  end

  `NPU_ASSERT(RowNotEmpty, !(desc_valid_i && desc_ready_o && (desc_i.row_bytes == 0 || desc_i.rows == 0)),
              "a transfer descriptor must have at least one row of at least one byte")
  `NPU_ASSERT_HANDSHAKE(BurstHolds, burst_valid_o, burst_ready_i, {burst_addr_o, burst_len_o},
                        "a burst changed or was withdrawn before it was taken", abort_i)
endmodule
