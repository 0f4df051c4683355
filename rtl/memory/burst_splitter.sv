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
  localparam int unsigned BeatBytes = DataWidth / 8;
  localparam int unsigned OffsetBits = $clog2(BeatBytes);
  localparam int unsigned PageBeats = 4096 / BeatBytes;

  logic active_q;
  address_t row_addr_q, addr_q;
  logic [31:0] left_q, rows_q, stride_q, row_bytes_q;

  address_t offset, beats_left, beats_page, beats;
  logic [31:0] covered;
  logic last_of_row, last;

  assign desc_ready_o  = !active_q;
  assign burst_valid_o = active_q;
  assign burst_addr_o  = addr_q & ~(address_t'(BeatBytes) - address_t'(1));
  assign burst_len_o   = 8'(beats - address_t'(1));

  always_comb begin
    offset     = addr_q & (address_t'(BeatBytes) - address_t'(1));
    beats_left = (offset + address_t'(left_q) + (address_t'(BeatBytes) - address_t'(1))) >> OffsetBits;
    beats_page = address_t'(PageBeats) - ((addr_q & address_t'(4095)) >> OffsetBits);
    beats      = (beats_left < beats_page) ? beats_left : beats_page;
    beats      = (beats < address_t'(MaxBurst)) ? beats : address_t'(MaxBurst);
    covered    = 32'((beats << OffsetBits) - offset);
    last_of_row = beats == beats_left;
    last        = last_of_row && rows_q == 32'd1;
  end

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
