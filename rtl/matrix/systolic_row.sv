// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// One row of the systolic array: Cols cells that share an activation. Each cell
// holds a weight and its successor. It multiplies, and adds the product to the
// partial sum from above: one float32 product to a float32, or the sum of four
// int8 products to an int32. Every step has its own enable, so an empty row, and
// the arithmetic of the other kind, cost nothing. With Pipeline the addition takes two
// clocks: the first one rounds the product and adds, the second one normalizes and
// rounds the sum.
//
// The cells are unpacked arrays, and functions compute them as a whole, so a
// simulator can evaluate them with vector instructions.
// There is no reset: the enables say when a register's contents are valid.
module systolic_row
  import fp32_pkg::*;
#(
    parameter int unsigned Cols     = 16,   // cells, at least 1
    parameter bit          Pipeline = 1'b0  // an addition takes two clocks
) (
    input  logic  clk_i,
    input  logic  write_i,        // next weights
    input  fp32_t write_data_i [Cols],
    input  logic  swap_i,         // the next weights become the weights
    input  logic  multiply_i,
    input  logic  multiply_integer_i,  // with multiply_i: int8
    input  logic  multiply_unsigned_i, // with multiply_integer_i: the activation's bytes have no sign
    input  fp32_t activation_i,
    input  logic  add_i,          // one clock after multiply_i
    input  logic  add_integer_i,
    input  logic  finish_i,       // with Pipeline: one clock after add_i
    input  logic  finish_integer_i,
    input  fp32_t sum_i [Cols],
    output fp32_t sum_o [Cols]
);
  // Without inlining the simulator compiles one row and uses it for all.
  /* verilator no_inline_module */

  typedef fp32_t row_t [Cols];

  row_t next_q, weight_q, product_q, sum_q;

  function automatic logic [31:0] widen(input logic [7:0] value);
    widen = {{24{value[7]}}, value};
  endfunction

  function automatic row_t multiply_integer(input logic [31:0] activation, input logic without_sign, input row_t weight);
    logic [31:0] sign;
    sign = without_sign ? 32'h0000_00FF : 32'hFFFF_FFFF;
    for (int unsigned c = 0; c < Cols; c++) begin
      logic [31:0] sum;
      sum = '0;
      for (int unsigned i = 0; i < 4; i++) begin
        sum = sum + (widen(activation[i*8+:8]) & sign) * widen(weight[c][i*8+:8]);
      end
      multiply_integer[c] = sum;
    end
  endfunction

  function automatic row_t add_integer(input row_t sum, input row_t product);
    for (int unsigned c = 0; c < Cols; c++) add_integer[c] = sum[c] + product[c];
  endfunction

  always_ff @(posedge clk_i) begin
    if (write_i) next_q <= write_data_i;
    if (swap_i) weight_q <= next_q;
  end

  if (Pipeline) begin : g_pipeline
    typedef logic flags_t [Cols];

    row_t round_q, added_q, exponent_q, sign_q;
    flags_t infinite_q, nan_q;

    function automatic void multiply(input fp32_t activation, input row_t weight, output row_t word, output row_t round);
      for (int unsigned c = 0; c < Cols; c++) fp32_mul_begin(activation, weight[c], word[c], round[c]);
    endfunction
    function automatic void add(input row_t sum, input row_t word, input row_t round, output row_t added,
                                output row_t exponent, output row_t sign, output flags_t infinite, output flags_t nan);
      for (int unsigned c = 0; c < Cols; c++)
        fp32_add_begin(sum[c], word[c] + round[c], added[c], exponent[c], sign[c], infinite[c], nan[c]);
    endfunction
    function automatic row_t finish(input row_t added, input row_t exponent, input row_t sign, input flags_t infinite,
                                    input flags_t nan);
      for (int unsigned c = 0; c < Cols; c++)
        finish[c] = fp32_add_end(added[c], exponent[c], sign[c], infinite[c], nan[c]);
    endfunction

    always_ff @(posedge clk_i) begin
      if (multiply_i) begin
        if (multiply_integer_i) product_q <= multiply_integer(activation_i, multiply_unsigned_i, weight_q);
        else begin
          row_t word, round;
          multiply(activation_i, weight_q, word, round);
          product_q <= word;
          round_q   <= round;
        end
      end
      if (add_i) begin
        if (add_integer_i) added_q <= add_integer(sum_i, product_q);
        else begin
          row_t added, exponent, sign;
          flags_t infinite, nan;
          add(sum_i, product_q, round_q, added, exponent, sign, infinite, nan);
          added_q    <= added;
          exponent_q <= exponent;
          sign_q     <= sign;
          infinite_q <= infinite;
          nan_q      <= nan;
        end
      end
      if (finish_i) begin
        if (finish_integer_i) sum_q <= added_q;
        else sum_q <= finish(added_q, exponent_q, sign_q, infinite_q, nan_q);
      end
    end
  end else begin : g_one_clock
    function automatic row_t multiply(input fp32_t activation, input row_t weight);
      for (int unsigned c = 0; c < Cols; c++) multiply[c] = fp32_mul(activation, weight[c]);
    endfunction
    function automatic row_t add(input row_t sum, input row_t product);
      for (int unsigned c = 0; c < Cols; c++) add[c] = fp32_add(sum[c], product[c]);
    endfunction

    always_ff @(posedge clk_i) begin
      if (multiply_i) begin
        if (multiply_integer_i) product_q <= multiply_integer(activation_i, multiply_unsigned_i, weight_q);
        else product_q <= multiply(activation_i, weight_q);
      end
      if (add_i) begin
        if (add_integer_i) sum_q <= add_integer(sum_i, product_q);
        else sum_q <= add(sum_i, product_q);
      end
    end

    logic unused_finish;
    assign unused_finish = &{1'b0, finish_i, finish_integer_i};
  end

  assign sum_o = sum_q;
endmodule
