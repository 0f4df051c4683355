// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// A write channel: takes each row as a dense run of beats that starts at bit 0
// and writes it to memory at any byte alignment. Byte strobes at both ends of a
// row protect the bytes outside it.
//
// A burst is issued only when all its data is in the buffer, so this client
// never holds the write data channel without data.
// Reset state: idle. After an abort the bursts already issued are completed and
// the rest is dropped; then the channel is idle.
module dma_write
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth   = 256,  // bits of a beat, a power of two from 32 to 1024
    parameter int unsigned BufferBeats = 64,   // beats waiting for a burst, a power of two from 16 (one burst)
    parameter int unsigned Bursts      = 64    // most bursts under way, many for short rows; a power of two from 2
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic                   abort_i,

    input  logic                   desc_valid_i,
    output logic                   desc_ready_o,
    input  dma_desc_t              desc_i,

    input  logic                   data_valid_i,
    output logic                   data_ready_o,
    input  logic [DataWidth-1:0]   data_i,

    // address, data and response channels, through the arbiter
    output logic                   aw_valid_o,
    input  logic                   aw_ready_i,
    output address_t               aw_addr_o,
    output logic [7:0]             aw_len_o,
    output logic                   w_valid_o,
    input  logic                   w_ready_i,
    output logic [DataWidth-1:0]   w_data_o,
    output logic [DataWidth/8-1:0] w_strb_o,
    output logic                   w_last_o,
    input  logic                   b_valid_i,   // always taken
    input  logic [1:0]             b_resp_i,

    output logic                   idle_o,       // everything accepted is in memory
    output logic                   error_o,      // pulse: a burst had an error response
    output address_t               error_addr_o  // start of that burst
);
  localparam int unsigned BeatBytes  = DataWidth / 8;
  localparam int unsigned OffsetBits = $clog2(BeatBytes);
  localparam int unsigned MaxBurst   = 16;
  localparam int unsigned CountBits  = $clog2(BufferBeats) + 1;

  // ---- bursts ----------------------------------------------------------------------
  logic split_ready, burst_valid, aw_fire, lens_full, lens_empty, bursts_full, bursts_empty;
  logic row_active_q;
  logic split_pending_q;
  dma_desc_t split_desc_q;
  logic [CountBits-1:0] uncommitted_q;  // beats in the buffer that no burst has claimed

  assign desc_ready_o = !row_active_q && !split_pending_q && !abort_i;

  // The aligner starts at once, but the splitter may still be busy with the transfer before.
  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) split_pending_q <= 1'b0;
    else if (desc_valid_i && desc_ready_o) split_pending_q <= 1'b1;
    else if (split_ready) split_pending_q <= 1'b0;
  end
  always_ff @(posedge clk_i) begin
    if (desc_valid_i && desc_ready_o) split_desc_q <= desc_i;
  end

  burst_splitter #(
      .DataWidth(DataWidth),
      .MaxBurst (MaxBurst)
  ) u_splitter (
      .clk_i,
      .rst_ni,
      .abort_i,
      .desc_valid_i (split_pending_q),
      .desc_ready_o (split_ready),
      .desc_i       (split_desc_q),
      .burst_valid_o(burst_valid),
      .burst_ready_i(aw_fire),
      .burst_addr_o (aw_addr_o),
      .burst_len_o  (aw_len_o)
  );

  assign aw_valid_o = burst_valid && !lens_full && !bursts_full && !abort_i
                      && uncommitted_q > CountBits'(aw_len_o);
  assign aw_fire    = aw_valid_o && aw_ready_i;

  // ---- alignment into the buffer ---------------------------------------------------
  logic first_q;
  logic [OffsetBits-1:0] offset_q, stride_q;
  logic [31:0] in_left_q, rows_left_q, row_bytes_q;
  address_t out_left_q;  // bytes from the start of the current beat to the end of the row
  logic [DataWidth-1:0] previous_q;

  logic need_input, produce, buffer_full, ends_row;
  logic [DataWidth-1:0] out_data;
  logic [BeatBytes-1:0] out_strb;
  logic [OffsetBits+2:0] shift_up;

  assign shift_up   = {offset_q, 3'b000};
  assign need_input = in_left_q != 32'd0;
  assign produce    = row_active_q && !buffer_full && (!need_input || data_valid_i);
  assign ends_row   = out_left_q <= address_t'(BeatBytes);
  assign data_ready_o = row_active_q && !buffer_full && need_input;

  always_comb begin
    out_data = '0;
    out_strb = '0;
    if (produce) begin
      out_data = DataWidth'(({need_input ? data_i : {DataWidth{1'b0}}, previous_q} << shift_up) >> DataWidth);
      out_strb = '1;
      if (ends_row) out_strb = ~({BeatBytes{1'b1}} << out_left_q[OffsetBits:0]);
      if (first_q) out_strb &= {BeatBytes{1'b1}} << offset_q;
    end
  end

  logic [OffsetBits-1:0] next_offset;
  assign next_offset = offset_q + stride_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      row_active_q <= 1'b0;
    end else if (desc_valid_i && desc_ready_o) begin
      row_active_q <= 1'b1;
    end else if (produce && ends_row && rows_left_q == 32'd1) begin
      row_active_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (desc_valid_i && desc_ready_o) begin
      offset_q    <= desc_i.addr[OffsetBits-1:0];
      stride_q    <= desc_i.stride[OffsetBits-1:0];
      in_left_q   <= desc_i.row_bytes;
      row_bytes_q <= desc_i.row_bytes;
      rows_left_q <= desc_i.rows;
      out_left_q  <= address_t'(desc_i.row_bytes) + address_t'(desc_i.addr[OffsetBits-1:0]);
      first_q     <= 1'b1;
    end else if (produce) begin
      first_q    <= ends_row;
      out_left_q <= out_left_q - address_t'(BeatBytes);
      in_left_q  <= (in_left_q < 32'(BeatBytes)) ? 32'd0 : in_left_q - 32'(BeatBytes);
      if (ends_row) begin
        rows_left_q <= rows_left_q - 32'd1;
        offset_q    <= next_offset;
        in_left_q   <= row_bytes_q;
        out_left_q  <= address_t'(row_bytes_q) + address_t'(next_offset);
      end
    end
    if (produce && need_input) previous_q <= data_i;
  end

  logic [CountBits-1:0] buffer_count;
  logic buffer_empty, buffer_flush;
  sync_fifo #(
      .Width(DataWidth + BeatBytes),
      .Depth(BufferBeats)
  ) u_buffer (
      .clk_i,
      .rst_ni,
      .clear_i(buffer_flush),
      .push_i (produce && !abort_i),
      .data_i ({out_strb, out_data}),
      .pop_i  (w_valid_o && w_ready_i),
      .data_o ({w_strb_o, w_data_o}),
      .full_o (buffer_full),
      .empty_o(buffer_empty),
      .count_o(buffer_count)
  );
  // After an abort the buffer is flushed once all issued bursts have their data.
  assign buffer_flush = abort_i && lens_empty;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) uncommitted_q <= '0;
    else
      uncommitted_q <= uncommitted_q + (produce ? CountBits'(1) : '0)
                       - (aw_fire ? CountBits'(aw_len_o) + CountBits'(1) : '0);
  end

  // ---- write data of the bursts issued ----------------------------------------------
  logic [7:0] len, beat_q;
  logic [4:0] lens_count;
  sync_fifo #(
      .Width(8),
      .Depth(16)
  ) u_lens (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .push_i (aw_fire),
      .data_i (aw_len_o),
      .pop_i  (w_valid_o && w_ready_i && w_last_o),
      .data_o (len),
      .full_o (lens_full),
      .empty_o(lens_empty),
      .count_o(lens_count)
  );
  assign w_valid_o = !lens_empty;
  assign w_last_o  = beat_q == len;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) beat_q <= '0;
    else if (w_valid_o && w_ready_i) beat_q <= w_last_o ? '0 : beat_q + 8'd1;
  end

  // ---- responses --------------------------------------------------------------------
  logic [$clog2(Bursts):0] bursts_count;
  sync_fifo #(
      .Width(AddressBits),
      .Depth(Bursts)
  ) u_bursts (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .push_i (aw_fire),
      .data_i (aw_addr_o),
      .pop_i  (b_valid_i),
      .data_o (error_addr_o),
      .full_o (bursts_full),
      .empty_o(bursts_empty),
      .count_o(bursts_count)
  );
  assign error_o = b_valid_i && b_resp_i[1];

  assign idle_o = !row_active_q && !split_pending_q && !burst_valid && buffer_empty && bursts_empty;

  logic unused;
  assign unused = &{1'b0, b_resp_i[0], lens_count, bursts_count, buffer_count};

  if (BufferBeats < MaxBurst) begin : g_bad_buffer
    $fatal(1, "dma_write: BufferBeats must be at least 16, the longest burst: it waits for all of its data");
  end

  `NPU_ASSERT(RestsClean, !(idle_o && uncommitted_q != '0),
              "an idle channel, whose clock rests, keeps something that an abort would clear")
  `NPU_ASSERT(ResponseExpected, !(b_valid_i && bursts_empty), "a write response arrived without a burst under way")
  `NPU_ASSERT(DataAtHand, !(w_valid_o && buffer_empty), "a burst was issued without its data")
  `NPU_ASSERT_HANDSHAKE(AwHolds, aw_valid_o, aw_ready_i, {aw_addr_o, aw_len_o},
                        "a write address changed or was withdrawn before it was taken", abort_i)
  `NPU_ASSERT_HANDSHAKE(WHolds, w_valid_o, w_ready_i, {w_data_o, w_strb_o, w_last_o},
                        "write data changed or was withdrawn before it was taken")
  `NPU_ASSERT_KNOWN(ResponseKnown, b_valid_i)
endmodule
