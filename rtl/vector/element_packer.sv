// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Turns the beats of a read channel into words of one element a lane. It widens
// the elements to 32 bits and packs them densely within a segment as programs
// see it. The last word of a segment is padded with zeros.
//
// A clock takes at most as many elements as a beat has 32-bit words, so a beat
// of narrow elements takes several clocks.
// Reset and abort state: empty.
module element_packer
  import vector_pkg::*;
#(
    parameter int unsigned DataWidth = 256,  // bits of a memory beat, a power of two from 32
    parameter int unsigned Lanes     = 16    // 32-bit words of a word, a power of two: one to eight beats
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,
    input  logic                 start_i,        // pulse, with the stream
    input  stream_t              stream_i,       // stable while in use

    input  logic                 beat_valid_i,
    output logic                 beat_ready_o,
    input  logic [DataWidth-1:0] beat_i,

    output logic                 word_valid_o,
    input  logic                 word_ready_i,
    output logic [Lanes*32-1:0]  word_o,
    output logic                 word_last_o,    // of a segment as programs see it
    output logic                 row_taken_o     // pulse: the last beat of a memory row has been taken
);
  localparam int unsigned Elements = DataWidth / 32;  // a clock, at most
  localparam int unsigned Total    = Lanes + Elements;
  localparam int unsigned FillBits = $clog2(Total + 1);

  // ---- position ---------------------------------------------------------------------
  logic [31:0] memory_left_q;          // elements left in the memory row
  logic [31:0] length_left_q;          // elements left in the segment
  logic [1:0] part_q;                  // of a beat of narrow elements
  logic [1:0] parts;                   // parts of a whole beat, minus 1
  logic [FillBits-1:0] fill_q, taken, filled;
  logic flush_q;                       // the next word is the rest of a segment
  logic take, beat_done, memory_ends, segment_ends, emit;

  assign parts        = {stream_i.size[1], stream_i.size != 2'd0};
  assign taken        = (memory_left_q < 32'(Elements)) ? FillBits'(memory_left_q) : FillBits'(Elements);
  assign filled       = fill_q + taken;
  assign memory_ends  = memory_left_q <= 32'(Elements);
  assign segment_ends = length_left_q == 32'(taken);
  assign beat_done    = memory_ends || part_q == parts;

  assign emit         = filled >= FillBits'(Lanes) || segment_ends;
  assign word_valid_o = flush_q || (beat_valid_i && emit);
  assign take         = beat_valid_i && !flush_q && (!emit || word_ready_i);
  assign beat_ready_o = take && beat_done;
  assign word_last_o  = flush_q || (segment_ends && filled <= FillBits'(Lanes));
  assign row_taken_o  = take && memory_ends;

  // ---- elements ---------------------------------------------------------------------
  logic [Elements*32-1:0] widened, wanted;
  logic [Lanes*32-1:0] stage_q;
  logic [Total*32-1:0] combined;

  always_comb begin
    widened = beat_i;
    if (stream_i.size == 2'd1) begin
      for (int unsigned e = 0; e < Elements; e++) begin
        if (part_q[0]) widened[e*32+:32] = {{16{beat_i[DataWidth/2+e*16+15]}}, beat_i[DataWidth/2+e*16+:16]};
        else widened[e*32+:32] = {{16{beat_i[e*16+15]}}, beat_i[e*16+:16]};
      end
    end else if (stream_i.size == 2'd2) begin
      for (int unsigned e = 0; e < Elements; e++) begin
        unique case (part_q)
          2'd0: widened[e*32+:32] = {{24{beat_i[e*8+7]}}, beat_i[e*8+:8]};
          2'd1: widened[e*32+:32] = {{24{beat_i[DataWidth/4+e*8+7]}}, beat_i[DataWidth/4+e*8+:8]};
          2'd2: widened[e*32+:32] = {{24{beat_i[DataWidth/2+e*8+7]}}, beat_i[DataWidth/2+e*8+:8]};
          default: widened[e*32+:32] = {{24{beat_i[3*DataWidth/4+e*8+7]}}, beat_i[3*DataWidth/4+e*8+:8]};
        endcase
      end
    end
    // Behind the end of a memory row the channel's bytes are zero, so nothing is masked here.
    wanted = widened;
    combined = (Total * 32)'(stage_q);
    if (beat_valid_i) combined |= (Total * 32)'(wanted) << {fill_q, 5'd0};
  end

  assign word_o = flush_q ? stage_q : combined[Lanes*32-1:0];

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i || start_i) begin
      fill_q        <= '0;
      flush_q       <= 1'b0;
      part_q        <= '0;
      memory_left_q <= stream_i.seg_len;
      length_left_q <= stream_i.length;
      stage_q       <= '0;
    end else if (flush_q) begin
      if (word_ready_i) begin
        flush_q <= 1'b0;
        fill_q  <= '0;
        stage_q <= '0;
      end
    end else if (take) begin
      part_q        <= beat_done ? '0 : part_q + 2'd1;
      memory_left_q <= memory_ends ? stream_i.seg_len : memory_left_q - 32'(Elements);
      length_left_q <= segment_ends ? stream_i.length : length_left_q - 32'(taken);
      if (!emit) begin
        fill_q  <= filled;
        stage_q <= combined[Lanes*32-1:0];
      end else if (filled > FillBits'(Lanes)) begin
        fill_q  <= filled - FillBits'(Lanes);
        stage_q <= (Lanes * 32)'(combined[Total*32-1:Lanes*32]);
        flush_q <= segment_ends;
      end else begin
        fill_q  <= '0;
        stage_q <= '0;
      end
    end
  end

  if (Lanes < Elements || Lanes > 8 * Elements || (Lanes & (Lanes - 1)) != 0) begin : g_bad_lanes
    $fatal(1, "element_packer: the lanes must be one, two, four or eight memory beats wide");
  end

  logic unused;
  assign unused = &{1'b0, stream_i.addr, stream_i.row_stride, stream_i.batch0_stride, stream_i.batch1_stride,
                    stream_i.seg_stride, stream_i.seg_bytes, stream_i.segs, stream_i.segments, stream_i.row_granules,
                    stream_i.passes, stream_i.bcast, stream_i.enable};

  `NPU_ASSERT_HANDSHAKE(WordHolds, word_valid_o, word_ready_i, {word_last_o, word_o},
                        "a word changed or was withdrawn before it was taken", abort_i || start_i)
endmodule
