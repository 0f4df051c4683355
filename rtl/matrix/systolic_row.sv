// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// One row of the systolic array: Cols cells that share an activation. Each cell
// holds a weight and its successor. It multiplies, and adds the product to the
// partial sum from above: one float32 product to a float32, or the sum of four
// int8 products to an int32. Every step has its own enable, so an empty row, and
// the arithmetic of the other kind, cost nothing.
//
// The cells are unpacked arrays, and functions compute them as a whole, so a
// simulator can evaluate them with vector instructions.
// There is no reset: the enables say when a register's contents are valid.
module systolic_row
  import fp32_pkg::*;
#(
    parameter int unsigned Cols = 16  // cells, at least 1
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
    input  fp32_t sum_i [Cols],
    output fp32_t sum_o [Cols]
);
  // Without inlining the simulator compiles one row and uses it for all.
  /* verilator no_inline_module */

  typedef fp32_t row_t [Cols];

  row_t next_q, weight_q, product_q, sum_q;

  function automatic row_t multiply(input fp32_t activation, input row_t weight);
    for (int unsigned c = 0; c < Cols; c++) multiply[c] = fp32_mul(activation, weight[c]);
  endfunction

  function automatic row_t add(input row_t sum, input row_t product);
    for (int unsigned c = 0; c < Cols; c++) add[c] = fp32_add(sum[c], product[c]);
  endfunction

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
    if (multiply_i) begin
      if (multiply_integer_i) product_q <= multiply_integer(activation_i, multiply_unsigned_i, weight_q);
      else product_q <= multiply(activation_i, weight_q);
    end
    if (add_i) begin
      if (add_integer_i) sum_q <= add_integer(sum_i, product_q);
      else sum_q <= add(sum_i, product_q);
    end
  end

  assign sum_o = sum_q;
endmodule
