// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// An input stream on chip: the words that its channel has delivered, and the
// window through which the program reads them.
//
// A row that fits is kept until END, so all its passes read the on-chip memory
// while the next rows are loaded. A longer row is a queue: its words are dropped
// as the window moves on, and the walker transfers them again for each pass. A
// constant row is kept throughout the command.
//
// Positions count words and are not reset within a command. The memory is a
// ring, addressed by their low bits. A program reads a stream in each row or in
// none, and a read waits for its data. So the window is at most two rows with
// all their passes ahead of the data, and a signed difference of positions needs
// one bit more than that.
// Reset and abort state: empty.
module stream_window
  import vector_pkg::*;
#(
    parameter int unsigned Lanes       = 16,    // float32 lanes, a power of two from 2 to 16
    parameter int unsigned RowElements = 8192,  // most elements of a row that stays on chip, a power of two from 16
    parameter int unsigned BeatBits    = 4      // bits of a word's number within a chunk, at least 1
) (
    input  logic                clk_i,
    input  logic                rst_ni,
    input  logic                abort_i,
    input  logic                start_i,       // pulse, with the stream
    input  stream_t             stream_i,      // stable while in use
    input  logic                resident_i,
    input  logic                constant_i,
    input  logic                drain_i,       // drop the words that still arrive

    input  logic                word_valid_i,
    output logic                word_ready_o,
    input  logic [Lanes*32-1:0] word_i,
    input  logic                word_last_i,   // of a segment

    input  logic [BeatBits-1:0] beat_i,        // word of the window to read
    output logic                ready_o,       // word_o is valid
    output logic                used_up_o,     // all passes are over
    output logic [Lanes*32-1:0] word_o,
    input  logic                advance_i,     // pulse
    input  logic [31:0]         granules_i,    // with advance_i: step in units of 16 elements
    input  logic                row_end_i      // pulse: go on to the next row
);
  localparam int unsigned Words       = RowElements / Lanes;
  localparam int unsigned AddressBits = $clog2(Words);
  localparam int unsigned Granule     = Partials / Lanes;  // words
  localparam int unsigned GranuleBits = $clog2(Granule);
  localparam int unsigned LaneBits    = $clog2(Lanes);

  logic [Lanes*32-1:0] memory_q [Words];

  // A row has fewer than 2^32 elements and 2^20 segments, and a word has at least 2 elements. With each segment rounded
  // up, a row has fewer than 2^32 words. There are at most 15 passes.
  localparam int unsigned PositionBits = 32 + 4 + 2;
  typedef logic [PositionBits-1:0] position_t;
  localparam position_t GranuleWords = position_t'(Granule);

  // ---- filling ------------------------------------------------------------------------
  position_t write_q, keep_q;  // next word to arrive, oldest word to keep
  position_t held;
  logic store;

  assign held         = write_q - keep_q;
  // The difference is negative where the window has passed words that have not arrived.
  assign word_ready_o = drain_i || held[PositionBits-1] || held < position_t'(Words);
  assign store        = word_valid_i && word_ready_o;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i || start_i) write_q <= '0;
    else if (store)
      write_q <= word_last_i ? (write_q + GranuleWords) & ~(GranuleWords - position_t'(1)) : write_q + position_t'(1);
  end

  always_ff @(posedge clk_i) begin
    if (store) memory_q[write_q[AddressBits-1:0]] <= word_i;
  end

  // ---- the window -----------------------------------------------------------------------
  position_t row_q, segment_q, place, ahead, row_step;
  logic [31:0] offset_q, moved;  // words, within the segment
  logic [31:0] row_words, segment_words, pass_words;
  logic [24:0] segment_no_q;
  logic [3:0] pass_q;
  logic segment_done, row_done;

  assign row_words     = stream_i.row_granules << GranuleBits;
  // Words that hold elements; further words of the last granule hold none.
  assign segment_words = ((stream_i.length - 32'd1) >> LaneBits) + 32'd1;
  assign pass_words    = (((stream_i.length - 32'd1) >> $clog2(Partials)) + 32'd1) << GranuleBits;
  assign row_step      = position_t'(row_words) * (resident_i ? position_t'(1) : position_t'(stream_i.passes));

  assign place     = segment_q + position_t'(offset_q) + (stream_i.bcast ? '0 : position_t'(beat_i));
  assign ahead     = write_q - place;
  assign used_up_o = pass_q >= stream_i.passes;

  logic beyond;
  assign beyond  = !stream_i.bcast && offset_q + 32'(beat_i) >= segment_words;
  assign ready_o = beyond || (ahead != '0 && !ahead[PositionBits-1]);

  always_comb begin
    if (beyond) word_o = '0;
    else if (stream_i.bcast) word_o = {Lanes{memory_q[place[AddressBits-1:0]][31:0]}};
    else word_o = memory_q[place[AddressBits-1:0]];
  end

  assign moved        = offset_q + (granules_i << GranuleBits);
  assign segment_done = moved >= segment_words;
  assign row_done     = segment_done && segment_no_q + 25'd1 == stream_i.segments;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i || start_i) begin
      row_q        <= '0;
      segment_q    <= '0;
      offset_q     <= '0;
      segment_no_q <= '0;
      pass_q       <= '0;
      keep_q       <= '0;
    end else if (row_end_i) begin
      offset_q     <= '0;
      segment_no_q <= '0;
      pass_q       <= '0;
      if (constant_i) begin
        segment_q <= '0;
      end else begin
        row_q     <= row_q + row_step;
        segment_q <= row_q + row_step;
        keep_q    <= row_q + row_step;
      end
    end else if (advance_i && !stream_i.bcast && !used_up_o) begin
      if (segment_done) begin
        offset_q     <= '0;
        segment_no_q <= row_done ? '0 : segment_no_q + 25'd1;
        segment_q    <= (row_done && resident_i) ? row_q : segment_q + position_t'(pass_words);
        if (row_done) pass_q <= pass_q + 4'd1;
        if (!resident_i) keep_q <= segment_q + position_t'(pass_words);
      end else begin
        offset_q <= moved;
        if (!resident_i) keep_q <= segment_q + position_t'(moved);
      end
    end
  end

  logic unused;
  assign unused = &{1'b0, stream_i.addr, stream_i.row_stride, stream_i.batch0_stride, stream_i.batch1_stride,
                    stream_i.seg_stride, stream_i.seg_bytes, stream_i.seg_len, stream_i.segs, stream_i.size,
                    stream_i.enable, place[PositionBits-1:AddressBits]};

  if ((Lanes & (Lanes - 1)) != 0 || Lanes < 2 || Lanes > Partials) begin : g_bad_lanes
    $fatal(1, "stream_window: Lanes must be a power of two from 2 to 16");
  end
  if ((RowElements & (RowElements - 1)) != 0 || RowElements < Partials) begin : g_bad_row
    $fatal(1, "stream_window: RowElements must be a power of two of at least 16");
  end
endmodule
