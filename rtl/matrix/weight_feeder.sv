// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Copies the right operand from its on-chip memory into the shadow weights of
// the array, one Tile x Tile block after another, in the order in which
// activation_feeder brings the rows for them.
// Reset and abort state: nothing read.
module weight_feeder
  import npu_pkg::*;
#(
    parameter int unsigned Tile        = 16,   // rows and columns of the array, a power of two from 4 to 64
    parameter int unsigned BlockN      = 256,  // most columns of a panel that is not wide, a power of two from Tile
    parameter int unsigned AddrBits    = 11,   // of an entry of the on-chip memory: both parities of BlockN or more
    parameter int unsigned ManyRows    = 24    // the same as activation_feeder's
) (
    input  logic                    clk_i,
    input  logic                    rst_ni,
    input  logic                    abort_i,
    output logic                    awake_o,        // the next edge of clk_i changes something

    input  logic                    panel_valid_i,
    output logic                    panel_next_o,
    input  logic                    k_rows_i,       // memory rows run along N
    input  logic                    wide_i,
    input  dim_t                    mb_i,
    input  dim_t                    kb_i,           // words
    input  dim_t                    nb_i,
    input  logic                    last_k_i,
    input  logic [7:0]              loaded_i,
    input  dim_t                    rows_i,
    output logic                    free_o,

    output logic                    read_o,
    output logic [AddrBits-1:0]     read_addr_o,
    output logic                    read_ends_o,    // with weights in blocks: of a tile with which blocks end
    input  logic [Tile*32-1:0]      read_data_i,

    input  logic                    shadow_free_i,  // the array has taken the last block
    output logic                    shadow_start_o, // pulse: first row of a new block
    output logic                    weight_write_o,
    output logic [$clog2(Tile)-1:0] weight_row_o,
    output logic [Tile*32-1:0]      weight_o
);
  localparam int unsigned LaneBits  = $clog2(Tile);
  localparam int unsigned NTileBits = $clog2(BlockN) - LaneBits;
  localparam int unsigned TileBits  = AddrBits - 1 - LaneBits;

  logic [7:0] panel_q;
  dim_t k_q, n_q;               // first row and column of the block
  logic [LaneBits-1:0] row_q;   // entry of the block
  logic flight_q, flight_last_q;
  logic [LaneBits+1:0] flight_tag_q;

  dim_t k_left, n_left, needed;
  logic [LaneBits:0] k_count, n_count, entries;
  logic available, last_row, last_n, last_k, n_outer, buffer_ready;

  assign n_outer = last_k_i && mb_i >= dim_t'(ManyRows);
  assign k_left  = kb_i - k_q;
  assign n_left  = nb_i - n_q;
  assign last_k  = k_left <= dim_t'(Tile);
  assign last_n  = n_left <= dim_t'(Tile);
  assign k_count = last_k ? k_left[LaneBits:0] : (LaneBits + 1)'(Tile);
  assign n_count = last_n ? n_left[LaneBits:0] : (LaneBits + 1)'(Tile);
  assign entries = k_rows_i ? k_count : n_count;
  assign needed  = (k_rows_i ? k_q : n_q) + dim_t'(row_q) + dim_t'(1);
  // The loader is at this panel or ahead of it, never behind.
  assign available = loaded_i != panel_q || rows_i >= needed;
  assign last_row  = {1'b0, row_q} + 1'b1 == entries;

  assign read_o       = panel_valid_i && available && buffer_ready;
  assign read_addr_o  = {
    panel_q[0],
    TileBits'((k_q >> LaneBits) << (wide_i ? NTileBits + 1 : NTileBits)) | TileBits'(n_q >> LaneBits),
    row_q
  };
  assign read_ends_o  = !splits_blocks(Tile) || k_q[LaneBits];
  assign panel_next_o = read_o && last_row && last_n && last_k;
  assign free_o       = panel_next_o;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      k_q   <= '0;
      n_q   <= '0;
      row_q <= '0;
    end else if (read_o) begin
      row_q <= last_row ? '0 : row_q + 1'b1;
      if (last_row) begin
        if (last_k || !n_outer) n_q <= last_n ? '0 : n_q + dim_t'(Tile);
        if (last_n || n_outer) k_q <= last_k ? '0 : k_q + dim_t'(Tile);
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
    flight_tag_q  <= {!k_rows_i, k_count};
  end

  logic block_valid, block_transpose, release_block;
  logic [LaneBits:0] block_k;
  logic [Tile*32-1:0] row;

  tile_buffer #(
      .Tile   (Tile),
      .TagBits(LaneBits + 2)
  ) u_buffer (
      .clk_i,
      .rst_ni,
      .abort_i,
      .ready_o    (buffer_ready),
      .write_i    (flight_q),
      .data_i     (read_data_i),
      .last_i     (flight_last_q),
      .tag_i      (flight_tag_q),
      .valid_o    (block_valid),
      .tag_o      ({block_transpose, block_k}),
      .transpose_i(block_transpose),
      .index_o    (weight_row_o),
      .data_o     (row),
      .next_i     (weight_write_o),
      .release_i  (release_block)
  );

  assign release_block  = weight_row_o == LaneBits'(Tile - 1);
  assign weight_write_o = block_valid && (weight_row_o != '0 || shadow_free_i);
  assign shadow_start_o = weight_write_o && weight_row_o == '0;
  assign awake_o        = read_o || flight_q || weight_write_o;
  // Weights of rows past the end of K are zero.
  assign weight_o       = ({1'b0, weight_row_o} < block_k) ? row : '0;

  logic unused;
  assign unused = &{1'b0, k_left[DimBits-1:LaneBits+1], n_left[DimBits-1:LaneBits+1], k_q[LaneBits-1:0], n_q[LaneBits-1:0]};

  `NPU_ASSERT_HANDSHAKE(PanelHolds, panel_valid_i, panel_next_o, {k_rows_i, wide_i, mb_i, kb_i, nb_i, last_k_i},
                        "a panel changed or was withdrawn before it was read", abort_i)
endmodule
