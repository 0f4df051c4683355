// Walks the blocks of a batched matrix product in the one order that every
// part of the matrix engine follows:
//
//   for each outer batch, inner batch, N block, M block, K block
//
// Several parts run at their own pace, so each has a walker of its own.
// Reset and abort state: no block.
module block_iterator
  import npu_pkg::*;
#(
    parameter int unsigned Tile        = 16,   // rows and columns of the array
    parameter int unsigned BlockM      = 128,  // rows of an M block
    parameter int unsigned BlockKTiles = 4,    // tiles of a K block
    parameter int unsigned BlockNTiles = 16,   // most tiles of an N block
    parameter int unsigned AccEntries  = 1024, // accumulator rows of a block
    parameter bit          WholeK      = 1'b0  // one step for all K blocks of a result block
) (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        abort_i,
    input  logic        start_i,     // pulse, with the command
    input  matrix_command_t command_i,   // stable from start_i on
    input  logic        next_i,      // done with this block

    output logic        valid_o,     // there is a block
    output logic [31:0] src1_addr_o, // of the batch
    output logic [31:0] src2_addr_o,
    output logic [31:0] dst_addr_o,
    output dim_t        m0_o,        // first row
    output dim_t        k0_o,
    output dim_t        n0_o,
    output dim_t        mb_o,        // rows
    output dim_t        kb_o,
    output dim_t        nb_o,
    output logic        first_k_o,   // accumulation starts with this block
    output logic        last_k_o,    // and ends with it
    output logic        tall_o       // accumulator rows an N tile takes: BlockM, else half of it
);
  localparam int unsigned TallTiles = AccEntries / BlockM;
  localparam int unsigned LowTiles  = (AccEntries / (BlockM / 2) < BlockNTiles)
                                      ? AccEntries / (BlockM / 2) : BlockNTiles;
  localparam int unsigned BlockK    = BlockKTiles * Tile;

  logic valid_q;
  dim_t m_q, k_q, n_q;
  logic [15:0] batch0_q, batch1_q;
  operand_t src1_q, src2_q, dst_q;       // addr: of the current batch
  logic [31:0] outer1_q, outer2_q, outerd_q;  // of the current outer batch

  dim_t full_step, n_step, m_left, k_left, n_left;
  logic last_m, last_k, last_n, last_b0, last_b1;

  assign valid_o   = valid_q;
  assign tall_o    = command_i.m > dim_t'(BlockM / 2);
  // A narrow result is cut in more blocks than it needs: all but the last drain
  // while the next is computed.
  assign full_step = tall_o ? dim_t'(TallTiles * Tile) : dim_t'(LowTiles * Tile);
  assign n_step    = (TallTiles > 1 && tall_o && command_i.n <= dim_t'(2 * TallTiles * Tile))
                     ? dim_t'((TallTiles / 2) * Tile) : full_step;
  assign m_left    = command_i.m - m_q;
  assign k_left    = command_i.k - k_q;
  assign n_left    = command_i.n - n_q;
  assign last_m    = m_left <= dim_t'(BlockM);
  assign last_k    = WholeK || k_left <= dim_t'(BlockK);
  assign last_n    = n_left <= n_step;
  assign last_b0   = batch0_q == 16'd1;
  assign last_b1   = batch1_q == 16'd1;

  assign m0_o = m_q;
  assign k0_o = k_q;
  assign n0_o = n_q;
  assign mb_o = last_m ? m_left : dim_t'(BlockM);
  assign kb_o = last_k ? k_left : dim_t'(BlockK);
  assign nb_o = last_n ? n_left : n_step;
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

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) valid_q <= 1'b0;
    else if (start_i) valid_q <= 1'b1;
    else if (step_b1 && last_b1) valid_q <= 1'b0;
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
    end else if (next_i) begin
      k_q <= last_k ? '0 : k_q + dim_t'(BlockK);
      if (step_m) m_q <= last_m ? '0 : m_q + dim_t'(BlockM);
      if (step_n) n_q <= last_n ? '0 : n_q + n_step;
      if (step_b0) begin
        batch0_q    <= last_b0 ? command_i.batch0 : batch0_q - 16'd1;
        src1_q.addr <= src1_q.addr + src1_q.batch0_stride;
        src2_q.addr <= src2_q.addr + src2_q.batch0_stride;
        dst_q.addr  <= dst_q.addr + dst_q.batch0_stride;
      end
      if (step_b1) begin
        batch1_q    <= batch1_q - 16'd1;
        src1_q.addr <= outer1_q + src1_q.batch1_stride;
        src2_q.addr <= outer2_q + src2_q.batch1_stride;
        dst_q.addr  <= outerd_q + dst_q.batch1_stride;
        outer1_q    <= outer1_q + src1_q.batch1_stride;
        outer2_q    <= outer2_q + src2_q.batch1_stride;
        outerd_q    <= outerd_q + dst_q.batch1_stride;
      end
    end
  end

  logic unused;
  assign unused = &{1'b0, src1_q.row_stride, src2_q.row_stride, dst_q.row_stride, command_i};

  if (BlockM < 2 * Tile || BlockM % (2 * Tile) != 0 || (BlockM & (BlockM - 1)) != 0) begin : g_bad_m
    $fatal(1, "block_iterator: BlockM must be a power of two and at least two tiles");
  end
  if (AccEntries % BlockM != 0 || TallTiles > BlockNTiles) begin : g_bad_acc
    $fatal(1, "block_iterator: AccEntries must be a multiple of BlockM and hold at most BlockNTiles of them");
  end
endmodule
