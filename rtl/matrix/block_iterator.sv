// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Walks the blocks of a batched matrix product in the order that all parts of
// the matrix engine follow:
//
//   for each outer batch, inner batch, N block, M block, K block
//
// The parts run at their own pace, so each has a walker of its own. K is
// counted in 32-bit words: four elements of int8 or of blocks, or one of another type.
//
// A tile of columns takes BlockM accumulator rows, or half or a quarter of them
// if the product has so few rows: the flatter it is, the more columns an N
// block has. At a quarter, panels are wide: up to twice the columns and half the K
// tiles. With weights in blocks every panel has half the K tiles, because the
// left operand's planes take two entries, and where a block takes two tiles an
// even number of them. The first K blocks of a command are small, because the
// array waits for the first of them.
// Reset and abort state: no block.
module block_iterator
  import npu_pkg::*;
#(
    parameter int unsigned Tile        = 16,   // rows and columns of the array, a power of two from 4 to 64
    parameter int unsigned BlockM      = 128,  // rows of an M block, a power of two from 2 * Tile
    parameter int unsigned BlockKTiles = 4,    // tiles of a K block, a power of two
    parameter int unsigned BlockNTiles = 16,   // tiles of an N block that is not flat, at most; a power of two
    parameter int unsigned AccEntries  = 1024, // accumulator rows, a power of two: 1 to BlockNTiles times BlockM
    parameter bit          WholeK      = 1'b0  // one step for all K blocks of a result block
) (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        abort_i,
    input  logic        start_i,     // pulse while there is no block
    input  matrix_command_t command_i,   // stable from start_i to the last block's end
    input  logic        next_i,      // go on to the next block

    output logic        valid_o,     // the outputs below describe a block
    output logic        end_o,       // pulse: the last block has ended
    output address_t    src1_addr_o, // of the batch
    output address_t    src2_addr_o,
    output address_t    dst_addr_o,
    output dim_t        m0_o,        // first row
    output dim_t        k0_o,        // words
    output dim_t        n0_o,
    output dim_t        mb_o,        // rows
    output dim_t        kb_o,        // words
    output dim_t        nb_o,
    output logic        first_k_o,   // accumulation starts with this block
    output logic        last_k_o,    // accumulation ends with this block
    output logic [1:0]  flat_o       // log2 of BlockM / accumulator rows of a tile of columns
);
  localparam int unsigned BlockK    = BlockKTiles * Tile;
  localparam int unsigned WideTiles = (BlockKTiles > 1) ? 2 * BlockNTiles : BlockNTiles;  // of a flat block

  // Tiles of columns in a block: as many as both the accumulators and the panel memory hold.
  function automatic int unsigned block_tiles(input int unsigned level);
    int unsigned room, most;
    room = AccEntries / (BlockM >> level);
    most = (level == 2) ? WideTiles : BlockNTiles;
    block_tiles = (room < most) ? room : most;
  endfunction

  logic valid_q, first_block_q;
  dim_t m_q, k_q, n_q;
  logic [15:0] batch0_q, batch1_q;
  operand_t src1_q, src2_q, dst_q;       // addr: of the current batch
  address_t outer1_q, outer2_q, outerd_q;  // of the current outer batch

  dim_t depth, n_step, k_most, k_step, m_left, k_left, n_left;
  logic [1:0] flat;
  logic last_m, last_k, last_n, last_b0, last_b1, fours;

  assign valid_o = valid_q;
  assign fours   = command_i.kind == TypeInt8 || command_i.blocks != BlocksNone;
  assign depth   = fours ? (command_i.k + dim_t'(3)) >> 2 : command_i.k;

  always_comb begin
    flat   = 2'd0;
    n_step = dim_t'(block_tiles(0) * Tile);
    k_most = dim_t'(BlockK);
    if (command_i.m <= dim_t'(BlockM / 4)) begin
      flat   = 2'd2;
      n_step = dim_t'(block_tiles(2) * Tile);
      if (BlockKTiles > 1) k_most = dim_t'(BlockK / 2);
    end else if (command_i.m <= dim_t'(BlockM / 2)) begin
      flat   = 2'd1;
      n_step = dim_t'(block_tiles(1) * Tile);
    end
    if (command_i.blocks != BlocksNone) k_most = dim_t'(BlockK / 2);
    // K blocks of the first result block have one tile, one tile, then two tiles each.
    k_step = k_most;
    if (first_block_q && k_most > dim_t'(Tile)) k_step = (k_q < dim_t'(2 * Tile)) ? dim_t'(Tile) : dim_t'(2 * Tile);
    if (first_block_q && command_i.blocks != BlocksNone && splits_blocks(Tile)) k_step = dim_t'(2 * Tile);
  end

  assign m_left    = command_i.m - m_q;
  assign k_left    = depth - k_q;
  assign n_left    = command_i.n - n_q;
  assign last_m    = m_left <= dim_t'(BlockM);
  assign last_k    = WholeK || k_left <= k_step;
  assign last_n    = n_left <= n_step;
  assign last_b0   = batch0_q == 16'd1;
  assign last_b1   = batch1_q == 16'd1;

  assign m0_o = m_q;
  assign k0_o = k_q;
  assign n0_o = n_q;
  assign mb_o = last_m ? m_left : dim_t'(BlockM);
  assign kb_o = last_k ? k_left : k_step;
  assign nb_o = last_n ? n_left : n_step;
  assign flat_o = flat;
  assign first_k_o = k_q == '0;
  assign last_k_o  = last_k;
  assign src1_addr_o = src1_q.addr;
  assign src2_addr_o = src2_q.addr;
  assign dst_addr_o  = dst_q.addr;

  logic step_m, step_n, step_b0, step_b1;
  assign step_m  = next_i && last_k;
  assign step_n  = step_m && last_m;
  assign step_b0 = step_n && last_n;
  assign step_b1 = step_b0 && last_b0;
  assign end_o   = step_b1 && last_b1;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) valid_q <= 1'b0;
    else if (start_i) valid_q <= 1'b1;
    else if (end_o) valid_q <= 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      m_q      <= '0;
      k_q      <= '0;
      n_q      <= '0;
      batch0_q <= command_i.batch0;
      batch1_q <= command_i.batch1;
      src1_q   <= command_i.src1;
      src2_q   <= command_i.src2;
      dst_q    <= command_i.dst;
      outer1_q <= command_i.src1.addr;
      outer2_q <= command_i.src2.addr;
      outerd_q <= command_i.dst.addr;
      first_block_q <= 1'b1;
    end else if (next_i) begin
      k_q <= last_k ? '0 : k_q + k_step;
      if (step_m) begin
        m_q           <= last_m ? '0 : m_q + dim_t'(BlockM);
        first_block_q <= 1'b0;
      end
      if (step_n) n_q <= last_n ? '0 : n_q + n_step;
      if (step_b0) batch0_q <= last_b0 ? command_i.batch0 : batch0_q - 16'd1;
      // Not behind the last batch: a stride that no other batch uses may be anything.
      if (step_b0 && !last_b0) begin
        src1_q.addr <= src1_q.addr + address_t'(src1_q.batch0_stride);
        src2_q.addr <= src2_q.addr + address_t'(src2_q.batch0_stride);
        dst_q.addr  <= dst_q.addr + address_t'(dst_q.batch0_stride);
      end
      if (step_b1 && !last_b1) begin
        batch1_q    <= batch1_q - 16'd1;
        src1_q.addr <= outer1_q + address_t'(src1_q.batch1_stride);
        src2_q.addr <= outer2_q + address_t'(src2_q.batch1_stride);
        dst_q.addr  <= outerd_q + address_t'(dst_q.batch1_stride);
        outer1_q    <= outer1_q + address_t'(src1_q.batch1_stride);
        outer2_q    <= outer2_q + address_t'(src2_q.batch1_stride);
        outerd_q    <= outerd_q + address_t'(dst_q.batch1_stride);
      end
    end
  end

  `NPU_ASSERT(InMemory, !valid_q || (src1_q.addr <= ActivationEnd && src2_q.addr <= ActivationEnd
                                     && dst_q.addr <= ActivationEnd),
              "a batch began beyond device memory")

  logic unused;
  assign unused = &{1'b0, src1_q.row_stride, src2_q.row_stride, dst_q.row_stride, command_i.trans_a,
                    command_i.trans_b, command_i.src1_half, command_i.src2_half, command_i.result,
                    command_i.use_alpha, command_i.row_scale, command_i.col_scale, command_i.bias, command_i.relu,
                    command_i.alpha, command_i.row_scales, command_i.columns};

  if (BlockM < 2 * Tile || BlockM % (2 * Tile) != 0 || (BlockM & (BlockM - 1)) != 0) begin : g_bad_m
    $fatal(1, "block_iterator: BlockM must be a power of two and at least two tiles");
  end
  if ((BlockKTiles & (BlockKTiles - 1)) != 0 || BlockKTiles == 0) begin : g_bad_k
    $fatal(1, "block_iterator: BlockKTiles must be a power of two");
  end
  if ((BlockNTiles & (BlockNTiles - 1)) != 0 || BlockNTiles == 0) begin : g_bad_n
    $fatal(1, "block_iterator: BlockNTiles must be a power of two");
  end
  if ((AccEntries & (AccEntries - 1)) != 0 || AccEntries % BlockM != 0 || AccEntries / BlockM > BlockNTiles) begin : g_bad_acc
    $fatal(1, "block_iterator: AccEntries must be a power of two, and one to BlockNTiles times BlockM");
  end

  `NPU_ASSERT_HANDSHAKE(BlockHolds, valid_o, next_i,
                        {src1_addr_o, src2_addr_o, dst_addr_o, m0_o, k0_o, n0_o, mb_o, kb_o, nb_o, first_k_o, last_k_o,
                         flat_o},
                        "a block changed or was withdrawn before it was done with", abort_i)
endmodule
