// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// Turns rows of float32 into block floating point: blocks of 32 values, of each
// of which remain an integer of 16 bits and, for the block, an exponent.
//
//   e from max|x| = f * 2^e, 1/2 <= f < 1;  i = x * 2^(15 - e), nearest even, limited to 16 bits
//
// One block makes an entry, or two do, the last one of a row alone if need be:
// one plane holds the high bytes of the integers, the other one the low bytes. A
// block is collected for its greatest value, then converted beat by beat while
// the next one arrives, so data is taken in every clock. An entry follows its
// last beat after a block's beats and one clock, and stays for one more clock,
// but for the first beat's values of each plane.
// Reset and abort state: empty.
module block_converter
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth = 256,  // bits of a beat: 64, 128 or 256
    parameter int unsigned Blocks    = 2     // blocks of an entry: 1 or 2
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic                   abort_i,
    output logic                   busy_o,      // the next edge of clk_i changes something, even without a beat

    input  logic                   valid_i,     // a beat; a row consists of whole blocks
    input  logic [DataWidth-1:0]   data_i,
    input  logic                   row_last_i,

    output logic                   valid_o,     // an entry
    output logic [Blocks*BlockValues*8-1:0] high_o,  // bytes; those of a missing second block are anything
    output logic [Blocks*BlockValues*8-1:0] low_o,
    output block_info_t [Blocks-1:0] info_o,    // of its blocks; a missing one counts as zeros
    output logic                   row_last_o
);
  localparam int unsigned Words = DataWidth / 32;        // values of a beat
  localparam int unsigned Beats = BlockValues / Words;   // of a block
  localparam int unsigned BeatBits = $clog2(Beats);

  // ---- collect a block, and find its greatest value -----------------------------------
  logic [BlockValues*32-1:0] work_q;
  logic [BlockValues*32-1:DataWidth] block_q;  // the beats before this one
  logic [BeatBits-1:0] beat_q;
  logic [30:0] most_q, most;
  logic block_end;

  // The greatest value of a beat is at the root of a tree: a chain through eight values would be a longest path.
  logic [2*Words-1:1][30:0] greatest;
  always_comb begin
    greatest = '0;
    for (int unsigned w = 0; w < Words; w++) greatest[Words+w] = data_i[w*32+:31];
    for (int unsigned n = Words - 1; n > 0; n--)
      greatest[n] = (greatest[2*n] > greatest[2*n+1]) ? greatest[2*n] : greatest[2*n+1];
    most = (beat_q != '0 && most_q > greatest[1]) ? most_q : greatest[1];
  end
  assign block_end = valid_i && beat_q == BeatBits'(Beats - 1);

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) beat_q <= '0;
    else if (valid_i) beat_q <= beat_q + 1'b1;
  end
  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      most_q  <= most;
      block_q <= {data_i, block_q[BlockValues*32-1:2*DataWidth]};
    end
  end

  // ---- the block's exponent --------------------------------------------------------------
  // A value is its significand times 2^(exponent - 150). That of the greatest one has its leading bit at 23 after
  // `places` to the left, which are more than zero only if all are subnormal.
  logic [4:0] places;
  always_comb begin
    places = '0;
    if (most[30:23] == '0) begin
      for (int unsigned bit_no = 0; bit_no < 23; bit_no++) begin
        if (most[bit_no]) places = 5'd23 - 5'(bit_no);
      end
    end
  end

  logic [7:0] exponent_q;  // of the greatest value, 1 for a subnormal
  logic [4:0] places_q;
  logic zero_q, special_q, last_q, active_q;
  logic [BeatBits-1:0] step_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      active_q <= 1'b0;
      step_q   <= '0;
    end else if (block_end) begin
      active_q <= 1'b1;
      step_q   <= '0;
    end else if (active_q) begin
      active_q <= step_q != BeatBits'(Beats - 1);
      step_q   <= step_q + 1'b1;
    end
  end
  always_ff @(posedge clk_i) begin
    if (block_end) begin
      work_q     <= {data_i, block_q};
      exponent_q <= (most[30:23] == '0) ? 8'd1 : most[30:23];
      places_q   <= places;
      zero_q     <= most == '0;
      special_q  <= most[30:23] == 8'hFF;
      last_q     <= row_last_i;
    end else if (active_q) begin
      work_q <= work_q >> DataWidth;
    end
  end

  // ---- convert a beat ----------------------------------------------------------------------
  // The significand with 15 bits below it, the lowest one before the point: a shift to the right of 23 and the
  // difference of the exponents leaves the integer and a bit to round.
  function automatic logic [15:0] integer_of(input logic [31:0] value, input logic [7:0] exponent,
                                             input logic [4:0] left);
    logic [38:0] wide;
    logic [16:0] kept;
    logic [7:0] own, shift;
    logic sticky;
    logic [15:0] magnitude;
    own    = (value[30:23] == '0) ? 8'd1 : value[30:23];
    shift  = exponent - own;
    shift  = ((shift > 8'd16) ? 8'd16 : shift) + 8'd23 - 8'(left);
    wide   = {value[30:23] != '0, value[22:0], 15'd0};
    kept   = 17'(wide >> shift);
    sticky = (wide & ((39'd1 << shift) - 39'd1)) != '0;
    magnitude = kept[16:1] + 16'(kept[0] && (sticky || kept[1]));
    // The greatest magnitude is 2^15, which only a negative integer can have.
    if (magnitude[15] && !value[31]) magnitude = 16'h7FFF;
    integer_of = value[31] ? 16'd0 - magnitude : magnitude;
  endfunction

  logic [Words-1:0][15:0] integers;
  logic [20:0] sum, sum_q;
  always_comb begin
    integers = '0;
    sum      = (step_q == '0) ? '0 : sum_q;
    if (active_q) begin
      for (int unsigned w = 0; w < Words; w++) begin
        integers[w] = integer_of(work_q[w*32+:32], exponent_q, places_q);
        sum         = sum + {{5{integers[w][15]}}, integers[w]};
      end
    end
  end

  // ---- planes ------------------------------------------------------------------------------
  logic [Blocks-1:0][BlockValues*8-1:0] high_q, low_q;
  block_info_t [Blocks-1:0] info_q;
  logic valid_q, row_last_q, converted;
  logic place, ends;  // of the block in the entry; it ends the entry
  assign converted = active_q && step_q == BeatBits'(Beats - 1);

  if (Blocks == 2) begin : g_pairs
    logic second_q;
    always_ff @(posedge clk_i) begin
      if (!rst_ni || abort_i) second_q <= 1'b0;
      else if (converted) second_q <= !second_q && !last_q;
    end
    assign place = second_q;
    assign ends  = second_q || last_q;
  end else begin : g_single
    assign place = 1'b0;
    assign ends  = 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) valid_q <= 1'b0;
    else valid_q <= converted && ends;
  end
  always_ff @(posedge clk_i) begin
    if (active_q) begin
      sum_q <= sum;
      for (int unsigned w = 0; w < Words; w++) begin
        high_q[place][(32'(step_q)*Words+w)*8+:8] <= integers[w][15:8];
        low_q[place][(32'(step_q)*Words+w)*8+:8]  <= integers[w][7:0];
      end
    end
    if (converted) begin
      row_last_q <= last_q;
      info_q[place] <= '{
          sum: sum,
          power: 9'(exponent_q) - 9'd141 - 9'(places_q),  // e - 15
          zero: zero_q,
          special: special_q
      };
      if (Blocks == 2 && !place) info_q[Blocks-1] <= '{sum: '0, power: '0, zero: 1'b1, special: 1'b0};
    end
  end

  assign busy_o     = active_q || valid_q;
  assign valid_o    = valid_q;
  assign high_o     = high_q;
  assign low_o      = low_q;
  assign info_o     = info_q;
  assign row_last_o = row_last_q;

  if (DataWidth != 64 && DataWidth != 128 && DataWidth != 256) begin : g_bad_width
    $fatal(1, "block_converter: DataWidth must be 64, 128 or 256");
  end
  if (Blocks != 1 && Blocks != 2) begin : g_bad_blocks
    $fatal(1, "block_converter: an entry has 1 or 2 blocks");
  end
endmodule
