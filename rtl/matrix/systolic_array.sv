// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Weight-stationary array of Tile x Tile multiply-add cells. A cell computes one
// float32 product a clock, or four of int8.
//
// Row r holds the weights of one k, column c those of one n. The values of a row
// of activations (one m, Tile values of k) enter the rows of the array one clock
// apart; all cells of a row share one value. Partial sums enter at the top and
// move down one row a clock, so every sum takes its products in ascending k. A
// row works in three clocks: take new weights, multiply, add.
//
//   clock  0: data_i           3: row 0 adds (sum_i is read)
//          1: row 0 weights    3 + r: row r adds
//          2: row 0 multiplies 3 + Tile: sum_o
//
// Of a row of int8 in halves, the sums of the upper half of the array leave in its
// middle, and those of the lower half start from zero:
//
//   clock  3 + Tile/2: middle_o
//
// With Pipeline the addition of a row takes two clocks. Rows, their new weights included, are then two clocks apart, and
// sums leave at clock 3 + 2 * Tile, those of the middle at clock 3 + Tile.
//
// A second set of weights is written while the first one works. An activation
// with swap_i makes each row that it reaches take the new set.
// Reset state: nothing under way.
module systolic_array
  import fp32_pkg::*;
#(
    parameter int unsigned Tile     = 16,   // rows and columns, a power of two from 2
    parameter bit          Pipeline = 1'b0  // the addition of a row takes two clocks
) (
    input  logic                    clk_i,
    input  logic                    rst_ni,

    input  logic                    weight_write_i,
    input  logic [$clog2(Tile)-1:0] weight_row_i,
    input  logic [Tile*32-1:0]      weight_i,

    input  logic                    valid_i,
    input  logic                    integer_i, // with valid_i: each word is four int8 of consecutive k
    input  logic                    unsigned_i, // with integer_i: the bytes of data_i have no sign
    input  logic                    halves_i, // with integer_i: a sum for each half of the array
    input  logic                    swap_i,   // this and the following rows use the new weights
    input  logic [Tile*32-1:0]      data_i,
    input  logic [Tile*32-1:0]      sum_i,    // three clocks after the row's data_i
    output logic [Tile*32-1:0]      sum_o,    // Tile clocks after sum_i, with Pipeline 2 * Tile
    output logic [Tile*32-1:0]      middle_o, // of the upper half
    output logic                    busy_o    // rows are inside
);
  localparam int unsigned Half = Tile / 2;
  localparam int unsigned Skew = Pipeline ? 2 : 1;  // clocks from row to row
  localparam int unsigned Span = Skew * Tile;

  typedef fp32_t row_t [Tile];

  row_t data, weight;
  row_t sum [Tile+1];                 // [r]: into row r
  logic [Span:0] valid_q;             // bit d: a row came in d + 1 clocks ago
  logic [Span-Skew:0] swap_q;
  logic [Span-1:0] add_q, add_integer_q;  // bit d: d + 3 clocks ago
  logic [Span:0] integer_q, unsigned_q;
  logic [Skew*Half+2:0] halves_q;     // likewise, as far as it is used

  for (genvar c = 0; c < Tile; c++) begin : g_lanes
    assign data[c]         = data_i[c*32+:32];
    assign weight[c]       = weight_i[c*32+:32];
    assign sum[0][c]       = sum_i[c*32+:32];
    assign sum_o[c*32+:32] = sum[Tile][c];
    assign middle_o[c*32+:32] = sum[Half][c];
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q <= '0;
      swap_q  <= '0;
      add_q   <= '0;
      integer_q     <= '0;
      unsigned_q    <= '0;
      halves_q      <= '0;
      add_integer_q <= '0;
    end else begin
      valid_q <= {valid_q[Span-1:0], valid_i};
      swap_q  <= {swap_q[Span-Skew-1:0], valid_i && swap_i};
      add_q   <= valid_q[Span:1];
      integer_q     <= {integer_q[Span-1:0], integer_i};
      unsigned_q    <= {unsigned_q[Span-1:0], unsigned_i};
      halves_q      <= {halves_q[Skew*Half+1:0], halves_i};
      add_integer_q <= integer_q[Span:1];
    end
  end

  // The skew. Activations stay where they are written, and row r of the array reads those of Skew * r + 1 clocks ago: a
  // shift register would move all of them in every clock. Without Pipeline the last row reads what the next activations
  // replace.
  row_t places_q [Span];
  logic [$clog2(Span)-1:0] place_q;
  logic moving;
  assign moving = valid_i || valid_q != '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) place_q <= '0;
    else if (moving) place_q <= place_q + 1'b1;
  end
  always_ff @(posedge clk_i) begin
    if (valid_i) places_q[place_q] <= data;
  end

  logic [Tile-1:0] arriving;  // weights are on their way to a row
  assign busy_o = valid_q != '0 || add_q != '0 || arriving != '0;
  `NPU_ASSERT_RESTS(Rests, valid_i || (Pipeline && weight_write_i) || busy_o, ({valid_q, swap_q, add_q, place_q, arriving}),
                    "the array rests, but a register would change")

  for (genvar r = 0; r < Tile; r++) begin : g_rows
    row_t above;
    logic [31:0] activation_q;
    always_ff @(posedge clk_i) begin
      if (moving) activation_q <= places_q[place_q-($clog2(Span))'(Skew*r+1)][r];
    end
    if (r == Half) begin : g_middle
      for (genvar c = 0; c < Tile; c++) begin : g_above
        assign above[c] = halves_q[Skew*Half+2] ? '0 : sum[r][c];
      end
    end else begin : g_other
      assign above = sum[r];
    end
    // Row r takes new weights Skew * r clocks after row 0. Those that follow are written a row a clock, so with Pipeline
    // they wait r clocks until the row has taken the ones before.
    logic writes, written;
    row_t written_weight;
    assign writes = weight_write_i && weight_row_i == ($clog2(Tile))'(r);
    if (Skew == 2 && r > 0) begin : g_later
      logic [r-1:0] later_q;
      row_t waiting_q;
      always_ff @(posedge clk_i) begin
        if (!rst_ni) later_q <= '0;
        else later_q <= r'({later_q, writes});
      end
      always_ff @(posedge clk_i) begin
        if (writes) waiting_q <= weight;
      end
      assign arriving[r]    = later_q != '0;
      assign written        = later_q[r-1];
      assign written_weight = waiting_q;
      `NPU_ASSERT(OneSet, !(writes && later_q != '0 && !later_q[r-1]),
                  "weights of a row were written while others were on their way to it")
    end else begin : g_at_once
      assign arriving[r]    = 1'b0;
      assign written        = writes;
      assign written_weight = weight;
    end

    systolic_row #(
        .Cols    (Tile),
        .Pipeline(Pipeline)
    ) u_row (
        .clk_i,
        .write_i     (written),
        .write_data_i(written_weight),
        .swap_i      (swap_q[Skew*r]),
        .multiply_i  (valid_q[Skew*r+1]),
        .multiply_integer_i(integer_q[Skew*r+1]),
        .multiply_unsigned_i(unsigned_q[Skew*r+1]),
        .activation_i(activation_q),
        .add_i       (add_q[Skew*r]),
        .add_integer_i(add_integer_q[Skew*r]),
        .finish_i    (add_q[Skew*r+Skew-1]),
        .finish_integer_i(add_integer_q[Skew*r+Skew-1]),
        .sum_i       (above),
        .sum_o       (sum[r+1])
    );
  end

  if (Tile < 2 || (Tile & (Tile - 1)) != 0) begin : g_bad_tile
    $fatal(1, "systolic_array: Tile must be a power of two of at least 2");
  end
endmodule
