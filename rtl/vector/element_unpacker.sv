// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Turns words of one element a lane into the beats of a write channel. It
// narrows the elements and starts a new beat with each memory row.
//
// A clock takes at most as many elements as a beat has 32-bit words, so a beat
// of narrow elements takes several clocks.
// Reset and abort state: empty.
module element_unpacker
  import vector_pkg::*;
#(
    parameter int unsigned DataWidth = 256,  // bits of a memory beat, a power of two from 32
    parameter int unsigned Lanes     = 16    // 32-bit words of a word, a power of two: one to eight beats
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic                   abort_i,
    input  logic                   start_i,       // pulse, with the stream
    input  stream_t                stream_i,      // stable while in use
    output logic                   idle_o,

    input  logic                   word_valid_i,
    output logic                   word_ready_o,
    input  logic [Lanes*32-1:0]    word_i,
    input  logic [$clog2(Lanes):0] count_i,       // elements of the word, at least 1

    output logic                   beat_valid_o,
    input  logic                   beat_ready_i,
    output logic [DataWidth-1:0]   beat_o
);
  localparam int unsigned Elements  = DataWidth / 32;  // a clock, at most
  localparam int unsigned CountBits = $clog2(Lanes) + 1;
  localparam int unsigned BeatBytes = DataWidth / 8;
  localparam int unsigned FillBits  = $clog2(BeatBytes) + 1;

  logic [CountBits-1:0] done_q, left, moved;       // elements of the word
  logic [31:0] memory_left_q;                      // elements left in the memory row
  logic [FillBits-1:0] fill_q, fill, bytes, room;  // bytes
  logic [DataWidth-1:0] stage_q, chosen, narrowed, combined;
  logic full_q, step, word_ends, memory_ends, beat_ends;
  logic [1:0] shift;  // log2 of an element's bytes

  assign shift = 2'd2 - stream_i.size;
  assign left  = count_i - done_q;
  assign room  = (FillBits'(BeatBytes) - fill_q) >> shift;  // elements

  always_comb begin
    moved = (left < CountBits'(Elements)) ? left : CountBits'(Elements);
    if (32'(moved) > memory_left_q) moved = CountBits'(memory_left_q);
    if (32'(moved) > 32'(room)) moved = CountBits'(room);
  end

  assign bytes       = FillBits'(moved) << shift;
  assign fill        = fill_q + bytes;
  assign word_ends   = left == moved;
  assign memory_ends = memory_left_q == 32'(moved);
  assign beat_ends   = memory_ends || fill == FillBits'(BeatBytes);
  assign step        = word_valid_i && (!full_q || beat_ready_i);

  always_comb begin
    chosen   = '0;
    narrowed = '0;
    combined = stage_q;
    if (step) begin
      chosen   = DataWidth'(word_i >> {done_q, 5'd0});
      narrowed = chosen;
      if (stream_i.size == 2'd1) begin
        narrowed = '0;
        for (int unsigned e = 0; e < Elements; e++) narrowed[e*16+:16] = chosen[e*32+:16];
      end else if (stream_i.size == 2'd2) begin
        narrowed = '0;
        for (int unsigned e = 0; e < Elements; e++) narrowed[e*8+:8] = chosen[e*32+:8];
      end
      narrowed &= ~({DataWidth{1'b1}} << {bytes, 3'd0});
      combined = (full_q ? '0 : stage_q) | (narrowed << {fill_q, 3'd0});
    end
  end

  assign word_ready_o = step && word_ends;
  assign beat_valid_o = full_q;
  assign beat_o       = stage_q;
  assign idle_o       = !full_q && fill_q == '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i || start_i) begin
      done_q        <= '0;
      fill_q        <= '0;
      full_q        <= 1'b0;
      memory_left_q <= stream_i.seg_len;
    end else begin
      if (full_q && beat_ready_i) full_q <= 1'b0;
      if (step) begin
        done_q        <= word_ends ? '0 : done_q + moved;
        memory_left_q <= memory_ends ? stream_i.seg_len : memory_left_q - 32'(moved);
        fill_q        <= beat_ends ? '0 : fill;
        full_q        <= beat_ends;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (start_i) stage_q <= '0;
    else if (step) stage_q <= combined;
    else if (full_q && beat_ready_i) stage_q <= '0;
  end

  logic unused;
  assign unused = &{1'b0, stream_i.addr, stream_i.row_stride, stream_i.batch0_stride, stream_i.batch1_stride,
                    stream_i.seg_stride, stream_i.seg_bytes, stream_i.segs, stream_i.length, stream_i.segments,
                    stream_i.row_granules, stream_i.passes, stream_i.bcast, stream_i.enable};

  if (Lanes < Elements || Lanes > 8 * Elements || (Lanes & (Lanes - 1)) != 0) begin : g_bad_lanes
    $fatal(1, "element_unpacker: the lanes must be one, two, four or eight memory beats wide");
  end

  `NPU_ASSERT_HANDSHAKE(BeatHolds, beat_valid_o, beat_ready_i, beat_o,
                        "a beat changed or was withdrawn before it was taken", abort_i || start_i)
endmodule
