// Tile x Tile float32 multiply-add array, weights held in place.
//
// Row r holds the weights of one k, column c those of one n. A row of
// activations (one m, Tile values of k) enters all rows one clock apart; each
// value is shared by its row. Partial sums enter at the top and move down one
// row a clock, so every sum takes its products in ascending k. A row works in
// three clocks: take over new weights, multiply, add to the sum from above.
//
//   clock  0: data_i           3: row 0 adds (sum_i is read)
//          1: row 0 weights    3 + r: row r adds
//          2: row 0 multiplies 3 + Tile: sum_o
//
// A second set of weights is written while the first one works; the first
// activation that carries swap_i takes the new set with it, row after row.
//
// The registers are flat unpacked arrays that change as a whole through
// functions: a simulator can then evaluate a row of cells at once, and rows
// with nothing in them cost nothing.
// Reset state: nothing under way.
module systolic_array
  import fp32_pkg::*;
#(
    parameter int unsigned Tile = 16
) (
    input  logic                    clk_i,
    input  logic                    rst_ni,

    input  logic                    weight_write_i,
    input  logic [$clog2(Tile)-1:0] weight_row_i,
    input  logic [Tile*32-1:0]      weight_i,

    input  logic                    valid_i,
    input  logic                    swap_i,   // this and the following rows use the new weights
    input  logic [Tile*32-1:0]      data_i,
    input  logic [Tile*32-1:0]      sum_i,    // three clocks after the row's data_i
    output logic [Tile*32-1:0]      sum_o     // Tile clocks after sum_i
);
  typedef fp32_t row_t [Tile];
  typedef fp32_t grid_t [Tile*Tile];
  typedef fp32_t skew_t [Tile*(Tile+1)];

  row_t  data, sum_top;
  grid_t shadow_q, weight_q, product_q, sum_q;
  skew_t skew_q;                      // level d: the activations of d clocks ago
  logic [Tile:0] valid_q;             // bit d: level d holds a row
  logic [Tile-1:0] swap_q, add_q;

  for (genvar c = 0; c < Tile; c++) begin : g_lanes
    assign data[c]            = data_i[c*32+:32];
    assign sum_top[c]         = sum_i[c*32+:32];
    assign sum_o[c*32+:32]    = sum_q[(Tile-1)*Tile+c];
  end

  function automatic skew_t enter(input row_t top, input skew_t skew);
    for (int unsigned r = 0; r < Tile; r++) enter[r] = top[r];
    for (int unsigned i = Tile; i < Tile * (Tile + 1); i++) enter[i] = skew[i-Tile];
  endfunction

  function automatic grid_t take_weights(input grid_t weight, input grid_t shadow, input logic [Tile-1:0] swap);
    take_weights = weight;
    for (int unsigned r = 0; r < Tile; r++) begin
      if (swap[r]) begin
        for (int unsigned c = 0; c < Tile; c++) take_weights[r*Tile+c] = shadow[r*Tile+c];
      end
    end
  endfunction

  function automatic grid_t multiply(input grid_t product, input skew_t skew, input grid_t weight,
                                     input logic [Tile-1:0] valid);
    multiply = product;
    for (int unsigned r = 0; r < Tile; r++) begin
      if (valid[r]) begin
        for (int unsigned c = 0; c < Tile; c++) begin
          multiply[r*Tile+c] = fp32_mul(skew[(r+1)*Tile+r], weight[r*Tile+c]);
        end
      end
    end
  endfunction

  function automatic grid_t accumulate(input row_t top, input grid_t sum, input grid_t product,
                                       input logic [Tile-1:0] valid);
    fp32_t above [Tile*(Tile+1)];
    for (int unsigned c = 0; c < Tile; c++) above[c] = top[c];
    for (int unsigned i = 0; i < Tile * Tile; i++) above[i+Tile] = sum[i];
    accumulate = sum;
    for (int unsigned r = 0; r < Tile; r++) begin
      if (valid[r]) begin
        for (int unsigned c = 0; c < Tile; c++) begin
          accumulate[r*Tile+c] = fp32_add(above[r*Tile+c], product[r*Tile+c]);
        end
      end
    end
  endfunction

  function automatic grid_t write_weights(input grid_t shadow, input logic [$clog2(Tile)-1:0] row,
                                          input logic [Tile*32-1:0] values);
    write_weights = shadow;
    for (int unsigned c = 0; c < Tile; c++) begin
      write_weights[32'(row)*Tile+c] = values[c*32+:32];
    end
  endfunction

  always_ff @(posedge clk_i) begin
    if (weight_write_i) shadow_q <= write_weights(shadow_q, weight_row_i, weight_i);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q <= '0;
      swap_q  <= '0;
      add_q   <= '0;
    end else begin
      valid_q <= {valid_q[Tile-1:0], valid_i};
      swap_q  <= {swap_q[Tile-2:0], valid_i && swap_i};
      add_q   <= valid_q[Tile:1];
    end
  end

  always_ff @(posedge clk_i) begin
    if (valid_i || valid_q != '0) skew_q <= enter(data, skew_q);
    if (swap_q != '0) weight_q <= take_weights(weight_q, shadow_q, swap_q);
    if (valid_q[Tile:1] != '0) product_q <= multiply(product_q, skew_q, weight_q, valid_q[Tile:1]);
    if (add_q != '0) sum_q <= accumulate(sum_top, sum_q, product_q, add_q);
  end

  if (Tile < 2 || (Tile & (Tile - 1)) != 0) begin : g_bad_tile
    $fatal(1, "systolic_array: Tile must be a power of two of at least 2");
  end
endmodule
