// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// A read channel: executes two-dimensional transfers. Each row of any alignment
// in memory leaves as a dense run of beats that starts at bit 0; in the last
// beat the bytes past the end of the row are zero.
//
// Requests run ahead of the data by up to the size of the buffer. A burst is
// issued only when there is room for all of it, so this client never blocks the
// read data channel.
// Reset state: idle. After an abort the channel swallows the data that is still
// under way from memory, then it is idle.
module dma_read
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth  = 256,  // bits of a beat, a power of two from 32 to 1024
    parameter int unsigned BufferBeats = 128, // beats under way or waiting, a power of two from 16 (one burst)
    parameter int unsigned Bursts      = 64   // most bursts under way, many for short rows; a power of two from 2
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,

    input  logic                 desc_valid_i,
    output logic                 desc_ready_o,
    input  dma_desc_t            desc_i,

    output logic                 data_valid_o,
    input  logic                 data_ready_i,
    output logic [DataWidth-1:0] data_o,
    output logic                 data_row_last_o,

    // address and data channel, through the arbiter
    output logic                 ar_valid_o,
    input  logic                 ar_ready_i,
    output address_t             ar_addr_o,
    output logic [7:0]           ar_len_o,
    input  logic                 r_valid_i,   // always taken
    input  logic [DataWidth-1:0] r_data_i,
    input  logic [1:0]           r_resp_i,
    input  logic                 r_last_i,

    output logic                 idle_o,        // everything accepted is finished
    output logic                 error_o,       // pulse: a beat had an error response
    output address_t             error_addr_o   // start of that beat's burst
);
  localparam int unsigned BeatBytes  = DataWidth / 8;
  localparam int unsigned OffsetBits = $clog2(BeatBytes);
  localparam int unsigned MaxBurst   = 16;
  localparam int unsigned CountBits  = $clog2(BufferBeats) + 1;
  localparam int unsigned RowTagBits = 2 * OffsetBits + 64;

  // ---- requests ----------------------------------------------------------------
  logic split_ready, tag_full, tag_empty, tag_pop;
  logic [RowTagBits-1:0] tag_in, tag_out;
  logic burst_valid, burst_fire, burst_full, burst_empty;
  logic [CountBits-1:0] reserved_q;  // beats requested and not yet taken from the buffer
  logic room;

  assign desc_ready_o = split_ready && !tag_full && !abort_i;

  // Contiguous rows of whole beats are fetched as one row.
  dma_desc_t split_desc;
  logic dense;
  address_t whole;
  assign whole = address_t'(desc_i.rows) * address_t'(desc_i.row_bytes);
  assign dense = desc_i.stride == desc_i.row_bytes && desc_i.addr[OffsetBits-1:0] == '0
                 && desc_i.row_bytes[OffsetBits-1:0] == '0 && whole == address_t'(whole[31:0]);
  always_comb begin
    split_desc = desc_i;
    if (dense) begin
      split_desc.rows      = 32'd1;
      split_desc.row_bytes = whole[31:0];
    end
  end

  burst_splitter #(
      .DataWidth(DataWidth),
      .MaxBurst (MaxBurst)
  ) u_splitter (
      .clk_i,
      .rst_ni,
      .abort_i,
      .desc_valid_i (desc_valid_i && desc_ready_o),
      .desc_ready_o (split_ready),
      .desc_i       (split_desc),
      .burst_valid_o(burst_valid),
      .burst_ready_i(burst_fire),
      .burst_addr_o (ar_addr_o),
      .burst_len_o  (ar_len_o)
  );

  assign room       = reserved_q <= CountBits'(BufferBeats - MaxBurst);
  assign ar_valid_o = burst_valid && room && !burst_full;
  assign burst_fire = ar_valid_o && ar_ready_i;

  // Addresses of the bursts under way; an error reports one.
  logic [$clog2(Bursts):0] bursts_count;
  sync_fifo #(
      .Width(AddressBits),
      .Depth(Bursts)
  ) u_bursts (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .push_i (burst_fire),
      .data_i (ar_addr_o),
      .pop_i  (r_valid_i && r_last_i),
      .data_o (error_addr_o),
      .full_o (burst_full),
      .empty_o(burst_empty),
      .count_o(bursts_count)
  );
  assign error_o = r_valid_i && r_resp_i[1];

  // ---- data --------------------------------------------------------------------
  logic fifo_empty, fifo_full, fifo_pop;
  logic [DataWidth-1:0] beat;
  logic [$clog2(BufferBeats):0] fifo_count;

  sync_fifo #(
      .Width(DataWidth),
      .Depth(BufferBeats)
  ) u_beats (
      .clk_i,
      .rst_ni,
      .clear_i(abort_i),
      .push_i (r_valid_i && !abort_i),
      .data_i (r_data_i),
      .pop_i  (fifo_pop),
      .data_o (beat),
      .full_o (fifo_full),
      .empty_o(fifo_empty),
      .count_o(fifo_count)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      reserved_q <= '0;
    end else begin
      reserved_q <= reserved_q + (burst_fire ? CountBits'(ar_len_o) + CountBits'(1) : '0)
                    - (fifo_pop ? CountBits'(1) : '0);
    end
  end

  // ---- row alignment -------------------------------------------------------------
  // The fields of each descriptor that the return side needs.
  assign tag_in = {desc_i.addr[OffsetBits-1:0], desc_i.row_bytes, desc_i.rows, desc_i.stride[OffsetBits-1:0]};
  logic [2:0] tag_count;
  sync_fifo #(
      .Width(RowTagBits),
      .Depth(4)
  ) u_tags (
      .clk_i,
      .rst_ni,
      .clear_i(abort_i),
      .push_i (desc_valid_i && desc_ready_o),
      .data_i (tag_in),
      .pop_i  (tag_pop),
      .data_o (tag_out),
      .full_o (tag_full),
      .empty_o(tag_empty),
      .count_o(tag_count)
  );

  logic [OffsetBits-1:0] tag_offset, tag_stride;
  logic [31:0] tag_row_bytes, tag_rows;
  assign {tag_offset, tag_row_bytes, tag_rows, tag_stride} = tag_out;

  logic row_active_q, primed_q;
  logic [OffsetBits-1:0] offset_q, row_offset_q;
  logic [31:0] left_q, rows_left_q, row_bytes_q;
  logic [OffsetBits-1:0] stride_q;
  logic [DataWidth-1:0] previous_q;

  logic fits_first, tail_only, emit, take, ends_row;
  logic [DataWidth-1:0] aligned;
  logic [OffsetBits+2:0] shift;

  assign shift      = {offset_q, 3'b000};
  assign fits_first = 33'(offset_q) + 33'(left_q) <= 33'(BeatBytes);
  assign tail_only  = primed_q && offset_q != '0 && left_q <= 32'(BeatBytes) - 32'(offset_q);
  assign ends_row   = left_q <= 32'(BeatBytes);

  always_comb begin
    if (offset_q == '0 || (!primed_q && fits_first)) emit = !fifo_empty;
    else if (primed_q) emit = tail_only || !fifo_empty;
    else emit = 1'b0;
    emit = emit && row_active_q;
    take = row_active_q && !fifo_empty && !tail_only;
    aligned = '0;
    if (emit) begin
      if (offset_q == '0) aligned = beat;
      else if (tail_only) aligned = previous_q >> shift;
      else if (primed_q) aligned = DataWidth'({beat, previous_q} >> shift);
      else aligned = beat >> shift;
      if (left_q < 32'(BeatBytes)) begin
        aligned &= ~({DataWidth{1'b1}} << {left_q[OffsetBits-1:0], 3'b000});
      end
    end
  end

  assign data_valid_o    = emit;
  assign data_o          = aligned;
  assign data_row_last_o = ends_row;
  // The first beat of an unaligned row yields no output, so it need not wait
  // for room at the output.
  assign fifo_pop        = take && (!emit || data_ready_i);
  assign tag_pop         = !tag_empty && !row_active_q && !abort_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      row_active_q <= 1'b0;
      primed_q     <= 1'b0;
    end else if (!row_active_q) begin
      row_active_q <= tag_pop;
      primed_q     <= 1'b0;
    end else if (emit && data_ready_i && ends_row) begin
      row_active_q <= rows_left_q != 32'd1;
      primed_q     <= 1'b0;
    end else if (fifo_pop) begin
      primed_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (tag_pop) begin
      offset_q    <= tag_offset;
      row_bytes_q <= tag_row_bytes;
      left_q      <= tag_row_bytes;
      rows_left_q <= tag_rows;
      stride_q    <= tag_stride;
      row_offset_q <= tag_offset;
    end else if (emit && data_ready_i) begin
      left_q <= left_q - 32'(BeatBytes);
      if (ends_row) begin
        left_q       <= row_bytes_q;
        rows_left_q  <= rows_left_q - 32'd1;
        row_offset_q <= row_offset_q + stride_q;
        offset_q     <= row_offset_q + stride_q;
      end
    end
    if (fifo_pop) previous_q <= beat;
  end

  assign idle_o = !burst_valid && tag_empty && !row_active_q && burst_empty;

  logic unused;
  assign unused = &{1'b0, fifo_full, fifo_count, tag_count, bursts_count, r_resp_i[0]};

  if (BufferBeats < MaxBurst) begin : g_bad_buffer
    $fatal(1, "dma_read: BufferBeats must be at least 16, the longest burst: it is requested as a whole");
  end

  `NPU_ASSERT(WholeFits, !(desc_valid_i && dense && 64'(desc_i.rows) * 64'(desc_i.row_bytes) != 64'(whole)),
              "dense rows have more bytes than an address can count")
  `NPU_ASSERT(RestsClean, !(idle_o && (reserved_q != '0 || primed_q || !fifo_empty)),
              "an idle channel, whose clock rests, keeps something that an abort would clear")
  `NPU_ASSERT(DataExpected, !(r_valid_i && burst_empty), "read data arrived without a burst under way")
  `NPU_ASSERT_HANDSHAKE(DataHolds, data_valid_o, data_ready_i, {data_row_last_o, data_o},
                        "a beat changed or was withdrawn before it was taken", abort_i)
  `NPU_ASSERT_HANDSHAKE(ArHolds, ar_valid_o, ar_ready_i, {ar_addr_o, ar_len_o},
                        "a read address changed or was withdrawn before it was taken", abort_i)
endmodule
