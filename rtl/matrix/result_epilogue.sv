// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// Turns sums into results. The command selects the steps; their order is: int32
// to float32, times alpha, times the row's scale, times the column's scale, plus
// bias, relu, conversion to the type of the result. It takes one entry of Tile
// sums a clock and needs Stages clocks.
//
// A step is a function over a whole row, so a simulator can evaluate it with
// vector instructions. A step that is not selected costs nothing.
// Reset and abort state: nothing under way.
module result_epilogue
  import npu_pkg::*;
  import fp32_pkg::*;
  import vector_alu_pkg::*;
#(
    parameter int unsigned Tile = 16  // sums of an entry, at least 1
) (
    input  logic               clk_i,
    input  logic               rst_ni,
    input  logic               abort_i,
    output logic               busy_o,        // entries are under way
    input  matrix_command_t    command_i,     // stable while entries are under way

    input  logic               valid_i,
    input  logic [Tile*32-1:0] sums_i,
    input  dim_t               row_i,         // of the block
    input  dim_t               tile_i,        // of columns of the block

    output dim_t               scale_row_o,   // selects row_scale_i
    input  fp32_t              row_scale_i,
    output logic               scale_read_o,  // column_scales_i of scale_tile_o is needed in the next clock
    output dim_t               scale_tile_o,
    input  logic [Tile*32-1:0] column_scales_i,
    output logic               bias_read_o,   // bias_i of bias_tile_o is needed in the next clock
    output dim_t               bias_tile_o,
    input  logic [Tile*32-1:0] bias_i,

    output logic               valid_o,
    output logic [Tile*32-1:0] result_o       // elements dense from bit 0
);
  typedef fp32_t row_t [Tile];

  // A stage is named after the step that its contents have passed.
  localparam int unsigned Converted = 0, Scaled = 1, RowScaled = 2, ColScaled = 3, Biased = 4, Stages = 5;

  logic [Stages-1:0] valid_q;
  row_t sums, column_scales, bias, converted_q, scaled_q, row_scaled_q, col_scaled_q, biased_q;
  dim_t row_q [Scaled+1];
  dim_t tile_q [RowScaled+1];

  for (genvar c = 0; c < Tile; c++) begin : g_lanes
    assign sums[c]          = sums_i[c*32+:32];
    assign column_scales[c] = column_scales_i[c*32+:32];
    assign bias[c]          = bias_i[c*32+:32];
  end

  function automatic row_t to_float(input row_t values);
    for (int unsigned c = 0; c < Tile; c++) to_float[c] = alu_i2f(values[c]);
  endfunction
  function automatic row_t scale(input row_t values, input fp32_t factor);
    for (int unsigned c = 0; c < Tile; c++) scale[c] = fp32_mul(values[c], factor);
  endfunction
  function automatic row_t multiply(input row_t values, input row_t factors);
    for (int unsigned c = 0; c < Tile; c++) multiply[c] = fp32_mul(values[c], factors[c]);
  endfunction
  function automatic row_t add(input row_t values, input row_t terms);
    for (int unsigned c = 0; c < Tile; c++) add[c] = fp32_add(values[c], terms[c]);
  endfunction
  function automatic row_t relu(input row_t values);
    for (int unsigned c = 0; c < Tile; c++) relu[c] = alu_max(values[c], 32'd0);
  endfunction

  // float32 to int8: nearest even, saturating, NaN 0.
  function automatic logic [7:0] to_int8(input fp32_t value);
    logic signed [31:0] whole;
    whole = signed'(alu_f2i(value, 1'b0));
    to_int8 = (whole > 32'sd127) ? 8'd127 : ((whole < -32'sd128) ? 8'h80 : whole[7:0]);
  endfunction

  assign scale_row_o  = row_q[Scaled];
  assign scale_read_o = valid_q[Scaled] && command_i.col_scale;
  assign scale_tile_o = tile_q[Scaled];
  assign bias_read_o  = valid_q[RowScaled] && command_i.bias;
  assign bias_tile_o  = tile_q[RowScaled];

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) valid_q <= '0;
    else valid_q <= {valid_q[Stages-2:0], valid_i};
  end

  always_ff @(posedge clk_i) begin
    if (valid_i || valid_q != '0) begin
      row_q[Converted]   <= row_i;
      row_q[Scaled]      <= row_q[Converted];
      tile_q[Converted]  <= tile_i;
      tile_q[Scaled]     <= tile_q[Converted];
      tile_q[RowScaled]  <= tile_q[Scaled];
    end
  end

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      if (command_i.kind == TypeInt8 && command_i.result != OutInt32) converted_q <= to_float(sums);
      else converted_q <= sums;
    end
    if (valid_q[Converted]) begin
      if (command_i.use_alpha) scaled_q <= scale(converted_q, command_i.alpha);
      else scaled_q <= converted_q;
    end
    if (valid_q[Scaled]) begin
      if (command_i.row_scale) row_scaled_q <= scale(scaled_q, row_scale_i);
      else row_scaled_q <= scaled_q;
    end
    if (valid_q[RowScaled]) begin
      if (command_i.col_scale) col_scaled_q <= multiply(row_scaled_q, column_scales);
      else col_scaled_q <= row_scaled_q;
    end
    if (valid_q[ColScaled]) begin
      if (command_i.bias) biased_q <= add(col_scaled_q, bias);
      else biased_q <= col_scaled_q;
    end
  end

  row_t active;
  always_comb begin
    active = biased_q;
    if (command_i.relu && valid_q[Biased]) active = relu(biased_q);
    result_o = '0;
    if (valid_q[Biased]) begin
      for (int unsigned c = 0; c < Tile; c++) result_o[c*32+:32] = active[c];
      if (command_i.result == OutOwn) begin
        unique case (command_i.kind)
          TypeBf16: begin
            result_o = '0;
            for (int unsigned c = 0; c < Tile; c++) result_o[c*16+:16] = 16'(alu_f2b(active[c]));
          end
          TypeFp16: begin
            result_o = '0;
            for (int unsigned c = 0; c < Tile; c++) result_o[c*16+:16] = 16'(alu_f2h(active[c]));
          end
          TypeInt8: begin
            result_o = '0;
            for (int unsigned c = 0; c < Tile; c++) result_o[c*8+:8] = to_int8(active[c]);
          end
          default: ;
        endcase
      end
    end
  end
  assign valid_o = valid_q[Biased];
  assign busy_o  = valid_q != '0;

  logic unused;
  assign unused = &{1'b0, command_i.src1.addr, command_i.src1.row_stride, command_i.src1.batch0_stride,
                    command_i.src1.batch1_stride, command_i.src2.addr, command_i.src2.row_stride,
                    command_i.src2.batch0_stride, command_i.src2.batch1_stride, command_i.dst.addr,
                    command_i.dst.row_stride, command_i.dst.batch0_stride, command_i.dst.batch1_stride,
                    command_i.batch0, command_i.batch1, command_i.m, command_i.k, command_i.n, command_i.trans_a,
                    command_i.trans_b, command_i.src1_half, command_i.src2_half, command_i.blocks,
                    command_i.row_scales, command_i.columns};
endmodule
