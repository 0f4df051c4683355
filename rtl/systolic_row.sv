// One row of the systolic array: Cols float32 cells that share an activation.
// Each cell holds a weight and its successor, multiplies, and adds the product
// to the partial sum from above; every step has its own enable, so a row with
// nothing in it costs nothing.
//
// The cells are unpacked arrays that change as a whole through functions, which
// a simulator can evaluate with vector instructions.
// No reset: the enables say when a register's contents mean something.
module systolic_row
  import fp32_pkg::*;
#(
    parameter int unsigned Cols = 16
) (
    input  logic  clk_i,
    input  logic  write_i,        // next weights
    input  fp32_t write_data_i [Cols],
    input  logic  swap_i,         // the next weights become the weights
    input  logic  multiply_i,
    input  fp32_t activation_i,
    input  logic  add_i,          // one clock after multiply_i
    input  fp32_t sum_i [Cols],
    output fp32_t sum_o [Cols]
);
  // One compiled row serves as all of them.
  /* verilator no_inline_module */

  typedef fp32_t row_t [Cols];

  row_t next_q, weight_q, product_q, sum_q;

  function automatic row_t multiply(input fp32_t activation, input row_t weight);
    for (int unsigned c = 0; c < Cols; c++) multiply[c] = fp32_mul(activation, weight[c]);
  endfunction

  function automatic row_t add(input row_t sum, input row_t product);
    for (int unsigned c = 0; c < Cols; c++) add[c] = fp32_add(sum[c], product[c]);
  endfunction

  always_ff @(posedge clk_i) begin
    if (write_i) next_q <= write_data_i;
    if (swap_i) weight_q <= next_q;
    if (multiply_i) product_q <= multiply(activation_i, weight_q);
    if (add_i) sum_q <= add(sum_i, product_q);
  end

  assign sum_o = sum_q;
endmodule
