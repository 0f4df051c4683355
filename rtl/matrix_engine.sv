// Batched matrix product dst = op(src1) @ op(src2), float32, of any size in one
// command.
//
// Two loaders fetch panels of the operands into on-chip memories ahead of need;
// two feeders bring weights and activations to the systolic array; sums circulate
// between the array and one half of the accumulator memory while the other half,
// a finished result block, drains. Every part walks the same blocks
// (block_iterator) at its own pace, held back only by data and room.
// Reset and abort state: idle.
module matrix_engine
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth   = 256,
    parameter int unsigned Tile        = 16,
    parameter int unsigned BlockM      = 128,
    parameter int unsigned BlockKTiles = 4,
    parameter int unsigned BlockNTiles = 16,
    parameter int unsigned AccEntries  = 1024
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,

    input  logic                 start_i,      // pulse while idle
    input  matrix_command_t             command_i,    // stable from start_i to done_o
    output logic                 busy_o,
    output logic                 done_o,       // pulse: the result is in memory

    // memory controller: left operand, right operand, result
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
    output logic                 stall_write_o   // the array waits for accumulator room
);
  localparam int unsigned LaneBits  = $clog2(Tile);
  localparam int unsigned EntryBits = Tile * 32;
  localparam int unsigned BlockN    = BlockNTiles * Tile;
  localparam int unsigned ADepth    = 2 * BlockKTiles * BlockM;
  localparam int unsigned BDepth    = 2 * BlockKTiles * BlockN;
  localparam int unsigned AAddrBits = $clog2(ADepth);
  localparam int unsigned BAddrBits = $clog2(BDepth);
  localparam int unsigned CAddrBits = $clog2(AccEntries);

  // ---- walkers: two loaders, two feeders, the drain ----------------------------------
  localparam int unsigned WalkA = 0, WalkB = 1, WalkWeight = 2, WalkRow = 3, WalkDrain = 4, Walks = 5;

  logic [Walks-1:0] w_valid, w_next, w_first_k, w_last_k, w_tall;
  logic [31:0] w_src1 [Walks], w_src2 [Walks], w_dst [Walks];
  dim_t w_m0 [Walks], w_k0 [Walks], w_n0 [Walks], w_mb [Walks], w_kb [Walks], w_nb [Walks];

  for (genvar i = 0; i < Walks; i++) begin : g_walk
    block_iterator #(
        .Tile       (Tile),
        .BlockM     (BlockM),
        .BlockKTiles(BlockKTiles),
        .BlockNTiles(BlockNTiles),
        .AccEntries (AccEntries),
        .WholeK     (i == WalkDrain)
    ) u_iterator (
        .clk_i,
        .rst_ni,
        .abort_i,
        .start_i,
        .command_i,
        .next_i     (w_next[i]),
        .valid_o    (w_valid[i]),
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
        .tall_o     (w_tall[i])
    );
  end

  // ---- operands --------------------------------------------------------------------------
  logic a_write, b_write, a_read, b_read, a_free, b_free;
  logic [AAddrBits-1:0] a_write_addr, a_read_addr;
  logic [BAddrBits-1:0] b_write_addr, b_read_addr;
  logic [EntryBits-1:0] a_write_data, a_read_data, b_write_data, b_read_data;
  logic [7:0] a_loaded, b_loaded;
  dim_t a_rows, b_rows;

  panel_loader #(
      .DataWidth  (DataWidth),
      .Tile       (Tile),
      .BlockKTiles(BlockKTiles),
      .BlockX     (BlockM),
      .AddrBits   (AAddrBits)
  ) u_loader_a (
      .clk_i,
      .rst_ni,
      .abort_i,
      .panel_valid_i  (w_valid[WalkA]),
      .panel_next_o   (w_next[WalkA]),
      .k_rows_i       (command_i.trans_a),
      .base_i         (w_src1[WalkA]),
      .stride_i       (command_i.src1.row_stride),
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
      .loaded_o       (a_loaded),
      .rows_o         (a_rows),
      .free_i         (a_free)
  );

  panel_loader #(
      .DataWidth  (DataWidth),
      .Tile       (Tile),
      .BlockKTiles(BlockKTiles),
      .BlockX     (BlockN),
      .AddrBits   (BAddrBits)
  ) u_loader_b (
      .clk_i,
      .rst_ni,
      .abort_i,
      .panel_valid_i  (w_valid[WalkB]),
      .panel_next_o   (w_next[WalkB]),
      .k_rows_i       (!command_i.trans_b),
      .base_i         (w_src2[WalkB]),
      .stride_i       (command_i.src2.row_stride),
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
      .loaded_o       (b_loaded),
      .rows_o         (b_rows),
      .free_i         (b_free)
  );

  tile_memory #(
      .Width(EntryBits),
      .Depth(ADepth)
  ) u_memory_a (
      .clk_i,
      .write_i     (a_write),
      .write_addr_i(a_write_addr),
      .write_data_i(a_write_data),
      .read_i      (a_read),
      .read_addr_i (a_read_addr),
      .read_data_o (a_read_data)
  );

  tile_memory #(
      .Width(EntryBits),
      .Depth(BDepth)
  ) u_memory_b (
      .clk_i,
      .write_i     (b_write),
      .write_addr_i(b_write_addr),
      .write_data_i(b_write_data),
      .read_i      (b_read),
      .read_addr_i (b_read_addr),
      .read_data_o (b_read_data)
  );

  // ---- feeders ------------------------------------------------------------------------------
  logic shadow_free, shadow_start, shadow_pending_q;
  logic weight_write;
  logic [LaneBits-1:0] weight_row;
  logic [EntryBits-1:0] weight;

  weight_feeder #(
      .Tile       (Tile),
      .BlockKTiles(BlockKTiles),
      .BlockN     (BlockN),
      .AddrBits   (BAddrBits)
  ) u_weights (
      .clk_i,
      .rst_ni,
      .abort_i,
      .start_i,
      .panel_valid_i (w_valid[WalkWeight]),
      .panel_next_o  (w_next[WalkWeight]),
      .k_rows_i      (!command_i.trans_b),
      .kb_i          (w_kb[WalkWeight]),
      .nb_i          (w_nb[WalkWeight]),
      .loaded_i      (b_loaded),
      .rows_i        (b_rows),
      .free_o        (b_free),
      .read_o        (b_read),
      .read_addr_o   (b_read_addr),
      .read_data_i   (b_read_data),
      .shadow_free_i (shadow_free),
      .shadow_start_o(shadow_start),
      .weight_write_o(weight_write),
      .weight_row_o  (weight_row),
      .weight_o      (weight)
  );

  // What travels with a row through the array.
  typedef struct packed {
    logic                 valid;
    logic [CAddrBits-1:0] acc_addr;
    logic                 half;
    logic                 first;
    logic                 tile_last;
    logic                 block_last;
  } token_t;

  logic row_valid, row_issue, row_first, row_tile_first, row_tile_last, row_block_first, row_block_last;
  logic [EntryBits-1:0] row;
  logic [CAddrBits-1:0] row_acc_addr;
  logic [LaneBits:0] row_k, row_n;
  dim_t row_n_tiles;

  activation_feeder #(
      .Tile       (Tile),
      .BlockKTiles(BlockKTiles),
      .BlockM     (BlockM),
      .AddrBits   (AAddrBits),
      .AccAddrBits(CAddrBits)
  ) u_rows (
      .clk_i,
      .rst_ni,
      .abort_i,
      .start_i,
      .panel_valid_i    (w_valid[WalkRow]),
      .panel_next_o     (w_next[WalkRow]),
      .k_rows_i         (command_i.trans_a),
      .mb_i             (w_mb[WalkRow]),
      .kb_i             (w_kb[WalkRow]),
      .nb_i             (w_nb[WalkRow]),
      .first_k_i        (w_first_k[WalkRow]),
      .last_k_i         (w_last_k[WalkRow]),
      .tall_i           (w_tall[WalkRow]),
      .loaded_i         (a_loaded),
      .rows_i           (a_rows),
      .free_o           (a_free),
      .read_o           (a_read),
      .read_addr_o      (a_read_addr),
      .read_data_i      (a_read_data),
      .row_valid_o      (row_valid),
      .row_next_i       (row_issue),
      .row_o            (row),
      .row_acc_addr_o   (row_acc_addr),
      .row_first_o      (row_first),
      .row_tile_first_o (row_tile_first),
      .row_tile_last_o  (row_tile_last),
      .row_block_first_o(row_block_first),
      .row_block_last_o (row_block_last),
      .row_k_o          (row_k),
      .row_n_o          (row_n),
      .row_n_tiles_o    (row_n_tiles)
  );

  // ---- issue -----------------------------------------------------------------------------------
  // A row enters the array when its weights are there, when the sums it adds to
  // have left the array (a tile meets its accumulators again after n_tiles
  // tiles), and when its result block has a half of the accumulator memory.
  localparam int unsigned Last = Tile + 2;  // token stage at which sums leave the array
  token_t [Last:0] pipe_q;
  logic [7:0] tiles_started_q, tiles_done_q;
  logic [1:0] blocks_started_q, blocks_done_q, blocks_drained_q;
  logic weights_ok, sums_ok, room_ok, half, block_drained;
  logic [7:0] tiles_inside;

  assign tiles_inside = tiles_started_q - tiles_done_q;
  assign weights_ok   = !row_tile_first || shadow_pending_q;
  assign sums_ok      = !row_tile_first || dim_t'(tiles_inside) < row_n_tiles;
  assign room_ok      = !row_block_first || (blocks_started_q - blocks_drained_q) != 2'd2;
  assign row_issue    = row_valid && weights_ok && sums_ok && room_ok;
  // The block under way is the last one started, except for its first row.
  assign half         = row_block_first ? blocks_started_q[0] : ~blocks_started_q[0];
  // Row 0 takes its weights over one clock after the issue, so the next ones may
  // start to come then, and not sooner.
  assign shadow_free  = !shadow_pending_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) shadow_pending_q <= 1'b0;
    else if (shadow_start) shadow_pending_q <= 1'b1;
    else if (row_issue && row_tile_first) shadow_pending_q <= 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      pipe_q           <= '0;
      tiles_started_q  <= '0;
      tiles_done_q     <= '0;
      blocks_started_q <= '0;
      blocks_done_q    <= '0;
      blocks_drained_q <= '0;
    end else begin
      pipe_q[0] <= '{
          valid: row_issue,
          acc_addr: row_acc_addr,
          half: half,
          first: row_first,
          tile_last: row_tile_last,
          block_last: row_block_last
      };
      for (int unsigned i = 1; i <= Last; i++) pipe_q[i] <= pipe_q[i-1];
      if (row_issue && row_tile_first) tiles_started_q <= tiles_started_q + 8'd1;
      if (pipe_q[Last].valid && pipe_q[Last].tile_last) tiles_done_q <= tiles_done_q + 8'd1;
      if (row_issue && row_block_first) blocks_started_q <= blocks_started_q + 2'd1;
      if (pipe_q[Last].valid && pipe_q[Last].block_last) blocks_done_q <= blocks_done_q + 2'd1;
      if (block_drained) blocks_drained_q <= blocks_drained_q + 2'd1;
    end
  end

  logic [EntryBits-1:0] sum_in, sum_out, acc_data [2];
  assign sum_in = pipe_q[2].first ? '0 : acc_data[pipe_q[2].half];

  systolic_array #(
      .Tile(Tile)
  ) u_array (
      .clk_i,
      .rst_ni,
      .weight_write_i(weight_write),
      .weight_row_i  (weight_row),
      .weight_i      (weight),
      .valid_i       (row_issue),
      .swap_i        (row_tile_first),
      .data_i        (row),
      .sum_i         (sum_in),
      .sum_o         (sum_out)
  );

  // ---- accumulators and results ---------------------------------------------------------------------
  logic drain_read, drain_half_q;
  logic [CAddrBits-1:0] drain_addr;

  for (genvar h = 0; h < 2; h++) begin : g_acc
    logic array_read;
    assign array_read = pipe_q[1].valid && !pipe_q[1].first && pipe_q[1].half == 1'(h);
    tile_memory #(
        .Width(EntryBits),
        .Depth(AccEntries)
    ) u_memory (
        .clk_i,
        .write_i     (pipe_q[Last].valid && pipe_q[Last].half == 1'(h)),
        .write_addr_i(pipe_q[Last].acc_addr),
        .write_data_i(sum_out),
        .read_i      (array_read || (drain_read && blocks_drained_q[0] == 1'(h))),
        .read_addr_i (array_read ? pipe_q[1].acc_addr : drain_addr),
        .read_data_o (acc_data[h])
    );
  end

  always_ff @(posedge clk_i) begin
    if (drain_read) drain_half_q <= blocks_drained_q[0];
  end

  result_drain #(
      .DataWidth  (DataWidth),
      .Tile       (Tile),
      .BlockM     (BlockM),
      .AccAddrBits(CAddrBits)
  ) u_drain (
      .clk_i,
      .rst_ni,
      .abort_i,
      .block_valid_i(w_valid[WalkDrain]),
      .block_next_o (block_drained),
      .ready_i      (blocks_done_q != blocks_drained_q),
      .base_i       (w_dst[WalkDrain]),
      .stride_i     (command_i.dst.row_stride),
      .m0_i         (w_m0[WalkDrain]),
      .mb_i         (w_mb[WalkDrain]),
      .n0_i         (w_n0[WalkDrain]),
      .nb_i         (w_nb[WalkDrain]),
      .tall_i       (w_tall[WalkDrain]),
      .use_alpha_i  (command_i.use_alpha),
      .alpha_i      (command_i.alpha),
      .read_o       (drain_read),
      .read_addr_o  (drain_addr),
      .read_data_i  (acc_data[drain_half_q]),
      .desc_valid_o (c_desc_valid_o),
      .desc_ready_i (c_desc_ready_i),
      .desc_o       (c_desc_o),
      .data_valid_o (c_valid_o),
      .data_ready_i (c_ready_i),
      .data_o       (c_data_o)
  );
  assign w_next[WalkDrain] = block_drained;

  // ---- state ----------------------------------------------------------------------------------------
  logic busy_q;
  assign busy_o = busy_q;
  assign done_o = busy_q && !w_valid[WalkDrain] && c_idle_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) busy_q <= 1'b0;
    else if (start_i) busy_q <= 1'b1;
    else if (done_o) busy_q <= 1'b0;
  end

  assign macs_o        = row_issue ? 16'(row_k) * 16'(row_n) : 16'd0;
  assign stall_write_o = row_valid && weights_ok && !(sums_ok && room_ok);
  assign stall_read_o  = w_valid[WalkRow] && !row_issue && !stall_write_o;

  logic unused;
  assign unused = &{1'b0, w_first_k, w_last_k, w_tall, w_src1[1], w_dst[0], command_i};
endmodule
