// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Turns a list of indices into the transfers of rows to the rows of a table that
// they name: one transfer for each row of each batch, in order.
//
// An index outside of the table is a fault, which waits until the program is
// known to be good: a bad program is always the error of its command. If it is
// the first index, the row that is computed meanwhile is to be discarded.
// Reset and abort state: idle.
module row_scatterer
  import npu_pkg::*;
  import vector_pkg::*;
#(
    parameter int unsigned DataWidth = 256  // bits of a memory beat, a power of two from 64 to 1024
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,
    input  logic                 start_i,      // pulse, with the following inputs, which are stable until busy_o falls
    input  stream_t              table_i,      // its rows are row_stride apart; a row has one segment
    input  stream_t              indices_i,    // of 32 bits (seg_len 1) or 64 (2), one a row
    input  logic [31:0]          table_rows_i, // 1 to MaxTable
    input  logic [24:0]          rows_i,
    input  logic [15:0]          batch0_i,
    input  logic [15:0]          batch1_i,
    input  logic                 proven_i,     // the program has completed a row: it breaks no rule

    input  logic                 beat_valid_i, // an index, from bit 0 on
    output logic                 beat_ready_o,
    input  logic [DataWidth-1:0] beat_i,

    output logic                 busy_o,       // transfers are left
    output logic                 began_o,      // the transfer of the first row has been made
    output logic                 discard_o,    // the first row has no place
    output logic                 desc_valid_o,
    input  logic                 desc_ready_i,
    output dma_desc_t            desc_o,

    output logic                 fault_o,      // pulse: an index outside of the table
    output address_t             fault_address_o
);
  // Where the table of the batch begins, and where the index of the row is. A
  // walker steps row by row if a row has several segments.
  stream_t table_steps, index_steps;
  dma_desc_t table_place, index_place;
  logic table_left, index_left, step, bad, room, stop;
  always_comb begin
    table_steps            = table_i;
    table_steps.row_stride = '0;
    table_steps.segs       = 25'd2;
    index_steps            = indices_i;
    index_steps.segs       = 25'd2;
  end

  assign stop = abort_i || fault_o;

  stream_walker u_table (
      .clk_i,
      .rst_ni,
      .abort_i     (stop),
      .start_i,
      .stream_i    (table_steps),
      .resident_i  (1'b1),
      .constant_i  (1'b0),
      .rows_i,
      .batch0_i,
      .batch1_i,
      .desc_valid_o(table_left),
      .desc_ready_i(step),
      .desc_o      (table_place)
  );

  stream_walker u_indices (
      .clk_i,
      .rst_ni,
      .abort_i     (stop),
      .start_i,
      .stream_i    (index_steps),
      .resident_i  (1'b1),
      .constant_i  (1'b0),
      .rows_i,
      .batch0_i,
      .batch1_i,
      .desc_valid_o(index_left),
      .desc_ready_i(step),
      .desc_o      (index_place)
  );

  logic desc_valid_q, began_q;
  logic [31:0] index;
  address_t row_address_q;

  assign index = beat_i[31:0];
  assign bad   = index >= table_rows_i || (indices_i.seg_len[1] && beat_i[63:32] != '0);
  assign room  = !desc_valid_q || desc_ready_i;
  assign step  = index_left && beat_valid_i && room && !bad;

  assign beat_ready_o    = step;
  assign busy_o          = index_left || desc_valid_q;
  assign began_o         = began_q;
  assign discard_o       = index_left && beat_valid_i && bad && !began_q;
  assign fault_o         = index_left && beat_valid_i && room && bad && proven_i;
  assign fault_address_o = index_place.addr;

  assign desc_valid_o = desc_valid_q;
  assign desc_o = '{addr: row_address_q, row_bytes: table_i.seg_bytes, rows: 32'd1, stride: 32'd0};

  always_ff @(posedge clk_i) begin
    if (!rst_ni || stop) desc_valid_q <= 1'b0;
    else if (step) desc_valid_q <= 1'b1;
    else if (desc_ready_i) desc_valid_q <= 1'b0;
  end
  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i || start_i) began_q <= 1'b0;
    else if (step) began_q <= 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (step) row_address_q <= table_place.addr + address_t'(index) * address_t'(table_i.row_stride);
  end

  logic unused;
  assign unused = &{1'b0, beat_i, table_left, table_place.row_bytes, table_place.rows, table_place.stride,
                    index_place.row_bytes, index_place.rows, index_place.stride, indices_i.seg_len};

  if (DataWidth < 64) begin : g_bad_width
    $fatal(1, "row_scatterer: DataWidth must be at least 64, an index");
  end

  `NPU_ASSERT(StartsIdle, !(start_i && busy_o), "a list was started before the last one was done")
  `NPU_ASSERT(InStep, table_left == index_left, "the table's batches and the list of indices are out of step")
  `NPU_ASSERT_HANDSHAKE(DescHolds, desc_valid_o, desc_ready_i, desc_o,
                        "a descriptor changed or was withdrawn before it was taken", abort_i)
endmodule
