// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Loads the panels of one operand of a matrix product into its on-chip memory,
// up to two panels ahead of the consumer.
//
// A panel is a grid of Tile x Tile blocks of 32-bit words, K direction by X
// direction (X is M for the left operand, N for the right one). A word is a
// float32, a 16-bit float widened to that, or four int8 of consecutive k. Where
// each row of memory runs along X ("k_rows"), an entry holds Tile neighbours in
// X of one k word, otherwise Tile neighbours in K of one x. In both cases a
// block takes Tile consecutive entries, and a tile buffer behind the memory
// transposes it where needed:
//
//   entry address = {panel parity, K tile, X tile, row in the block}
//
// A wide panel has twice the X tiles and half the K tiles. Words past the end of
// a row in memory are zero, and so are the bytes of a word past the end of K:
// dma_read zeroes the bytes behind the end of a row in its last beat.
// Reset and abort state: nothing loaded.
module panel_loader
  import npu_pkg::*;
  import vector_alu_pkg::alu_h2f;
#(
    parameter int unsigned DataWidth   = 256,  // bits of a memory beat: 64, 128, 256 or 512; two to eight beats an entry
    parameter int unsigned Tile        = 16,   // rows and columns of the array, a power of two from 4 to 64
    parameter int unsigned BlockX      = 128,  // most elements in X of a panel that is not wide, a power of two
    parameter int unsigned AddrBits    = 10    // of an entry of the on-chip memory, at least $clog2(Tile) + 2
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,
    output logic                 awake_o,       // the next edge of clk_i changes something

    // the panel to ask for next
    input  logic                 panel_valid_i,
    output logic                 panel_next_o,
    input  matrix_type_e         kind_i,
    input  logic                 k_rows_i,      // memory rows run along X
    input  logic                 wide_i,
    input  logic [31:0]          base_i,        // of the batch
    input  logic [31:0]          stride_i,      // of memory rows, bytes
    input  dim_t                 depth_i,       // K, elements
    input  dim_t                 k0_i,          // words
    input  dim_t                 kb_i,          // words
    input  dim_t                 x0_i,
    input  dim_t                 xb_i,

    // memory controller
    output logic                 desc_valid_o,
    input  logic                 desc_ready_i,
    output dma_desc_t            desc_o,
    input  logic                 data_valid_i,
    output logic                 data_ready_o,
    input  logic [DataWidth-1:0] data_i,
    input  logic                 data_row_last_i,

    // on-chip memory
    output logic [1:0]           write_o,
    output logic [AddrBits-1:0]  write_addr_o,
    output logic [Tile*32-1:0]   write_data_o [2],
    output logic [3:0]           write_bytes_o,

    // progress
    output logic                 idle_o,        // all requested data has arrived
    output logic [7:0]           loaded_o,      // panels complete since reset, wraps
    output dim_t                 rows_o,        // rows complete of the next panel: of k words or of x
    input  logic                 free_i         // pulse: the consumer no longer needs the oldest panel
);
  localparam int unsigned EntryBits  = Tile * 32;
  localparam int unsigned EntryBeats = EntryBits / DataWidth;  // of 32-bit elements
  localparam int unsigned LaneBits   = $clog2(Tile);
  localparam int unsigned XTileBits  = $clog2(BlockX) - LaneBits;
  localparam int unsigned TileBits   = AddrBits - 1 - LaneBits;  // of a panel
  localparam int unsigned Beat16     = DataWidth / 16;
  localparam int unsigned Beat8      = DataWidth / 8;
  localparam int unsigned UnitBits   = $clog2(EntryBeats) + 2;

  // ---- requests ------------------------------------------------------------------
  typedef struct packed {
    logic         k_rows;
    logic         wide;
    matrix_type_e kind;
    dim_t         rows;   // of memory
  } pending_t;

  logic [1:0] held_q;  // panels requested and not yet freed
  logic pending_full, pending_empty, panel_done;
  pending_t asked, pending;
  logic [1:0] pending_count;

  assign desc_valid_o = panel_valid_i && held_q != 2'd2 && !pending_full;
  assign panel_next_o = desc_valid_o && desc_ready_i;
  assign awake_o      = panel_next_o || data_valid_i || free_i;

  logic [31:0] k_first, k_count;  // elements
  logic [1:0] k_shift, x_shift;   // log2: elements of a word, bytes of an element
  always_comb begin
    x_shift = type_shift(kind_i);
    k_shift = (kind_i == TypeInt8) ? 2'd2 : 2'd0;
    k_first = 32'(k0_i) << k_shift;
    k_count = 32'(kb_i) << k_shift;
    if (k_count > 32'(depth_i) - k_first) k_count = 32'(depth_i) - k_first;
    desc_o = '0;
    desc_o.stride = stride_i;
    if (k_rows_i) begin
      desc_o.addr      = base_i + k_first * stride_i + (32'(x0_i) << x_shift);
      desc_o.rows      = k_count;
      desc_o.row_bytes = 32'(xb_i) << x_shift;
    end else begin
      desc_o.addr      = base_i + 32'(x0_i) * stride_i + (k_first << x_shift);
      desc_o.rows      = 32'(xb_i);
      desc_o.row_bytes = k_count << x_shift;
    end
    asked = '{k_rows: k_rows_i, wide: wide_i, kind: kind_i, rows: desc_o.rows[DimBits-1:0]};
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) held_q <= '0;
    else held_q <= held_q + 2'(panel_next_o) - 2'(free_i);
  end

  sync_fifo #(
      .Width($bits(pending_t)),
      .Depth(2)
  ) u_pending (
      .clk_i,
      .rst_ni,
      .clear_i(abort_i),
      .push_i (panel_next_o),
      .data_i (asked),
      .pop_i  (panel_done),
      .data_o (pending),
      .full_o (pending_full),
      .empty_o(pending_empty),
      .count_o(pending_count)
  );
  assign idle_o = pending_empty;

  // ---- data ------------------------------------------------------------------------
  // Widening makes words of one, two or four times the bits of a beat. `unit_q`
  // counts them in units of a beat within the entry; a clock finishes up to two
  // entries.
  logic [EntryBits-1:0] entry_q;
  logic [2*EntryBits-1:0] words, entries;
  logic [UnitBits-1:0] unit_q, units, filled;
  logic [TileBits-1:0] index_q;  // entry in the memory row
  dim_t row_q;
  logic [7:0] loaded_q;
  logic parity_q, row_done, take, bytes, entry_done;
  logic [1:0] byte_lane;

  assign data_ready_o = !pending_empty;
  assign take         = data_valid_i && data_ready_o;
  assign bytes        = pending.kind == TypeInt8 && pending.k_rows;
  assign byte_lane    = row_q[1:0];

  logic [Beat8*32-1:0] spread;  // a byte of the beat in each word
  for (genvar i = 0; i < Beat8; i++) begin : g_spread
    assign spread[i*32+:32] = bytes ? {24'd0, data_i[i*8+:8]} : 32'd0;
  end

  always_comb begin
    words = '0;
    units = UnitBits'(1);
    if (take) begin
      if (bytes) begin
        units = UnitBits'(4);
        words = (2 * EntryBits)'(spread) << {byte_lane, 3'd0};
      end else if (pending.kind == TypeBf16) begin
        units = UnitBits'(2);
        for (int unsigned i = 0; i < Beat16; i++) words[i*32+:32] = {data_i[i*16+:16], 16'd0};
      end else if (pending.kind == TypeFp16) begin
        units = UnitBits'(2);
        for (int unsigned i = 0; i < Beat16; i++) words[i*32+:32] = alu_h2f({16'd0, data_i[i*16+:16]});
      end else begin
        words = (2 * EntryBits)'(data_i);
      end
    end
  end

  // The words of the entry so far, with the new words above them and zeros above those.
  always_comb begin
    entries = words;
    for (int unsigned u = 1; u < EntryBeats; u++) begin
      if (take && unit_q == UnitBits'(u)) entries = (words << (u * DataWidth)) | (2 * EntryBits)'(entry_q);
    end
  end

  assign filled     = unit_q + units;
  assign entry_done = filled >= UnitBits'(EntryBeats);
  assign row_done   = take && data_row_last_i;
  assign panel_done = row_done && row_q + dim_t'(1) == pending.rows;

  assign write_o[0] = take && (data_row_last_i || entry_done);
  assign write_o[1] = take && filled > UnitBits'(EntryBeats);
  assign write_data_o[0] = entries[EntryBits-1:0];
  assign write_data_o[1] = entries[2*EntryBits-1:EntryBits];
  // The first byte of a word clears the other three, because K may end before them.
  assign write_bytes_o = (bytes && byte_lane != 2'd0) ? 4'd1 << byte_lane : 4'hF;

  dim_t entry_row;
  logic [TileBits-1:0] k_tile, x_tile;
  always_comb begin
    entry_row = bytes ? row_q >> 2 : row_q;
    if (pending.k_rows) begin
      k_tile = TileBits'(entry_row >> LaneBits);
      x_tile = index_q;
    end else begin
      k_tile = index_q;
      x_tile = TileBits'(entry_row >> LaneBits);
    end
    write_addr_o = {
      parity_q,
      (k_tile << (pending.wide ? XTileBits + 1 : XTileBits)) | x_tile,
      entry_row[LaneBits-1:0]
    };
  end

  always_ff @(posedge clk_i) begin
    if (take) entry_q <= entries[EntryBits-1:0];
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      unit_q   <= '0;
      index_q  <= '0;
      row_q    <= '0;
      loaded_q <= '0;
      parity_q <= 1'b0;
    end else if (take) begin
      unit_q  <= write_o[0] ? '0 : filled;
      index_q <= row_done ? '0 : index_q + TileBits'(write_o[0]) + TileBits'(write_o[1]);
      if (row_done) row_q <= panel_done ? '0 : row_q + dim_t'(1);
      if (panel_done) begin
        loaded_q <= loaded_q + 8'd1;
        parity_q <= ~parity_q;
      end
    end
  end

  assign loaded_o = loaded_q;
  assign rows_o   = entry_row;

  logic unused;
  assign unused = &{1'b0, pending_count};

  if (EntryBits % DataWidth != 0 || EntryBeats < 2 || EntryBeats > 8) begin : g_bad_width
    $fatal(1, "panel_loader: a row of the array must be two to eight memory beats wide");
  end
  if (AddrBits < LaneBits + 2) begin : g_bad_panel
    $fatal(1, "panel_loader: a panel must hold two tiles, one for each bank of its memory");
  end

  // The engine withdraws a panel's descriptor while the other operand's first panel has precedence.
  `NPU_ASSERT_HANDSHAKE(DescHolds, desc_valid_o, desc_ready_i, desc_o,
                        "a descriptor changed or was withdrawn before it was taken", abort_i || !panel_valid_i)
endmodule
