// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Turns the integer sums of blocks into float32 and adds them to the
// accumulators:
//
//   v = float32(S) * d;  with minima v = v + float32(sum of i) * m;  acc = acc + v * 2^power
//
// Where a tile holds two blocks, sums leave the array at two places, taps: those
// of its first block in the middle, those of its second one at the bottom. With
// one tap all leave at the bottom. A row of the left operand enters the array as
// two planes, high bytes first; the low one carries its token. The tap combines
// them. A tap has a row at most every second clock, and the middle one's wait a
// clock, so the caller sees to it that both never arrive in one clock (see the
// engine): one pipeline serves both.
//
// What a row and a tile need comes ahead, in their order, and waits in rings: the
// integers' sums and powers of each row's blocks, and scales and minima of each
// tile's columns.
// Reset and abort state: nothing under way, the rings empty.
module block_scaler
  import npu_pkg::*;
  import fp32_pkg::*;
  import vector_alu_pkg::alu_h2f;
  import vector_alu_pkg::alu_i2f;
#(
    parameter int unsigned Tile     = 16,  // columns of the array
    parameter int unsigned Taps     = 2,   // 1 or 2
    parameter int unsigned AddrBits = 10,  // of an accumulator row
    parameter int unsigned Rows     = 64,  // rows that wait at most, a power of two
    parameter int unsigned Tiles    = 8,   // tiles that wait at most, a power of two
    parameter bit          Pipeline = 1'b0 // the addition to an accumulator takes two clocks
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,
    output logic                 busy_o,         // sums are under way

    // ahead of the sums
    input  logic                 row_push_i,
    input  block_info_t [Taps-1:0] row_info_i,   // of its blocks, one for each tap
    input  logic                 tile_push_i,
    input  logic                 tile_minima_i,  // the tile has minima
    input  logic [Taps*Tile*16-1:0] tile_scales_i, // float16 of the columns, of block 0, then of block 1
    input  logic [Taps*Tile*16-1:0] tile_mins_i, // likewise

    // sums of the middle and, last, of the bottom
    input  logic [Taps-1:0]      high_i,         // the high plane's are here; its token comes with the low one's
    input  logic [Taps-1:0]      valid_i,        // the low plane's are here, with their token
    input  logic [Tile*32-1:0]   sums_i [Taps],
    input  logic [AddrBits-1:0]  addr_i [Taps],
    input  logic [Taps-1:0]      first_i,        // the accumulation begins with this tile
    input  logic [Taps-1:0]      last_i,         // it ends with this tile
    input  logic [Taps-1:0]      tile_last_i,    // the last row of the tile
    output logic [Tile*32-1:0]   combined_o,     // with one tap: the sums of both planes, with those of the low one

    // accumulators: data follows a read by one clock
    output logic                 read_o,
    output logic [AddrBits-1:0]  read_addr_o,
    input  logic [Tile*32-1:0]   read_data_i,

    output logic                 valid_o,
    output logic                 result_o,       // with valid_o: a result, not an accumulator
    output logic                 tile_done_o,    // with valid_o: the last row of a tile, done with
    output logic [AddrBits-1:0]  addr_o,
    output logic [Tile*32-1:0]   data_o
);
  localparam int unsigned RowBits  = $clog2(Rows);
  localparam int unsigned TileBits = $clog2(Tiles);

  typedef fp32_t row_t [Tile];

  // ---- rings ----------------------------------------------------------------------------
  block_info_t [Taps-1:0] info_q [Rows];
  logic [RowBits:0] rows_in_q, rows_out_q [Taps];
  logic [Taps*Tile*16-1:0] scales_q [Tiles], mins_q [Tiles];
  logic [Tiles-1:0] minima_q;
  logic [TileBits:0] tiles_in_q, tiles_out_q [Taps];

  always_ff @(posedge clk_i) begin
    if (row_push_i) info_q[rows_in_q[RowBits-1:0]] <= row_info_i;
    if (tile_push_i) begin
      scales_q[tiles_in_q[TileBits-1:0]] <= tile_scales_i;
      minima_q[tiles_in_q[TileBits-1:0]] <= tile_minima_i;
      if (tile_minima_i) mins_q[tiles_in_q[TileBits-1:0]] <= tile_mins_i;
    end
  end

  // ---- taps --------------------------------------------------------------------------------
  localparam int unsigned Bottom = Taps - 1;

  typedef struct packed {
    logic                valid;
    logic                tap;
    logic [AddrBits-1:0] addr;
    logic                first;
    logic                last;
    logic                tile_last;
  } token_t;

  logic [Tile*32-1:0] high_q [Taps], middle;
  token_t middle_token;

  function automatic logic [Tile*32-1:0] combined(input logic [Tile*32-1:0] high, input logic [Tile*32-1:0] low);
    for (int unsigned c = 0; c < Tile; c++) combined[c*32+:32] = (high[c*32+:32] << 8) + low[c*32+:32];
  endfunction

  always_ff @(posedge clk_i) begin
    for (int unsigned t = 0; t < Taps; t++) if (high_i[t]) high_q[t] <= sums_i[t];
  end

  if (Taps == 2) begin : g_middle
    logic [Tile*32-1:0] middle_q;
    token_t middle_token_q;
    always_ff @(posedge clk_i) begin
      if (valid_i[0]) middle_q <= combined(high_q[0], sums_i[0]);
    end
    always_ff @(posedge clk_i) begin
      if (!rst_ni || abort_i) middle_token_q <= '0;
      else
        middle_token_q <= '{
            valid: valid_i[0],
            tap: 1'b0,
            addr: addr_i[0],
            first: first_i[0],
            last: last_i[0],
            tile_last: tile_last_i[0]
        };
    end
    assign combined_o   = '0;
    assign middle       = middle_q;
    assign middle_token = middle_token_q;
  end else begin : g_no_middle
    assign combined_o   = combined(high_q[Bottom], sums_i[Bottom]);
    assign middle       = '0;
    assign middle_token = '0;
  end

  // ---- pipeline ------------------------------------------------------------------------------
  // A stage is named after what its registers hold.
  localparam int unsigned Summed = 0, Floated = 1, Multiplied = 2, Offset = 3, Scaled = 4;
  localparam int unsigned Added = Pipeline ? 6 : 5, Stages = Added + 1;
  token_t entering;
  token_t token_q [Stages];
  block_info_t entering_info;
  block_info_t stage_info_q [Scaled];
  logic [TileBits-1:0] entering_tile;
  logic [Stages-1:0] stage_minima_q;
  row_t float_q, product_q, term_q, offset_q, scaled_q, total_q;
  row_t factor_q [Taps], minimum_q [Taps];
  logic [Tile*32-1:0] sums_q;
  logic [Taps-1:0] known_q;  // the factors of the tap are those of its tile
  fp32_t row_sum_q;

  always_comb begin
    entering = '0;
    if (middle_token.valid) entering = middle_token;
    else if (valid_i[Bottom])
      entering = '{
          valid: 1'b1,
          tap: 1'(Bottom),
          addr: addr_i[Bottom],
          first: first_i[Bottom],
          last: last_i[Bottom],
          tile_last: tile_last_i[Bottom]
      };
    entering_info = info_q[rows_out_q[entering.tap][RowBits-1:0]][entering.tap];
    entering_tile = tiles_out_q[entering.tap][TileBits-1:0];
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      rows_in_q  <= '0;
      tiles_in_q <= '0;
      known_q    <= '0;
      for (int unsigned t = 0; t < Taps; t++) begin
        rows_out_q[t]  <= '0;
        tiles_out_q[t] <= '0;
      end
      for (int unsigned s = 0; s < Stages; s++) token_q[s] <= '0;
    end else begin
      if (row_push_i) rows_in_q <= rows_in_q + 1'b1;
      if (tile_push_i) tiles_in_q <= tiles_in_q + 1'b1;
      if (entering.valid) begin
        rows_out_q[entering.tap] <= rows_out_q[entering.tap] + 1'b1;
        known_q[entering.tap]    <= !entering.tile_last;
        if (entering.tile_last) tiles_out_q[entering.tap] <= tiles_out_q[entering.tap] + 1'b1;
      end
      token_q[Summed] <= entering;
      for (int unsigned s = 1; s < Stages; s++) token_q[s] <= token_q[s-1];
    end
  end

  function automatic row_t to_float(input logic [Tile*32-1:0] sums);
    for (int unsigned c = 0; c < Tile; c++) to_float[c] = alu_i2f(sums[c*32+:32]);
  endfunction
  function automatic row_t widened(input logic [Tile*16-1:0] halves);
    for (int unsigned c = 0; c < Tile; c++) widened[c] = alu_h2f({16'd0, halves[c*16+:16]});
  endfunction
  function automatic row_t multiply(input row_t values, input row_t factors);
    for (int unsigned c = 0; c < Tile; c++) multiply[c] = fp32_mul(values[c], factors[c]);
  endfunction
  function automatic row_t multiply_all(input row_t values, input fp32_t factor);
    for (int unsigned c = 0; c < Tile; c++) multiply_all[c] = fp32_mul(values[c], factor);
  endfunction
  function automatic row_t add(input row_t values, input row_t terms);
    for (int unsigned c = 0; c < Tile; c++) add[c] = fp32_add(values[c], terms[c]);
  endfunction
  function automatic row_t scale(input row_t values, input logic [8:0] power);
    for (int unsigned c = 0; c < Tile; c++) scale[c] = fp32_scale(values[c], {{23{power[8]}}, power});
  endfunction
  function automatic row_t all(input fp32_t value);
    for (int unsigned c = 0; c < Tile; c++) all[c] = value;
  endfunction

  row_t accumulated;
  for (genvar c = 0; c < Tile; c++) begin : g_lanes
    assign accumulated[c]    = (token_q[Scaled].first && !token_q[Scaled].tap) ? 32'd0 : read_data_i[c*32+:32];
    assign data_o[c*32+:32]  = total_q[c];
  end

  always_ff @(posedge clk_i) begin
    if (entering.valid) begin
      sums_q                 <= (entering.tap == 1'(Bottom)) ? combined(high_q[Bottom], sums_i[Bottom]) : middle;
      stage_info_q[Summed]   <= entering_info;
      stage_minima_q[Summed] <= minima_q[entering_tile];
      if (!known_q[entering.tap]) begin
        factor_q[entering.tap] <= widened(scales_q[entering_tile][32'(entering.tap)*Tile*16+:Tile*16]);
        if (minima_q[entering_tile]) begin
          minimum_q[entering.tap] <= widened(mins_q[entering_tile][32'(entering.tap)*Tile*16+:Tile*16]);
        end
      end
    end
    if (token_q[Summed].valid) begin
      float_q                 <= to_float(sums_q);
      row_sum_q               <= alu_i2f({{11{stage_info_q[Summed].sum[20]}}, stage_info_q[Summed].sum});
      stage_info_q[Floated]   <= stage_info_q[Summed];
      stage_minima_q[Floated] <= stage_minima_q[Summed];
    end
    if (token_q[Floated].valid) begin
      product_q                  <= multiply(float_q, factor_q[token_q[Floated].tap]);
      stage_info_q[Multiplied]   <= stage_info_q[Floated];
      stage_minima_q[Multiplied] <= stage_minima_q[Floated];
      if (stage_minima_q[Floated]) term_q <= multiply_all(minimum_q[token_q[Floated].tap], row_sum_q);
    end
    if (token_q[Multiplied].valid) begin
      stage_info_q[Offset] <= stage_info_q[Multiplied];
      if (stage_minima_q[Multiplied]) offset_q <= add(product_q, term_q);
      else offset_q <= product_q;
    end
    if (token_q[Offset].valid) begin
      // A block of zeros counts as zero whatever its factors are.
      if (stage_info_q[Offset].zero) scaled_q <= all('0);
      else if (stage_info_q[Offset].special) scaled_q <= all(CanonicalNan);
      else scaled_q <= scale(offset_q, stage_info_q[Offset].power);
    end
  end

  if (Pipeline) begin : g_pipeline
    typedef logic flags_t [Tile];

    row_t added_q, exponent_q, sign_q;
    flags_t infinite_q, nan_q;

    function automatic void add_begin(input row_t values, input row_t terms, output row_t added, output row_t exponent,
                                      output row_t sign, output flags_t infinite, output flags_t nan);
      for (int unsigned c = 0; c < Tile; c++)
        fp32_add_begin(values[c], terms[c], added[c], exponent[c], sign[c], infinite[c], nan[c]);
    endfunction
    function automatic row_t add_end(input row_t added, input row_t exponent, input row_t sign, input flags_t infinite,
                                     input flags_t nan);
      for (int unsigned c = 0; c < Tile; c++)
        add_end[c] = fp32_add_end(added[c], exponent[c], sign[c], infinite[c], nan[c]);
    endfunction

    always_ff @(posedge clk_i) begin
      if (token_q[Scaled].valid) begin
        row_t added, exponent, sign;
        flags_t infinite, nan;
        add_begin(accumulated, scaled_q, added, exponent, sign, infinite, nan);
        added_q    <= added;
        exponent_q <= exponent;
        sign_q     <= sign;
        infinite_q <= infinite;
        nan_q      <= nan;
      end
      if (token_q[Scaled+1].valid) total_q <= add_end(added_q, exponent_q, sign_q, infinite_q, nan_q);
    end
  end else begin : g_one_clock
    always_ff @(posedge clk_i) begin
      if (token_q[Scaled].valid) total_q <= add(accumulated, scaled_q);
    end
  end

  assign read_o      = token_q[Offset].valid && !(token_q[Offset].first && !token_q[Offset].tap);
  assign read_addr_o = token_q[Offset].addr;
  assign valid_o     = token_q[Added].valid;
  assign result_o    = token_q[Added].last && token_q[Added].tap == 1'(Bottom);
  assign tile_done_o = token_q[Added].tile_last && token_q[Added].tap == 1'(Bottom);
  assign addr_o      = token_q[Added].addr;

  always_comb begin
    busy_o = middle_token.valid;
    for (int unsigned s = 0; s < Stages; s++) busy_o |= token_q[s].valid;
  end

  `NPU_ASSERT(OneRow, !(middle_token.valid && valid_i[Bottom]), "sums of both taps arrived in one clock")
  `NPU_ASSERT(RowsKnown, !entering.valid || rows_out_q[entering.tap] != rows_in_q, "sums came before their row's facts")
  `NPU_ASSERT(TilesKnown, !entering.valid || tiles_out_q[entering.tap] != tiles_in_q, "sums came before their scales")
  `NPU_ASSERT(RoomForRow, !row_push_i || (RowBits + 1)'(rows_in_q - rows_out_q[Bottom]) != (RowBits + 1)'(Rows),
              "the ring of rows overflows")
  `NPU_ASSERT(RoomForTile, !tile_push_i || (TileBits + 1)'(tiles_in_q - tiles_out_q[Bottom]) != (TileBits + 1)'(Tiles),
              "the ring of tiles overflows")

  if (Taps != 1 && Taps != 2) begin : g_bad_taps
    $fatal(1, "block_scaler: Taps must be 1 or 2");
  end
endmodule
