// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Fetches the vectors of the epilogue for one result block at a time: the
// columns' scales, the columns' bias, the rows' scales.
//
// In memory the columns' vectors that are in use follow each other: N scales,
// then N values of the bias. The M scales of the rows have an address of their
// own.
// Reset and abort state: nothing held.
module epilogue_loader
  import npu_pkg::*;
  import fp32_pkg::*;
#(
    parameter int unsigned DataWidth = 256,  // bits of a memory beat: 64, 128, 256 or 512; two to eight beats an entry
    parameter int unsigned Tile      = 16,   // rows and columns of the array, a power of two from 4 to 64
    parameter int unsigned BlockM    = 128,  // most rows of a block, a power of two
    parameter int unsigned BlockN    = 512   // most columns of a block, a power of two from 2 * Tile
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,
    output logic                 awake_o,        // the next edge of clk_i changes something

    // the block; changes only with block_next_i
    input  logic                 block_valid_i,
    input  logic                 block_next_i,
    input  matrix_command_t      command_i,
    input  dim_t                 m0_i,
    input  dim_t                 mb_i,
    input  dim_t                 n0_i,
    input  dim_t                 nb_i,

    output logic                 desc_valid_o,
    input  logic                 desc_ready_i,
    output dma_desc_t            desc_o,
    input  logic                 data_valid_i,
    output logic                 data_ready_o,
    input  logic [DataWidth-1:0] data_i,
    input  logic                 data_row_last_i,

    output logic                 ready_o,        // all vectors of the block have been loaded
    input  dim_t                 row_i,          // in the block
    output fp32_t                row_scale_o,
    input  logic                 column_read_i,
    input  dim_t                 column_tile_i,  // in the block
    output logic [Tile*32-1:0]   column_scales_o, // from the clock after column_read_i on
    input  logic                 bias_read_i,
    input  dim_t                 bias_tile_i,
    output logic [Tile*32-1:0]   bias_o          // from the clock after bias_read_i on
);
  localparam int unsigned BeatWords  = DataWidth / 32;
  localparam int unsigned NTiles     = BlockN / Tile;
  localparam int unsigned TileBits   = $clog2(NTiles);
  localparam int unsigned RowBits    = $clog2(BlockM);
  localparam int unsigned WordBits   = $clog2((BlockM > BlockN) ? BlockM : BlockN);
  localparam int unsigned BeatBits   = $clog2(BeatWords);
  localparam int unsigned NBits      = $clog2(BlockN);

  typedef enum logic [2:0] {
    LoadIdle,
    LoadScales,  // being loaded: columns' scales, the bias, the rows' scales
    LoadBias,
    LoadRows,
    LoadDone
  } load_e;

  load_e state_q, state_d;
  logic asked_q, received, needs;
  logic [WordBits-1:0] word_q;  // of the vector
  logic [31:0] vector_bytes;

  assign needs        = command_i.col_scale || command_i.bias || command_i.row_scale;
  assign ready_o      = block_valid_i && (!needs || state_q == LoadDone);
  assign desc_valid_o = (state_q == LoadScales || state_q == LoadBias || state_q == LoadRows) && !asked_q;
  assign data_ready_o = asked_q;
  assign received     = asked_q && data_valid_i && data_row_last_i;
  assign vector_bytes = 32'(command_i.n) << 2;

  always_comb begin
    desc_o      = '0;
    desc_o.rows = 32'd1;
    if (state_q == LoadRows) begin
      desc_o.addr      = command_i.row_scales + (address_t'(m0_i) << 2);
      desc_o.row_bytes = 32'(mb_i) << 2;
    end else begin
      desc_o.addr      = command_i.columns + (address_t'(n0_i) << 2);
      desc_o.row_bytes = 32'(nb_i) << 2;
      if (state_q == LoadBias && command_i.col_scale) begin
        desc_o.addr = command_i.columns + address_t'(vector_bytes) + (address_t'(n0_i) << 2);
      end
    end
  end

  // The next vector in use after `last`.
  function automatic load_e following(input load_e last, input logic scales, input logic bias, input logic rows);
    following = LoadDone;
    if (rows && last != LoadRows) following = LoadRows;
    if (bias && (last == LoadIdle || last == LoadScales)) following = LoadBias;
    if (scales && last == LoadIdle) following = LoadScales;
  endfunction

  always_comb begin
    state_d = state_q;
    if (block_next_i) state_d = LoadIdle;
    else if ((state_q == LoadIdle && block_valid_i) || received)
      state_d = following(state_q, command_i.col_scale, command_i.bias, command_i.row_scale);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      state_q <= LoadIdle;
      asked_q <= 1'b0;
      word_q  <= '0;
    end else begin
      state_q <= state_d;
      if (received) asked_q <= 1'b0;
      else if (desc_valid_o && desc_ready_i) asked_q <= 1'b1;
      if (asked_q && data_valid_i) word_q <= data_row_last_i ? '0 : word_q + WordBits'(BeatWords);
    end
  end

  // ---- vectors ------------------------------------------------------------------------
  localparam int unsigned EntryBeats = Tile / BeatWords;
  localparam int unsigned LaneBits   = $clog2(Tile);

  logic [EntryBeats-1:0] beat;  // of an entry, that data_i is
  fp32_t rows_q [BlockM];

  assign beat = (asked_q && data_valid_i) ? EntryBeats'(1) << word_q[LaneBits-1:BeatBits] : '0;

  ram_1r1w #(
      .Width(Tile * 32),
      .Depth(NTiles),
      .Lanes(EntryBeats)
  ) u_scales (
      .clk_i,
      .rst_ni,
      .write_i     (state_q == LoadScales ? beat : '0),
      .write_addr_i(word_q[NBits-1:LaneBits]),
      .write_data_i({EntryBeats{data_i}}),
      .read_i      (column_read_i),
      .read_addr_i (column_tile_i[TileBits-1:0]),
      .read_data_o (column_scales_o)
  );

  ram_1r1w #(
      .Width(Tile * 32),
      .Depth(NTiles),
      .Lanes(EntryBeats)
  ) u_bias (
      .clk_i,
      .rst_ni,
      .write_i     (state_q == LoadBias ? beat : '0),
      .write_addr_i(word_q[NBits-1:LaneBits]),
      .write_data_i({EntryBeats{data_i}}),
      .read_i      (bias_read_i),
      .read_addr_i (bias_tile_i[TileBits-1:0]),
      .read_data_o (bias_o)
  );

  always_ff @(posedge clk_i) begin
    if (state_q == LoadRows && asked_q && data_valid_i) begin
      for (int unsigned i = 0; i < BeatWords; i++) rows_q[word_q[RowBits-1:0] + RowBits'(i)] <= data_i[i*32+:32];
    end
  end

  assign row_scale_o = rows_q[row_i[RowBits-1:0]];
  assign awake_o     = state_d != state_q || desc_valid_o || (asked_q && data_valid_i) || column_read_i || bias_read_i;

  logic unused;
  assign unused = &{1'b0, command_i.src1.addr, command_i.src1.row_stride, command_i.src1.batch0_stride,
                    command_i.src1.batch1_stride, command_i.src2.addr, command_i.src2.row_stride,
                    command_i.src2.batch0_stride, command_i.src2.batch1_stride, command_i.dst.addr,
                    command_i.dst.row_stride, command_i.dst.batch0_stride, command_i.dst.batch1_stride,
                    command_i.batch0, command_i.batch1, command_i.m, command_i.k, command_i.trans_a,
                    command_i.trans_b, command_i.blocks, command_i.kind, command_i.src1_half, command_i.src2_half,
                    command_i.result, command_i.use_alpha, command_i.relu, command_i.alpha, row_i[DimBits-1:RowBits],
                    column_tile_i[DimBits-1:TileBits], bias_tile_i[DimBits-1:TileBits]};

  `NPU_ASSERT_HANDSHAKE(DescHolds, desc_valid_o, desc_ready_i, desc_o,
                        "a descriptor changed or was withdrawn before it was taken", abort_i)
endmodule
