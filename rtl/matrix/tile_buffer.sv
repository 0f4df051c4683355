// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Buffers Tile x Tile blocks of 32-bit words between an on-chip memory and the
// array: one is filled row by row while another is read, by rows or by columns.
// Two blocks suffice where all have equal size; more even out different sizes.
//
// A block is complete when its last row is written with last_i; tag_i is the
// same for all its rows. Rows that were not written hold older data: the reader
// masks them. With Early, a block that is read by rows can be read as far as it
// has been written.
// Reset and abort state: all blocks empty.
module tile_buffer #(
    parameter int unsigned Tile    = 16,   // rows and columns of the array, a power of two from 4 to 64
    parameter int unsigned TagBits = 8,    // bits of a block's tag, at least 1
    parameter int unsigned Blocks  = 2,    // blocks in the buffer, a power of two from 2
    parameter bit          Early   = 1'b0  // a block that is read by rows can be read before it is complete
) (
    input  logic                    clk_i,
    input  logic                    rst_ni,
    input  logic                    abort_i,

    output logic                    ready_o,      // a row may be written in the next clock
    input  logic                    write_i,
    input  logic [Tile*32-1:0]      data_i,
    input  logic                    last_i,
    input  logic [TagBits-1:0]      tag_i,

    output logic                    valid_o,      // data_o is valid
    output logic [TagBits-1:0]      tag_o,        // of the block being read
    input  logic                    transpose_i,  // read columns, not rows
    output logic [$clog2(Tile)-1:0] index_o,      // of the row or column on data_o
    output logic [Tile*32-1:0]      data_o,
    input  logic                    next_i,       // go to the next row or column
    input  logic                    release_i     // with next_i: data_o was the block's last row or column
);
  localparam int unsigned LaneBits  = $clog2(Tile);
  localparam int unsigned BlockBits = $clog2(Blocks);

  logic [Tile*32-1:0] storage_q [Blocks*Tile];
  logic [TagBits-1:0] tag_q [Blocks];
  logic [BlockBits:0] filled_q, read_q, count;  // blocks completed, blocks read
  logic [BlockBits-1:0] fill, current;
  logic [LaneBits-1:0] write_row_q, index_q;

  assign count   = filled_q - read_q;
  assign fill    = filled_q[BlockBits-1:0];
  assign current = read_q[BlockBits-1:0];
  assign ready_o = count + (BlockBits + 1)'(write_i && last_i) < (BlockBits + 1)'(Blocks);
  assign valid_o = count != '0 || (Early && !transpose_i && index_q < write_row_q);
  assign tag_o   = tag_q[current];
  assign index_o = index_q;

  always_comb begin
    data_o = '0;
    if (valid_o) begin
      if (transpose_i) begin
        for (int unsigned lane = 0; lane < Tile; lane++) begin
          data_o[lane*32+:32] = storage_q[{current, LaneBits'(lane)}][{index_q, 5'd0}+:32];
        end
      end else begin
        data_o = storage_q[{current, index_q}];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (write_i) begin
      storage_q[{fill, write_row_q}] <= data_i;
      tag_q[fill] <= tag_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      filled_q    <= '0;
      read_q      <= '0;
      write_row_q <= '0;
      index_q     <= '0;
    end else begin
      if (write_i) write_row_q <= last_i ? '0 : write_row_q + 1'b1;
      if (write_i && last_i) filled_q <= filled_q + 1'b1;
      if (next_i) index_q <= release_i ? '0 : index_q + 1'b1;
      if (next_i && release_i) read_q <= read_q + 1'b1;
    end
  end

  if (Blocks < 2 || (Blocks & (Blocks - 1)) != 0) begin : g_bad_blocks
    $fatal(1, "tile_buffer: Blocks must be a power of two of at least 2");
  end

  `NPU_ASSERT(NoOverwrite, !(write_i && count == (BlockBits + 1)'(Blocks)), "a row was written while all blocks were full")
  `NPU_ASSERT(NoEmptyRead, !(next_i && !valid_o), "an empty block was read")
  `NPU_ASSERT_HANDSHAKE(RowHolds, valid_o, next_i, {tag_o, index_o, data_o},
                        "a row changed or was withdrawn before it was taken", abort_i)
endmodule
