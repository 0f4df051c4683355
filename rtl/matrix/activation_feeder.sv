// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Streams the rows of the left operand from its on-chip memory to the array:
// for each K tile and N tile of a block all its M rows, in groups of up to Tile
// rows, which pass a tile buffer.
//
// In the last K block of a result block the N tiles are the outer loop, so the
// results of one N tile leave while the next is computed. This needs ManyRows
// rows: a sum must have left the array before the next K tile adds to it.
// With weights in blocks, a row is two planes of int8, high bytes first, which
// enter the array one after another, without a gap if the array takes both. Where
// a block takes two tiles, panels hold whole blocks.
// Reset and abort state: nothing read.
module activation_feeder
  import npu_pkg::*;
#(
    parameter int unsigned Tile        = 16,   // rows and columns of the array, a power of two from 4 to 64
    parameter int unsigned BlockM      = 128,  // most rows of a block, a power of two from 2 * Tile
    parameter int unsigned AddrBits    = 10,   // of an entry of the on-chip memory: both parities of BlockM or more
    parameter int unsigned AccAddrBits = 10,   // of an accumulator row, at least $clog2(BlockM)
    parameter int unsigned ManyRows    = 24    // rows that cover the depth of the array in clocks, at least Tile + 4
) (
    input  logic                    clk_i,
    input  logic                    rst_ni,
    input  logic                    abort_i,
    output logic                    awake_o,          // the next edge of clk_i changes something

    input  logic                    panel_valid_i,
    output logic                    panel_next_o,
    input  matrix_type_e            kind_i,
    input  logic                    blocks_i,       // weights in blocks; not with k_rows_i
    input  logic                    k_rows_i,       // memory rows run along M
    input  dim_t                    depth_i,        // K, elements
    input  dim_t                    k0_i,           // words
    input  dim_t                    mb_i,
    input  dim_t                    kb_i,           // words
    input  dim_t                    nb_i,
    input  logic                    first_k_i,
    input  logic                    last_k_i,
    input  logic [1:0]              flat_i,
    input  logic [7:0]              loaded_i,
    input  dim_t                    rows_i,
    output logic                    free_o,

    output logic                    read_o,
    output logic [AddrBits-1:0]     read_addr_o,
    output logic                    read_ends_o,      // with weights in blocks: of a tile with which blocks end
    input  logic [Tile*32-1:0]      read_data_i,

    // the next row for the array; lanes past the end of K are zero
    output logic                    row_valid_o,
    input  logic                    row_next_i,
    output logic [Tile*32-1:0]      row_o,
    output logic [AccAddrBits-1:0]  row_acc_addr_o,
    output logic                    row_integer_o,    // four int8 a lane
    output logic                    row_blocks_o,     // a plane of a row for weights in blocks
    output logic                    row_low_o,        // with row_blocks_o: the low one
    output logic                    row_ends_o,       // with row_blocks_o: blocks end with this tile
    output logic                    row_first_o,      // its sums, or those of its block, start at zero
    output logic                    row_last_o,       // its sums are results
    output logic                    row_tile_first_o, // first row with these weights
    output logic                    row_tile_last_o,  // last row with these weights
    output logic [$clog2(Tile)+2:0] row_k_o,          // elements of K in use
    output logic [$clog2(Tile):0]   row_n_o,          // columns in use
    output logic                    row_many_o,       // ManyRows or more of these weights
    output dim_t                    row_n_tiles_o,    // N tiles of the block
    output logic                    rows_left_o       // rows of products are yet to be taken
);
  localparam int unsigned LaneBits  = $clog2(Tile);
  localparam int unsigned TileBits  = AddrBits - 1 - LaneBits;
  localparam int unsigned MBits     = $clog2(BlockM);

  typedef struct packed {
    logic [AccAddrBits-1:0] acc_addr;
    logic                   integer_product;
    logic                   blocks;
    logic                   ends;
    logic                   first;
    logic                   last;
    logic                   tile_first;
    logic                   tile_last;
    logic                   transpose;
    logic [LaneBits:0]      entries;
    logic [LaneBits:0]      k_count;
    logic [LaneBits+2:0]    k_elements;
    logic [LaneBits:0]      n_count;
    logic                   many;
    dim_t                   n_tiles;
  } tag_t;

  logic [7:0] panel_q;
  dim_t k_q, n_q, m_q;
  logic [LaneBits-1:0] row_q;
  logic flight_q, flight_last_q;
  tag_t tag, flight_tag_q, out_tag;

  logic fours;  // four elements of K a word
  assign fours = kind_i == TypeInt8 || blocks_i;

  dim_t m_step, m_row;
  logic [AddrBits-1:0] rows_addr, planes_addr;
  dim_t k_left, n_left, m_left, needed, n_rounded, elements_left;
  logic [LaneBits:0] k_count, n_count, m_count, entries;
  logic available, last_row, last_m, last_n, last_k, many, n_outer, buffer_ready;

  assign many    = mb_i >= dim_t'(ManyRows);
  assign n_outer = last_k_i && many;
  assign k_left  = kb_i - k_q;
  assign n_left  = nb_i - n_q;
  assign m_left  = mb_i - m_q;
  assign last_k  = k_left <= dim_t'(Tile);
  assign last_n  = n_left <= dim_t'(Tile);
  assign m_step  = blocks_i ? dim_t'(Tile / 2) : dim_t'(Tile);
  assign last_m  = m_left <= m_step;
  assign k_count = last_k ? k_left[LaneBits:0] : (LaneBits + 1)'(Tile);
  assign n_count = last_n ? n_left[LaneBits:0] : (LaneBits + 1)'(Tile);
  assign m_count = last_m ? m_left[LaneBits:0] : m_step[LaneBits:0];
  assign entries = k_rows_i ? k_count : m_count << blocks_i;
  assign m_row   = m_q + (dim_t'(row_q) >> blocks_i);
  assign needed  = (k_rows_i ? k_q + dim_t'(row_q) : m_row) + dim_t'(1);
  assign available = loaded_i != panel_q || rows_i >= needed;
  assign last_row  = {1'b0, row_q} + 1'b1 == entries;

  assign read_o       = panel_valid_i && available && buffer_ready;
  assign rows_addr    = {
    panel_q[0], TileBits'((k_q >> LaneBits) << (MBits - LaneBits)) | TileBits'(m_q >> LaneBits), row_q
  };
  assign planes_addr  = {
    panel_q[0],
    TileBits'((k_q >> LaneBits) << (MBits - LaneBits + 1)) | TileBits'({m_q >> LaneBits, row_q[0]}),
    m_row[LaneBits-1:0]
  };
  assign read_addr_o  = blocks_i ? planes_addr : rows_addr;
  assign read_ends_o  = !splits_blocks(Tile) || k_q[LaneBits];
  assign panel_next_o = read_o && last_row && last_m && last_n && last_k;
  assign free_o       = panel_next_o;
  assign n_rounded    = nb_i + dim_t'(Tile - 1);
  assign elements_left = depth_i - ((k0_i + k_q) << 2);  // of int8

  always_comb begin
    tag = '0;
    // N tile index times the accumulator rows it takes
    tag.acc_addr    = (AccAddrBits'(n_q >> LaneBits) << (2'd2 - flat_i) << (MBits - 2)) | AccAddrBits'(m_q);
    tag.integer_product = fours;
    tag.blocks      = blocks_i;
    tag.ends        = blocks_i && read_ends_o;
    tag.first       = first_k_i && (k_q == '0 || (splits_blocks(Tile) && blocks_i && k_q == dim_t'(Tile)));
    tag.last        = last_k_i && last_k;
    tag.tile_first  = m_q == '0;
    tag.tile_last   = last_m;
    tag.transpose   = k_rows_i;
    tag.entries     = k_rows_i ? m_count : entries;
    tag.k_count     = k_count;
    tag.k_elements  = (LaneBits + 3)'(k_count);
    if (fours) begin
      tag.k_elements = (elements_left < dim_t'(4 * Tile)) ? elements_left[LaneBits+2:0] : (LaneBits + 3)'(4 * Tile);
    end
    tag.n_count     = n_count;
    tag.many        = many;
    tag.n_tiles     = n_rounded >> LaneBits;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      k_q   <= '0;
      n_q   <= '0;
      m_q   <= '0;
      row_q <= '0;
    end else if (read_o) begin
      row_q <= last_row ? '0 : row_q + 1'b1;
      if (last_row) begin
        m_q <= last_m ? '0 : m_q + m_step;
        if (last_m && (last_k || !n_outer)) n_q <= last_n ? '0 : n_q + dim_t'(Tile);
        if (last_m && (last_n || n_outer)) k_q <= last_k ? '0 : k_q + dim_t'(Tile);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) panel_q <= '0;
    else if (panel_next_o) panel_q <= panel_q + 8'd1;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) flight_q <= 1'b0;
    else flight_q <= read_o;
  end
  always_ff @(posedge clk_i) begin
    flight_last_q <= last_row;
    flight_tag_q  <= tag;
  end

  logic [LaneBits-1:0] index;
  logic [Tile*32-1:0] row;
  logic last_index;

  tile_buffer #(
      .Tile   (Tile),
      .TagBits($bits(tag_t)),
      .Blocks (4),  // more than two, because the last group of a tile may be short
      .Early  (1'b1)
  ) u_buffer (
      .clk_i,
      .rst_ni,
      .abort_i,
      .ready_o    (buffer_ready),
      .write_i    (flight_q),
      .data_i     (read_data_i),
      .last_i     (flight_last_q),
      .tag_i      (flight_tag_q),
      .valid_o    (row_valid_o),
      .tag_o      (out_tag),
      .transpose_i(out_tag.transpose),
      .index_o    (index),
      .data_o     (row),
      .next_i     (row_next_i),
      .release_i  (last_index)
  );

  assign last_index = {1'b0, index} + 1'b1 == out_tag.entries;

  for (genvar lane = 0; lane < Tile; lane++) begin : g_mask
    assign row_o[lane*32+:32] = ((LaneBits + 1)'(lane) < out_tag.k_count) ? row[lane*32+:32] : 32'd0;
  end

  assign row_acc_addr_o    = out_tag.acc_addr + AccAddrBits'(index >> out_tag.blocks);
  assign row_integer_o     = out_tag.integer_product;
  assign row_blocks_o      = out_tag.blocks;
  assign row_low_o         = out_tag.blocks && index[0];
  assign row_ends_o        = out_tag.ends;
  assign row_first_o       = out_tag.first;
  assign row_last_o        = out_tag.last;
  assign row_tile_first_o  = out_tag.tile_first && index == '0;
  assign row_tile_last_o   = out_tag.tile_last && last_index;
  assign row_k_o           = out_tag.k_elements;
  assign row_n_o           = out_tag.n_count;
  assign row_many_o        = out_tag.many;
  assign row_n_tiles_o     = out_tag.n_tiles;
  assign awake_o           = read_o || flight_q || row_next_i;
  assign rows_left_o       = panel_valid_i || flight_q || row_valid_o;

  logic unused;
  assign unused = &{1'b0, k_left[DimBits-1:LaneBits+1], n_left[DimBits-1:LaneBits+1], m_left[DimBits-1:LaneBits+1],
                    k_q[LaneBits-1:0], n_rounded[LaneBits-1:0]};

  `NPU_ASSERT_HANDSHAKE(PanelHolds, panel_valid_i, panel_next_o,
                        {kind_i, blocks_i, k_rows_i, depth_i, k0_i, mb_i, kb_i, nb_i, first_k_i, last_k_i, flat_i},
                        "a panel changed or was withdrawn before it was read", abort_i)
  `NPU_ASSERT_HANDSHAKE(RowHolds, row_valid_o, row_next_i,
                        {row_acc_addr_o, row_integer_o, row_blocks_o, row_low_o, row_ends_o, row_first_o, row_last_o,
                         row_tile_first_o, row_tile_last_o, row_k_o, row_n_o, row_many_o, row_n_tiles_o},
                        "a row changed or was withdrawn before the array took it", abort_i)
endmodule
