// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Turns a stream of row numbers into transfers of those rows of a table.
// Reset and abort state: idle.
module row_gatherer
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth = 256  // bits of a memory beat, a power of two from 32 to 1024
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,
    input  logic                 start_i,         // pulse, with the following inputs
    input  address_t             table_address_i,
    input  logic [31:0]          table_rows_i,
    input  logic [31:0]          row_bytes_i,
    input  address_t             index_address_i, // of the row numbers, for the address of a bad one
    input  logic [24:0]          count_i,         // row numbers

    input  logic                 beat_valid_i,    // row numbers, int32
    output logic                 beat_ready_o,
    input  logic [DataWidth-1:0] beat_i,

    output logic                 busy_o,          // transfers are left
    output logic                 desc_valid_o,
    input  logic                 desc_ready_i,
    output dma_desc_t            desc_o,

    output logic                 fault_o,         // pulse: a row number outside the table
    output address_t             fault_address_o
);
  localparam int unsigned Numbers    = DataWidth / 32;  // a beat
  localparam int unsigned NumberBits = (Numbers > 1) ? $clog2(Numbers) : 1;

  logic [24:0] left_q;
  logic [NumberBits-1:0] place_q;
  logic [31:0] number;
  address_t address_q, row_address_q;
  logic desc_valid_q, step, last, place_ends;

  assign number     = 32'(beat_i >> {place_q, 5'd0});
  assign last       = left_q == 25'd1;
  assign place_ends = last || place_q == NumberBits'(Numbers - 1);
  assign step       = left_q != '0 && beat_valid_i && (!desc_valid_q || desc_ready_i);
  assign beat_ready_o = step && place_ends;
  assign busy_o       = left_q != '0 || desc_valid_q;
  assign fault_o         = step && number >= table_rows_i;
  assign fault_address_o = address_q;

  assign desc_valid_o = desc_valid_q;
  assign desc_o = '{addr: row_address_q, row_bytes: row_bytes_i, rows: 32'd1, stride: 32'd0};

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i || fault_o) begin
      left_q       <= '0;
      desc_valid_q <= 1'b0;
    end else if (start_i) begin
      left_q <= count_i;
    end else begin
      if (desc_ready_i) desc_valid_q <= 1'b0;
      if (step) begin
        left_q       <= left_q - 25'd1;
        desc_valid_q <= 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      place_q   <= '0;
      address_q <= index_address_i;
    end else if (step) begin
      place_q       <= place_ends ? '0 : place_q + NumberBits'(1);
      address_q     <= address_q + address_t'(4);
      row_address_q <= table_address_i + address_t'(number) * address_t'(row_bytes_i);
    end
  end

  `NPU_ASSERT_HANDSHAKE(DescHolds, desc_valid_o, desc_ready_i, desc_o,
                        "a descriptor changed or was withdrawn before it was taken", abort_i)
endmodule
