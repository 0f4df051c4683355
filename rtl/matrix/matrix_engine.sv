// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Batched matrix product dst = op(src1) @ op(src2) of any size in one command:
// float32, bfloat16, float16 or int8, or float32 by float16 or by weights in
// blocks, with an epilogue.
//
// Two loaders prefetch panels of the operands into on-chip memories. Two feeders
// bring weights and activations to the systolic array. Sums circulate between
// the array and the accumulator memory; those of the last K tile go into a ring,
// from which they drain to memory. All parts walk the same blocks
// (block_iterator), each at its own pace: only missing data or room stops one.
//
// With weights in blocks the array has two planes of int8 a row and block_scaler
// adds to the accumulators, instead of the array. Where a block takes two tiles,
// the sums of its first one wait in a memory of partial sums, and enter the array
// again beside the low plane of its second one.
//
// Two commands may be under way: while the results of one drain, the operands of
// the next are fetched and multiplied. Its results wait until the first one's
// are in memory. The caller excludes RAW, WAR and WAW hazards between the two.
// While held_i is high for a command, only its right operand is fetched.
// Reset and abort state: idle.
module matrix_engine
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth   = 256,  // bits of a memory beat: 64, 128, 256 or 512; two to eight beats a row
    parameter int unsigned Tile        = 16,   // rows and columns of the array, a power of two from 4 to 64
    parameter int unsigned BlockM      = 128,  // rows of an M block, a power of two from 2 * Tile
    parameter int unsigned BlockKTiles = 4,    // tiles of a K block, a power of two
    parameter int unsigned BlockNTiles = 16,   // tiles of an N block, a power of two; 2 or more beside BlockKTiles 1
    parameter int unsigned AccEntries  = 1024, // accumulator rows: one to BlockNTiles times BlockM, a power of two
    parameter bit          Blocks      = 1'b1, // weights in blocks; see npu_top for the sizes that can have them
    parameter bit          Pipeline    = 1'b0  // an addition takes two clocks, in the array and behind it
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 test_enable_i,  // no clock rests
    output logic                 awake_o,        // commands are inside, or rows in the array
    input  logic                 abort_i,

    output logic                 ready_o,      // a command may start
    input  logic                 start_i,      // pulse, with the command
    input  matrix_command_t      command_i,
    input  logic [1:0]           held_i,       // of each second command since reset or abort; falls once
    output logic                 busy_o,
    output logic                 done_o,       // pulse: the older command's result is in memory
    // The left / right operand's channel fetches for the younger of two commands.
    output logic                 a_next_o,
    output logic                 b_next_o,

    // memory controller: left operand, right operand, scales and bias, result
    output logic                 a_desc_valid_o,
    input  logic                 a_desc_ready_i,
    output dma_desc_t            a_desc_o,
    input  logic                 a_valid_i,
    output logic                 a_ready_o,
    input  logic [DataWidth-1:0] a_data_i,
    input  logic                 a_row_last_i,
    output logic                 b_desc_valid_o,
    input  logic                 b_desc_ready_i,
    output dma_desc_t            b_desc_o,
    input  logic                 b_valid_i,
    output logic                 b_ready_o,
    input  logic [DataWidth-1:0] b_data_i,
    input  logic                 b_row_last_i,
    output logic                 e_desc_valid_o,
    input  logic                 e_desc_ready_i,
    output dma_desc_t            e_desc_o,
    input  logic                 e_valid_i,
    output logic                 e_ready_o,
    input  logic [DataWidth-1:0] e_data_i,
    input  logic                 e_row_last_i,
    output logic                 c_desc_valid_o,
    input  logic                 c_desc_ready_i,
    output dma_desc_t            c_desc_o,
    output logic                 c_valid_o,
    input  logic                 c_ready_i,
    output logic [DataWidth-1:0] c_data_o,
    input  logic                 c_idle_i,

    // performance events
    output logic [15:0]          macs_o,         // useful multiply-adds started in this clock
    output logic                 stall_read_o,   // the array waits for operands
    output logic                 stall_write_o   // the array waits for room for results
);
  localparam int unsigned LaneBits   = $clog2(Tile);
  localparam int unsigned EntryBits  = Tile * 32;
  localparam int unsigned BlockN     = BlockNTiles * Tile;
  localparam int unsigned WideBlockN = 2 * BlockN;  // of a flat block
  localparam int unsigned AAddrBits  = $clog2(2 * BlockKTiles * BlockM);
  localparam int unsigned BAddrBits  = $clog2(2 * BlockKTiles * BlockN);
  localparam int unsigned CAddrBits  = $clog2(AccEntries);
  localparam int unsigned Skew       = Pipeline ? 2 : 1;  // clocks from row to row of the array
  localparam int unsigned ManyRows   = Skew * Tile + 8;
  localparam bit          Split      = splits_blocks(Tile);  // a block takes two tiles
  localparam int unsigned Taps       = block_taps(Tile);

  // ---- commands ------------------------------------------------------------------------
  matrix_command_t command_q [2];
  logic [1:0] accepted_q, done_q;  // commands, modulo 4

  assign ready_o = 2'(accepted_q - done_q) != 2'd2;
  assign busy_o  = accepted_q != done_q;

  logic start_clk;
  clock_gate u_start_gate (
      .clk_i,
      .enable_i(start_i),  // nothing else writes the commands
      .test_enable_i,
      .clk_o   (start_clk)
  );
  always_ff @(posedge start_clk) begin
    if (start_i) command_q[accepted_q[0]] <= command_i;
  end
  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      accepted_q <= '0;
      done_q     <= '0;
    end else begin
      accepted_q <= accepted_q + 2'(start_i);
      done_q     <= done_q + 2'(done_o);
    end
  end

  // ---- walkers: two loaders, two feeders, the drain ----------------------------------
  localparam int unsigned WalkA = 0, WalkB = 1, WalkWeight = 2, WalkRow = 3, WalkDrain = 4, Walks = 5;

  logic [Walks-1:0] w_valid, w_next, w_end, w_free, w_first_k, w_last_k;
  address_t w_src1 [Walks], w_src2 [Walks], w_dst [Walks];
  dim_t w_m0 [Walks], w_k0 [Walks], w_n0 [Walks], w_mb [Walks], w_kb [Walks], w_nb [Walks];
  logic [1:0] w_flat [Walks], w_ended_q [Walks];
  matrix_command_t w_command [Walks];
  logic a_idle, b_idle;

  // A part has its clock while its awake_o is high, and in an abort or a reset.
  logic stops;
  assign stops = abort_i || !rst_ni;

  // A loader takes the next command when all operands of the last one have arrived, so a bus error has one owner.
  // The drain takes the next command when the last one's results are in memory.
  assign w_free = {w_ended_q[WalkDrain] == done_q, 1'b1, 1'b1, b_idle, a_idle};

  for (genvar i = 0; i < Walks; i++) begin : g_walk
    // The walker's command, or its next one.
    assign w_command[i] = command_q[w_ended_q[i][0]];

    // A walker moves with the start of a command and from block to block.
    logic walk_start, walk_clk;
    assign walk_start = !w_valid[i] && w_ended_q[i] != accepted_q && w_free[i]
                        && (i == WalkB || i == WalkWeight || !held_i[w_ended_q[i][0]]);
    clock_gate u_gate (
        .clk_i,
        .enable_i(walk_start || w_next[i] || stops),
        .test_enable_i,
        .clk_o   (walk_clk)
    );

    block_iterator #(
        .Tile       (Tile),
        .BlockM     (BlockM),
        .BlockKTiles(BlockKTiles),
        .BlockNTiles(BlockNTiles),
        .AccEntries (AccEntries),
        .WholeK     (i == WalkDrain)
    ) u_iterator (
        .clk_i      (walk_clk),
        .rst_ni,
        .abort_i,
        .start_i    (walk_start),
        .command_i  (w_command[i]),
        .next_i     (w_next[i]),
        .valid_o    (w_valid[i]),
        .end_o      (w_end[i]),
        .src1_addr_o(w_src1[i]),
        .src2_addr_o(w_src2[i]),
        .dst_addr_o (w_dst[i]),
        .m0_o       (w_m0[i]),
        .k0_o       (w_k0[i]),
        .n0_o       (w_n0[i]),
        .mb_o       (w_mb[i]),
        .kb_o       (w_kb[i]),
        .nb_o       (w_nb[i]),
        .first_k_o  (w_first_k[i]),
        .last_k_o   (w_last_k[i]),
        .flat_o     (w_flat[i])
    );

    logic [1:0] ended_q;
    assign w_ended_q[i] = ended_q;
    always_ff @(posedge walk_clk) begin
      if (!rst_ni || abort_i) ended_q <= '0;
      else ended_q <= ended_q + 2'(w_end[i]);
    end
  end

  // A loader works for the command that it walks. Between two commands it works for the older one.
  // Commands with weights in blocks are refused where the engine has none.
  blocks_e w_blocks [Walks];
  for (genvar i = 0; i < Walks; i++) begin : g_blocks
    assign w_blocks[i] = Blocks ? w_command[i].blocks : BlocksNone;
  end

  assign a_next_o = 2'(w_ended_q[WalkA] - 2'(!w_valid[WalkA])) != done_q;
  assign b_next_o = 2'(w_ended_q[WalkB] - 2'(!w_valid[WalkB])) != done_q;

  logic [Walks-1:0] w_wide;
  for (genvar i = 0; i < Walks; i++) begin : g_wide
    assign w_wide[i] = BlockKTiles > 1 && w_flat[i] == 2'd2;
  end

  // ---- first panels ---------------------------------------------------------------------
  // Where a product is not wider than high, the first panel of B is fetched before the first of A: the array can start
  // on the first rows of A, but needs its weights before. The first panel of A is then fetched before the second of B.
  logic [1:0] first_q;   // the first panel of the walker's command has not been requested
  logic [1:0] asking_q;  // not all bursts of the first panel have been issued
  logic [1:0] desc_ready, preceded;  // preceded: the other operand's first panel has been requested
  logic a_go, b_go;
  assign desc_ready    = {b_desc_ready_i, a_desc_ready_i};
  // A walker with a block to walk is at most one command ahead of the other one, and at most two behind.
  assign preceded[WalkA] = (w_ended_q[WalkA] == w_ended_q[WalkB]) ? !first_q[WalkB]
                                                                  : w_ended_q[WalkA] != w_ended_q[WalkB] + 2'd1;
  assign preceded[WalkB] = (w_ended_q[WalkA] == w_ended_q[WalkB]) ? !first_q[WalkA]
                                                                  : w_ended_q[WalkB] != w_ended_q[WalkA] + 2'd1;
  assign a_go = !first_q[WalkA] || w_command[WalkA].m < w_command[WalkA].n || (preceded[WalkA] && !asking_q[WalkB]);
  assign b_go = first_q[WalkB] || w_command[WalkB].m < w_command[WalkB].n || (preceded[WalkB] && !asking_q[WalkA]);

  for (genvar i = 0; i < 2; i++) begin : g_first
    always_ff @(posedge clk_i) begin
      if (!rst_ni || abort_i) asking_q[i] <= 1'b0;
      else if (w_next[i] && first_q[i]) asking_q[i] <= 1'b1;
      else if (desc_ready[i]) asking_q[i] <= 1'b0;
    end
    always_ff @(posedge clk_i) begin
      if (!w_valid[i] || w_end[i]) first_q[i] <= 1'b1;
      else if (w_next[i]) first_q[i] <= 1'b0;
    end
  end

  // ---- operands --------------------------------------------------------------------------
  logic a_awake, b_awake, loader_a_clk, loader_b_clk;
  clock_gate u_loader_a_gate (
      .clk_i,
      .enable_i(a_awake || stops),
      .test_enable_i,
      .clk_o   (loader_a_clk)
  );
  clock_gate u_loader_b_gate (
      .clk_i,
      .enable_i(b_awake || stops),
      .test_enable_i,
      .clk_o   (loader_b_clk)
  );

  logic a_read, b_read, a_read_ends, b_read_ends, a_free, b_free;
  logic [1:0] a_write, b_write;
  logic [3:0] a_write_bytes, b_write_bytes;
  logic [AAddrBits-1:0] a_write_addr, a_read_addr;
  logic [BAddrBits-1:0] b_write_addr, b_read_addr;
  logic [EntryBits-1:0] a_write_data [2], b_write_data [2], a_read_data, b_read_data;
  block_info_t [Taps-1:0] a_info, b_info;
  logic a_info_write, b_info_write;
  logic [1:0] a_scales, b_scales;
  logic [7:0] a_loaded, b_loaded;
  dim_t a_rows, b_rows;

  panel_loader #(
      .DataWidth  (DataWidth),
      .Tile       (Tile),
      .BlockX     (BlockM),
      .AddrBits   (AAddrBits),
      .Blocks     (Blocks),
      .Left       (1'b1)
  ) u_loader_a (
      .clk_i          (loader_a_clk),
      .rst_ni,
      .abort_i,
      .awake_o        (a_awake),
      .panel_valid_i  (w_valid[WalkA] && a_go),
      .panel_next_o   (w_next[WalkA]),
      .kind_i         (stored_type(w_command[WalkA].kind, w_command[WalkA].src1_half)),
      .blocks_i       (w_blocks[WalkA]),
      .k_rows_i       (w_command[WalkA].trans_a),
      .wide_i         (1'b0),
      .base_i         (w_src1[WalkA]),
      .stride_i       (w_command[WalkA].src1.row_stride),
      .depth_i        (w_command[WalkA].k),
      .k0_i           (w_k0[WalkA]),
      .kb_i           (w_kb[WalkA]),
      .x0_i           (w_m0[WalkA]),
      .xb_i           (w_mb[WalkA]),
      .desc_valid_o   (a_desc_valid_o),
      .desc_ready_i   (a_desc_ready_i),
      .desc_o         (a_desc_o),
      .data_valid_i   (a_valid_i),
      .data_ready_o   (a_ready_o),
      .data_i         (a_data_i),
      .data_row_last_i(a_row_last_i),
      .write_o        (a_write),
      .write_addr_o   (a_write_addr),
      .write_data_o   (a_write_data),
      .write_bytes_o  (a_write_bytes),
      .info_write_o   (a_info_write),
      .info_o         (a_info),
      .scales_o       (a_scales),
      .idle_o         (a_idle),
      .loaded_o       (a_loaded),
      .rows_o         (a_rows),
      .free_i         (a_free)
  );

  panel_loader #(
      .DataWidth  (DataWidth),
      .Tile       (Tile),
      .BlockX     (BlockN),
      .AddrBits   (BAddrBits),
      .Blocks     (Blocks)
  ) u_loader_b (
      .clk_i          (loader_b_clk),
      .rst_ni,
      .abort_i,
      .awake_o        (b_awake),
      .panel_valid_i  (w_valid[WalkB] && b_go),
      .panel_next_o   (w_next[WalkB]),
      .kind_i         (stored_type(w_command[WalkB].kind, w_command[WalkB].src2_half)),
      .blocks_i       (w_blocks[WalkB]),
      .k_rows_i       (!w_command[WalkB].trans_b),
      .wide_i         (w_wide[WalkB]),
      .base_i         (w_src2[WalkB]),
      .stride_i       (w_command[WalkB].src2.row_stride),
      .depth_i        (w_command[WalkB].k),
      .k0_i           (w_k0[WalkB]),
      .kb_i           (w_kb[WalkB]),
      .x0_i           (w_n0[WalkB]),
      .xb_i           (w_nb[WalkB]),
      .desc_valid_o   (b_desc_valid_o),
      .desc_ready_i   (b_desc_ready_i),
      .desc_o         (b_desc_o),
      .data_valid_i   (b_valid_i),
      .data_ready_o   (b_ready_o),
      .data_i         (b_data_i),
      .data_row_last_i(b_row_last_i),
      .write_o        (b_write),
      .write_addr_o   (b_write_addr),
      .write_data_o   (b_write_data),
      .write_bytes_o  (b_write_bytes),
      .info_write_o   (b_info_write),
      .info_o         (b_info),
      .scales_o       (b_scales),
      .idle_o         (b_idle),
      .loaded_o       (b_loaded),
      .rows_o         (b_rows),
      .free_i         (b_free)
  );

  panel_memory #(
      .Tile    (Tile),
      .AddrBits(AAddrBits)
  ) u_memory_a (
      .clk_i,
      .rst_ni,
      .write_i      (a_write),
      .write_addr_i (a_write_addr),
      .write_data_i (a_write_data),
      .write_bytes_i(a_write_bytes),
      .read_i       (a_read),
      .read_addr_i  (a_read_addr),
      .read_data_o  (a_read_data)
  );

  panel_memory #(
      .Tile    (Tile),
      .AddrBits(BAddrBits)
  ) u_memory_b (
      .clk_i,
      .rst_ni,
      .write_i      (b_write),
      .write_addr_i (b_write_addr),
      .write_data_i (b_write_data),
      .write_bytes_i(b_write_bytes),
      .read_i       (b_read),
      .read_addr_i  (b_read_addr),
      .read_data_o  (b_read_data)
  );

  // ---- feeders ------------------------------------------------------------------------------
  logic weights_awake, rows_awake, weights_clk, rows_clk;
  clock_gate u_weights_gate (
      .clk_i,
      .enable_i(weights_awake || stops),
      .test_enable_i,
      .clk_o   (weights_clk)
  );
  clock_gate u_rows_gate (
      .clk_i,
      .enable_i(rows_awake || stops),
      .test_enable_i,
      .clk_o   (rows_clk)
  );

  logic shadow_free, shadow_start, shadow_pending_q;
  logic weight_write;
  logic [LaneBits-1:0] weight_row;
  logic [EntryBits-1:0] weight;

  weight_feeder #(
      .Tile    (Tile),
      .BlockN  (BlockN),
      .AddrBits(BAddrBits),
      .ManyRows(ManyRows)
  ) u_weights (
      .clk_i         (weights_clk),
      .rst_ni,
      .abort_i,
      .awake_o       (weights_awake),
      .panel_valid_i (w_valid[WalkWeight]),
      .panel_next_o  (w_next[WalkWeight]),
      .k_rows_i      (!w_command[WalkWeight].trans_b),
      .wide_i        (w_wide[WalkWeight]),
      .mb_i          (w_mb[WalkWeight]),
      .kb_i          (w_kb[WalkWeight]),
      .nb_i          (w_nb[WalkWeight]),
      .last_k_i      (w_last_k[WalkWeight]),
      .loaded_i      (b_loaded),
      .rows_i        (b_rows),
      .free_o        (b_free),
      .read_o        (b_read),
      .read_addr_o   (b_read_addr),
      .read_ends_o   (b_read_ends),
      .read_data_i   (b_read_data),
      .shadow_free_i (shadow_free),
      .shadow_start_o(shadow_start),
      .weight_write_o(weight_write),
      .weight_row_o  (weight_row),
      .weight_o      (weight)
  );

  // The attributes of a row on its way through the array.
  typedef struct packed {
    logic                 valid;
    logic                 blocks;
    logic                 ends;  // with blocks: they end with this tile
    logic [CAddrBits-1:0] acc_addr;
    logic                 first;
    logic                 last;
    logic                 tile_last;
  } token_t;

  logic row_valid, row_issue, row_integer, row_blocks, row_low, row_ends, row_first, row_last, row_tile_first, row_tile_last;
  logic row_many;
  logic [EntryBits-1:0] row;
  logic [CAddrBits-1:0] row_acc_addr;
  logic [LaneBits+2:0] row_k;
  logic [LaneBits:0] row_n;
  logic rows_left;
  dim_t row_n_tiles;

  activation_feeder #(
      .Tile       (Tile),
      .BlockM     (BlockM),
      .AddrBits   (AAddrBits),
      .AccAddrBits(CAddrBits),
      .ManyRows   (ManyRows)
  ) u_rows (
      .clk_i            (rows_clk),
      .rst_ni,
      .abort_i,
      .awake_o          (rows_awake),
      .panel_valid_i    (w_valid[WalkRow]),
      .panel_next_o     (w_next[WalkRow]),
      .kind_i           (w_command[WalkRow].kind),
      .blocks_i         (w_blocks[WalkRow] != BlocksNone),
      .k_rows_i         (w_command[WalkRow].trans_a),
      .depth_i          (w_command[WalkRow].k),
      .k0_i             (w_k0[WalkRow]),
      .mb_i             (w_mb[WalkRow]),
      .kb_i             (w_kb[WalkRow]),
      .nb_i             (w_nb[WalkRow]),
      .first_k_i        (w_first_k[WalkRow]),
      .last_k_i         (w_last_k[WalkRow]),
      .flat_i           (w_flat[WalkRow]),
      .loaded_i         (a_loaded),
      .rows_i           (a_rows),
      .free_o           (a_free),
      .read_o           (a_read),
      .read_addr_o      (a_read_addr),
      .read_ends_o      (a_read_ends),
      .read_data_i      (a_read_data),
      .row_valid_o      (row_valid),
      .row_next_i       (row_issue),
      .row_o            (row),
      .row_acc_addr_o   (row_acc_addr),
      .row_integer_o    (row_integer),
      .row_blocks_o     (row_blocks),
      .row_low_o        (row_low),
      .row_ends_o       (row_ends),
      .row_first_o      (row_first),
      .row_last_o       (row_last),
      .row_tile_first_o (row_tile_first),
      .row_tile_last_o  (row_tile_last),
      .row_k_o          (row_k),
      .row_n_o          (row_n),
      .row_many_o       (row_many),
      .row_n_tiles_o    (row_n_tiles),
      .rows_left_o      (rows_left)
  );

  // ---- issue -----------------------------------------------------------------------------------
  // A row enters the array when its weights are loaded, when the sums it adds to
  // have left the array, and when there is room for its results. With fewer than
  // ManyRows rows, a tile of columns returns to its accumulators after n_tiles
  // tiles; fewer tiles than that may be inside.
  //
  // Of two planes the low one has the token. Rows for weights in blocks add to the accumulators later than others and
  // so do not mix with them. With two taps the scaler takes the sums of one a clock: those of the middle come
  // Depth/2 - 1 clocks before those of the bottom (middle sums wait a clock), so a row does not follow another by that
  // many. Between the taps a row's sums are in its accumulators. The first row of a tile may have the same ones and writes
  // them when the last row with them has read its own, so it is Apart clocks behind: it waits if the tile before it has
  // fewer than ApartRows rows. With one tap a row's sums are in its accumulators, or among the partial ones, before its
  // next tile enters, as with other types.
  localparam int unsigned Depth  = Skew * Tile;    // clocks from the array's first addition to its last
  localparam int unsigned Middle = Depth / 2 + 2;  // token stage at which the sums of the upper half leave the array
  localparam int unsigned Clash  = (Tile < 8) ? 0 : Depth / 2 - 3;  // of a row so far ahead; the next is half a row on
  localparam int unsigned Last   = Depth + 2;      // token stage at which sums leave the array
  localparam int unsigned Apart  = (Tile < 8) ? 0 : Depth / 2 - 2 - Skew;
  localparam int unsigned ApartRows = (Apart + 1) / 2;  // two clocks each
  localparam int unsigned ApartBits = $clog2(ApartRows + 2);
  token_t [Last:0] pipe_q;
  token_t issued;
  assign issued = '{
          valid: row_issue && (!row_blocks || row_low),
          blocks: row_blocks,
          ends: row_ends,
          acc_addr: row_acc_addr,
          first: row_first,
          last: row_last,
          tile_last: row_tile_last
      };
  logic [7:0] tiles_started_q, tiles_done_q, tiles_inside;
  logic [CAddrBits:0] results_q, written_q, read_count;  // issued, written to the ring, read from it
  logic weights_ok, sums_ok, room_ok, order_ok;
  logic blocks_q;           // of the rows under way
  logic [ApartBits-1:0] tile_rows_q;  // rows with planes of the last tile, ApartRows stands for more
  logic tokens, near, scaling;

  always_comb begin
    near = 1'b0;
    for (int unsigned s = 0; s + 3 <= Apart; s++) near |= pipe_q[s].valid;
  end

  assign tiles_inside = tiles_started_q - tiles_done_q;
  assign weights_ok   = !row_tile_first || shadow_pending_q;
  assign sums_ok      = !row_tile_first || row_many || dim_t'(tiles_inside) < row_n_tiles;
  assign room_ok      = !row_last || (CAddrBits + 1)'(results_q - read_count) != (CAddrBits + 1)'(AccEntries);
  assign order_ok     = (row_blocks == blocks_q || !(tokens || scaling))
                        && !(Taps == 2 && row_blocks && !row_low && pipe_q[Clash].valid)
                        && !(Taps == 2 && row_blocks && row_tile_first && tile_rows_q != ApartBits'(ApartRows)
                             && near);
  assign row_issue    = row_valid && weights_ok && sums_ok && room_ok && order_ok;

  `NPU_ASSERT_NEXT(PlanesTogether, row_issue && row_blocks && !row_low && !abort_i, row_issue && row_low,
                   "a row's low plane did not follow its high one")

  always_comb begin
    tokens = 1'b0;
    for (int unsigned s = 0; s <= Last; s++) tokens |= pipe_q[s].valid;
  end
  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) blocks_q <= 1'b0;
    else if (row_issue) blocks_q <= row_blocks;
  end
  always_ff @(posedge clk_i) begin
    if (row_issue && row_tile_first) tile_rows_q <= '0;
    else if (issued.valid && tile_rows_q != ApartBits'(ApartRows)) tile_rows_q <= tile_rows_q + 1'b1;
  end
  // Row 0 takes its new weights one clock after the issue. The next weights may
  // be written from then on.
  assign shadow_free  = !shadow_pending_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) shadow_pending_q <= 1'b0;
    else if (shadow_start) shadow_pending_q <= 1'b1;
    else if (row_issue && row_tile_first) shadow_pending_q <= 1'b0;
  end

  logic scaled_valid, scaled_result, scaled_tile_done, scaled_read, tile_done;
  logic partial_write;  // the sums of a block's first tile leave the array
  logic [CAddrBits-1:0] scaled_addr, scaled_read_addr;
  logic [EntryBits-1:0] scaled;
  logic result_write;
  assign result_write = (pipe_q[Last].valid && !pipe_q[Last].blocks && pipe_q[Last].last)
                        || (scaled_valid && scaled_result);
  assign tile_done = (pipe_q[Last].valid && !pipe_q[Last].blocks && pipe_q[Last].tile_last)
                     || (scaled_valid && scaled_tile_done);

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      pipe_q          <= '0;
      tiles_started_q <= '0;
      tiles_done_q    <= '0;
      results_q       <= '0;
      written_q       <= '0;
    end else begin
      pipe_q <= {pipe_q[Last-1:0], issued};
      if (row_issue && row_tile_first) tiles_started_q <= tiles_started_q + 8'd1;
      tiles_done_q <= tiles_done_q + 8'(tile_done) + 8'(partial_write && pipe_q[Last].tile_last);
      results_q <= results_q + (CAddrBits + 1)'(issued.valid && row_last);
      written_q <= written_q + (CAddrBits + 1)'(result_write);
    end
  end

  logic [EntryBits-1:0] sum_in, sum_middle, sum_out, finished, acc_data, partial_data, result_data;
  logic array_busy, adds_partial;  // the row adds to the sums of its blocks' first tile
  assign adds_partial = Split && pipe_q[2].valid && pipe_q[2].blocks && pipe_q[2].ends;

  always_comb begin
    sum_in = acc_data;
    if (pipe_q[2].first || pipe_q[2].blocks) sum_in = '0;
    if (adds_partial) sum_in = partial_data;
  end

  systolic_array #(
      .Tile    (Tile),
      .Pipeline(Pipeline)
  ) u_array (
      .clk_i,
      .rst_ni,
      .weight_write_i(weight_write),
      .weight_row_i  (weight_row),
      .weight_i      (weight),
      .valid_i       (row_issue),
      .integer_i     (row_integer),
      .unsigned_i    (row_low),
      .halves_i      (row_blocks && !Split),
      .swap_i        (row_tile_first),
      .data_i        (row),
      .sum_i         (sum_in),
      .sum_o         (sum_out),
      .middle_o      (sum_middle),
      .busy_o        (array_busy)
  );

  // ---- accumulators and results ---------------------------------------------------------------------
  logic drain_read, drain_awake, drain_clk;
  clock_gate u_drain_gate (
      .clk_i,
      .enable_i(drain_awake || stops),
      .test_enable_i,
      .clk_o   (drain_clk)
  );

  // Weights in blocks read first: a row's upper sums replace those of the row before with the same accumulators at the
  // edge at which these are read to take their lower ones. With one tap a row is read and written once.
  ram_1r1w #(
      .Width    (EntryBits),
      .Depth    (AccEntries),
      .ReadFirst(Blocks && Taps == 2)
  ) u_accumulators (
      .clk_i,
      .rst_ni,
      .write_i     ((pipe_q[Last].valid && !pipe_q[Last].blocks && !pipe_q[Last].last)
                    || (scaled_valid && !scaled_result)),
      .write_addr_i(scaled_valid ? scaled_addr : pipe_q[Last].acc_addr),
      .write_data_i(finished),
      .read_i      ((pipe_q[1].valid && !pipe_q[1].blocks && !pipe_q[1].first) || scaled_read),
      .read_addr_i (scaled_read ? scaled_read_addr : pipe_q[1].acc_addr),
      .read_data_o (acc_data)
  );

  ram_1r1w #(
      .Width(EntryBits),
      .Depth(AccEntries)
  ) u_results (
      .clk_i,
      .rst_ni,
      .write_i     (result_write),
      .write_addr_i(written_q[CAddrBits-1:0]),
      .write_data_i(finished),
      .read_i      (drain_read),
      .read_addr_i (read_count[CAddrBits-1:0]),
      .read_data_o (result_data)
  );

  assign finished = scaled_valid ? scaled : sum_out;

  // ---- weights in blocks ----------------------------------------------------------------------------
  if (Blocks) begin : g_scaler
    // Facts of a block of the left operand are beside its panel, one entry for both planes. They are read with the
    // low plane, and scales and minima with a tile's first row, for the scaler to keep until the sums come.
    localparam int unsigned InfoBits  = Taps * $bits(block_info_t);
    localparam int unsigned ScaleBits = Taps * Tile * 16;
    logic info_read, tile_read, info_here_q, tile_here_q, minima_q;
    block_info_t [Taps-1:0] info;
    logic [ScaleBits-1:0] scales, minima;

    assign info_read = a_read && w_blocks[WalkRow] != BlocksNone && a_read_addr[LaneBits] && a_read_ends;
    assign tile_read = b_read && w_blocks[WalkWeight] != BlocksNone && b_read_addr[LaneBits-1:0] == '0 && b_read_ends;

    ram_1r1w #(
        .Width(InfoBits),
        .Depth(1 << (AAddrBits - 1))
    ) u_infos (
        .clk_i,
        .rst_ni,
        .write_i     (a_info_write),
        .write_addr_i({a_write_addr[AAddrBits-1:LaneBits+1], a_write_addr[LaneBits-1:0]}),
        .write_data_i(a_info),
        .read_i      (info_read),
        .read_addr_i ({a_read_addr[AAddrBits-1:LaneBits+1], a_read_addr[LaneBits-1:0]}),
        .read_data_o (info)
    );

    ram_1r1w #(
        .Width(ScaleBits),
        .Depth(1 << (BAddrBits - LaneBits))
    ) u_scales (
        .clk_i,
        .rst_ni,
        .write_i     (b_scales[0]),
        .write_addr_i(b_write_addr[BAddrBits-1:LaneBits]),
        .write_data_i(b_write_data[0][ScaleBits-1:0]),
        .read_i      (tile_read),
        .read_addr_i (b_read_addr[BAddrBits-1:LaneBits]),
        .read_data_o (scales)
    );

    ram_1r1w #(
        .Width(ScaleBits),
        .Depth(1 << (BAddrBits - LaneBits))
    ) u_minima (
        .clk_i,
        .rst_ni,
        .write_i     (b_scales[1]),
        .write_addr_i(b_write_addr[BAddrBits-1:LaneBits]),
        .write_data_i(b_write_data[0][ScaleBits-1:0]),
        .read_i      (tile_read && w_blocks[WalkWeight] == BlocksQ41),
        .read_addr_i (b_read_addr[BAddrBits-1:LaneBits]),
        .read_data_o (minima)
    );

    always_ff @(posedge clk_i) begin
      if (!rst_ni || abort_i) begin
        info_here_q <= 1'b0;
        tile_here_q <= 1'b0;
      end else begin
        info_here_q <= info_read;
        tile_here_q <= tile_read;
      end
    end
    always_ff @(posedge clk_i) begin
      minima_q <= w_blocks[WalkWeight] == BlocksQ41;
    end

    // The token stages at which sums leave the array. Those of a block's first tile are not the scaler's.
    localparam int unsigned Stage [2] = '{(Taps == 2) ? Middle : Last, Last};
    logic scaler_clk;
    logic [Taps-1:0] tap_high, tap_valid, tap_first, tap_last, tap_tile_last;
    logic [EntryBits-1:0] tap_sums [Taps], combined;
    logic [CAddrBits-1:0] tap_addr [Taps];
    for (genvar t = 0; t < Taps; t++) begin : g_tap
      assign tap_high[t]      = pipe_q[Stage[t]-1].valid && pipe_q[Stage[t]-1].blocks;
      assign tap_valid[t]     = pipe_q[Stage[t]].valid && pipe_q[Stage[t]].blocks && (!Split || pipe_q[Stage[t]].ends);
      assign tap_first[t]     = pipe_q[Stage[t]].first;
      assign tap_last[t]      = pipe_q[Stage[t]].last;
      assign tap_tile_last[t] = pipe_q[Stage[t]].tile_last;
      assign tap_addr[t]      = pipe_q[Stage[t]].acc_addr;
      assign tap_sums[t]      = (t == Taps - 1) ? sum_out : sum_middle;
    end

    if (Split) begin : g_partial
      assign partial_write = pipe_q[Last].valid && pipe_q[Last].blocks && !pipe_q[Last].ends;
      ram_1r1w #(
          .Width(EntryBits),
          .Depth(AccEntries)
      ) u_partial (
          .clk_i,
          .rst_ni,
          .write_i     (partial_write),
          .write_addr_i(pipe_q[Last].acc_addr),
          .write_data_i(combined),
          .read_i      (pipe_q[1].valid && pipe_q[1].blocks && pipe_q[1].ends),
          .read_addr_i (pipe_q[1].acc_addr),
          .read_data_o (partial_data)
      );

      logic partial_inside;  // the first tile's sums that a row adds to are still in the array
      always_comb begin
        partial_inside = 1'b0;
        for (int unsigned s = 2; s <= Last; s++) begin
          if (pipe_q[s].valid && !pipe_q[s].ends && pipe_q[s].acc_addr == pipe_q[1].acc_addr) partial_inside = 1'b1;
        end
      end
      `NPU_ASSERT(PartialThere, !(pipe_q[1].valid && pipe_q[1].blocks && pipe_q[1].ends && partial_inside),
                  "a row for the second tile of a block came before the sums of the first one had left the array")
    end else begin : g_no_partial
      assign partial_write = 1'b0;
      assign partial_data  = '0;

      logic unused_combined;
      assign unused_combined = &{1'b0, combined};
    end

    clock_gate u_scaler_gate (
        .clk_i,
        .enable_i(info_here_q || tile_here_q || tap_high != '0 || tap_valid != '0 || scaling || stops),
        .test_enable_i,
        .clk_o   (scaler_clk)
    );

    block_scaler #(
        .Tile    (Tile),
        .Taps    (Taps),
        .AddrBits(CAddrBits),
        .Rows    (4 * Tile),
        .Pipeline(Pipeline)
    ) u_scaler (
        .clk_i        (scaler_clk),
        .rst_ni,
        .abort_i,
        .busy_o       (scaling),
        .row_push_i   (info_here_q),
        .row_info_i   (info),
        .tile_push_i  (tile_here_q),
        .tile_minima_i(minima_q),
        .tile_scales_i(scales),
        .tile_mins_i  (minima),
        .high_i       (tap_high),
        .valid_i      (tap_valid),
        .sums_i       (tap_sums),
        .addr_i       (tap_addr),
        .first_i      (tap_first),
        .last_i       (tap_last),
        .tile_last_i  (tap_tile_last),
        .combined_o   (combined),
        .read_o       (scaled_read),
        .read_addr_o  (scaled_read_addr),
        .read_data_i  (acc_data),
        .valid_o      (scaled_valid),
        .result_o     (scaled_result),
        .tile_done_o  (scaled_tile_done),
        .addr_o       (scaled_addr),
        .data_o       (scaled)
    );
  end else begin : g_no_scaler
    assign scaling          = 1'b0;
    assign scaled_valid     = 1'b0;
    assign scaled_result    = 1'b0;
    assign scaled_tile_done = 1'b0;
    assign scaled_read      = 1'b0;
    assign scaled_addr      = '0;
    assign scaled_read_addr = '0;
    assign scaled           = '0;
    assign partial_write    = 1'b0;
    assign partial_data     = '0;

    logic unused_blocks;
    assign unused_blocks = &{1'b0, sum_middle, a_read_ends, b_read_ends, a_info_write, b_scales};
    for (genvar t = 0; t < Taps; t++) begin : g_unused_planes
      logic unused_info;
      assign unused_info = &{1'b0, a_info[t].sum, a_info[t].power, a_info[t].zero, a_info[t].special};
    end
  end

  result_drain #(
      .DataWidth(DataWidth),
      .Tile     (Tile),
      .BlockM   (BlockM),
      .BlockN   (WideBlockN),
      .RingBits (CAddrBits)
  ) u_drain (
      .clk_i        (drain_clk),
      .rst_ni,
      .abort_i,
      .awake_o      (drain_awake),
      .block_valid_i(w_valid[WalkDrain]),
      .block_next_o (w_next[WalkDrain]),
      .command_i    (w_command[WalkDrain]),
      .base_i       (w_dst[WalkDrain]),
      .m0_i         (w_m0[WalkDrain]),
      .mb_i         (w_mb[WalkDrain]),
      .n0_i         (w_n0[WalkDrain]),
      .nb_i         (w_nb[WalkDrain]),
      .written_i    (written_q),
      .read_o       (read_count),
      .read_valid_o (drain_read),
      .read_data_i  (result_data),
      .e_desc_valid_o,
      .e_desc_ready_i,
      .e_desc_o,
      .e_valid_i,
      .e_ready_o,
      .e_data_i,
      .e_row_last_i,
      .desc_valid_o (c_desc_valid_o),
      .desc_ready_i (c_desc_ready_i),
      .desc_o       (c_desc_o),
      .data_valid_o (c_valid_o),
      .data_ready_i (c_ready_i),
      .data_o       (c_data_o)
  );

  assign done_o  = w_ended_q[WalkDrain] != done_q && c_idle_i;
  assign awake_o = busy_o || array_busy;
  `NPU_ASSERT(RowsHold, awake_o || !array_busy, "the engine rests with rows in its array")

  assign macs_o        = issued.valid ? 16'(row_k) * 16'(row_n) : 16'd0;
  assign stall_write_o = row_valid && weights_ok && !(sums_ok && room_ok && order_ok);
  assign stall_read_o  = rows_left && !row_issue && !stall_write_o;

  logic unused;
  assign unused = &{1'b0, w_first_k[WalkA], w_first_k[WalkB], w_first_k[WalkWeight], w_first_k[WalkDrain],
                    w_last_k[WalkA], w_last_k[WalkB], w_last_k[WalkDrain], w_wide[WalkA], w_wide[WalkRow],
                    w_wide[WalkDrain], a_scales, b_info_write};
  for (genvar t = 0; t < Taps; t++) begin : g_unused_info
    logic unused_info;
    assign unused_info = &{1'b0, b_info[t].sum, b_info[t].power, b_info[t].zero, b_info[t].special};
  end

  if (Blocks && BlockKTiles < (Split ? 4 : 2)) begin : g_bad_blocks
    $fatal(1, "matrix_engine: with weights in blocks half a K block is at least a block deep");
  end
  if (Blocks && Split && AccEntries / BlockM * Tile < TileColumns) begin : g_bad_columns
    $fatal(1, "matrix_engine: with weights in blocks an N block has at least the columns of a packed tile");
  end
endmodule
