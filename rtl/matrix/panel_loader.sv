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
// With weights in blocks, the left operand's float32 become two planes of int8,
// entries of two neighbouring X tiles; float16 are widened first, half a beat a
// clock:
//
//   entry address = {panel parity, K tile, X tile, plane: high or low, row in the block}
//
// The right operand's packed tiles are unpacked to int8, and their scales and
// minima are passed on, one entry each a tile before its rows.
//
// Where a tile of the array has half a block, a packed tile is several tiles in
// both directions. A panel begins and ends with whole blocks: of a packed tile
// the other block is passed over. Facts, scales and minima are those of the tile
// with which a block ends. A block has its first 16 values in its first tile, but
// nibbles come in bytes of values 16 apart, so with them it has the values 0 to 7
// and 16 to 23, in both operands: the sum over a block is exact in any order.
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
    parameter int unsigned AddrBits    = 10,   // of an entry of the on-chip memory, at least $clog2(Tile) + 2
    parameter bit          Blocks      = 1'b0, // takes weights in blocks; Tile is 4 then, or 16 and DataWidth 128 or 256
    parameter bit          Left        = 1'b0  // of the left operand
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,
    output logic                 awake_o,       // the next edge of clk_i changes something

    // the panel to ask for next
    input  logic                 panel_valid_i,
    output logic                 panel_next_o,
    input  matrix_type_e         kind_i,
    input  blocks_e              blocks_i,      // of the right operand; not with k_rows_i
    input  logic                 k_rows_i,      // memory rows run along X
    input  logic                 wide_i,
    input  address_t             base_i,        // of the batch
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
    // with weights in blocks
    output logic                 info_write_o,  // left: info_o is of the planes that are written
    output block_info_t [block_taps(Tile)-1:0] info_o,
    output logic [1:0]           scales_o,      // right: write_data_o[0] has [0] the scales, [1] the minima of a tile

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
  localparam bit          Split      = splits_blocks(Tile);
  localparam int unsigned Taps       = block_taps(Tile);
  // A row of a packed tile in entries, and its scales or minima.
  localparam int unsigned RowEntries  = Split ? TileDepth / (4 * Tile) : 1;
  localparam int unsigned HeadEntries = Split ? TileColumns / Tile * (TileDepth / BlockValues) : 1;
  localparam int unsigned PartBits    = $clog2(2 * HeadEntries + TileColumns * RowEntries);

  // ---- requests ------------------------------------------------------------------
  typedef struct packed {
    logic         k_rows;
    logic         wide;
    matrix_type_e kind;
    blocks_e      blocks;
    dim_t         rows;   // of memory
    logic         second; // the first packed tile's second block is the panel's first
    logic [TileBits-1:0] k_tiles; // of packed tiles, where they are more than the panel's
  } pending_t;

  logic [1:0] held_q;  // panels requested and not yet freed
  logic pending_full, pending_empty, panel_done;
  pending_t asked, pending;
  logic [1:0] pending_count;

  logic converting;  // float32 is on its way to the planes

  // Packed tiles that hold so many words, or so many columns.
  function automatic logic [31:0] packed_tiles_of(input dim_t count);
    packed_tiles_of = (32'(count) + 32'(TileColumns - 1)) >> $clog2(TileColumns);
  endfunction

  assign desc_valid_o = panel_valid_i && held_q != 2'd2 && !pending_full;
  assign panel_next_o = desc_valid_o && desc_ready_i;
  assign awake_o      = panel_next_o || data_valid_i || free_i || converting;

  logic [31:0] k_first, k_count;  // elements
  logic [1:0] k_shift, x_shift;   // log2: elements of a word, bytes of an element
  always_comb begin
    x_shift = type_shift(kind_i);
    k_shift = (kind_i == TypeInt8 || (Blocks && blocks_i != BlocksNone)) ? 2'd2 : 2'd0;
    k_first = 32'(k0_i) << k_shift;
    k_count = 32'(kb_i) << k_shift;
    if (k_count > 32'(depth_i) - k_first) k_count = 32'(depth_i) - k_first;
    desc_o = '0;
    desc_o.stride = stride_i;
    if (k_rows_i) begin
      desc_o.addr      = base_i + address_t'(k_first) * address_t'(stride_i) + (address_t'(x0_i) << x_shift);
      desc_o.rows      = k_count;
      desc_o.row_bytes = 32'(xb_i) << x_shift;
    end else begin
      desc_o.addr      = base_i + address_t'(x0_i) * address_t'(stride_i) + (address_t'(k_first) << x_shift);
      desc_o.rows      = 32'(xb_i);
      desc_o.row_bytes = k_count << x_shift;
    end
    if (Blocks && !Left && blocks_i != BlocksNone) begin
      // A row of packed tiles for each 16 columns.
      desc_o.addr      = base_i + (address_t'(x0_i) >> $clog2(TileColumns)) * address_t'(stride_i)
                         + (address_t'(k0_i) >> $clog2(TileDepth / 4)) * address_t'(tile_bytes(blocks_i));
      desc_o.rows      = packed_tiles_of(xb_i);
      desc_o.row_bytes = packed_tiles_of(Split ? kb_i + dim_t'(k0_i[$clog2(TileDepth/4)-1:0]) : kb_i)
                         * 32'(tile_bytes(blocks_i));
    end
    asked = '{
        k_rows: k_rows_i,
        wide: wide_i,
        kind: kind_i,
        blocks: blocks_i,
        rows: desc_o.rows[DimBits-1:0],
        second: Split && k0_i[$clog2(BlockValues/4)],
        k_tiles: Split ? TileBits'(kb_i >> LaneBits) : '0
    };
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
  logic parity_q, row_last, row_done, beat, take, bytes, entry_done, planes, packed_tiles;
  logic [1:0] byte_lane;

  // Float32 that becomes planes passes a converter; what is taken then is an entry for each plane.
  logic converted_valid, converted_last, converted_ends;
  logic [EntryBits-1:0] converted [2];
  logic halves, upper_q;  // a beat of float16 is taken in two clocks: its lower half, its upper half
  assign planes       = Blocks && Left && pending.blocks != BlocksNone;
  assign packed_tiles = Blocks && !Left && pending.blocks != BlocksNone;
  assign halves       = planes && pending.kind == TypeFp16;
  assign data_ready_o = !pending_empty && (!halves || upper_q);
  assign beat         = data_valid_i && data_ready_o;
  assign take         = planes ? converted_valid : beat;
  assign row_last     = planes ? converted_last : data_row_last_i;

  if (Blocks && Left) begin : g_converter
    logic converter_busy, entry_valid, row_end, present;
    logic [DataWidth-1:0] values;
    assign present = data_valid_i && !pending_empty && planes;
    always_comb begin
      values = data_i;
      if (present && halves) begin
        for (int unsigned w = 0; w < DataWidth / 32; w++) begin
          values[w*32+:32] = alu_h2f({16'd0, upper_q ? data_i[DataWidth/2+w*16+:16] : data_i[w*16+:16]});
        end
      end
    end
    always_ff @(posedge clk_i) begin
      if (!rst_ni || abort_i) upper_q <= 1'b0;
      else if (present && halves) upper_q <= !upper_q;
    end

    logic [Taps*BlockValues*8-1:0] high, low;
    block_converter #(
        .DataWidth(DataWidth),
        .Blocks   (Taps)
    ) u_converter (
        .clk_i,
        .rst_ni,
        .abort_i,
        .busy_o    (converter_busy),
        .valid_i   (present),
        .data_i    (values),
        .row_last_i(data_row_last_i && data_ready_o),
        .valid_o   (entry_valid),
        .high_o    (high),
        .low_o     (low),
        .info_o,
        .row_last_o(row_end)
    );

    if (Split) begin : g_halves
      // The values of a block's first or second tile: of each half of the block the first or the last 8, if eights.
      function automatic logic [EntryBits-1:0] half(input logic [BlockValues*8-1:0] plane, input logic second,
                                                    input logic eights);
        half = second ? plane[255:128] : plane[127:0];
        if (eights) half = second ? {plane[255:192], plane[127:64]} : {plane[191:128], plane[63:0]};
      endfunction

      // The second tile is written a clock after the first one.
      logic second_q, apart;
      always_ff @(posedge clk_i) begin
        if (!rst_ni || abort_i) second_q <= 1'b0;
        else second_q <= entry_valid;
      end
      assign apart           = pending.blocks != BlocksQ80;
      assign converting      = converter_busy || second_q;
      assign converted_valid = entry_valid || second_q;
      assign converted_ends  = second_q;
      assign converted_last  = second_q && row_end;
      assign converted[0]    = half(high, second_q, apart);
      assign converted[1]    = half(low, second_q, apart);
    end else begin : g_whole
      assign converting      = converter_busy;
      assign converted_valid = entry_valid;
      assign converted_ends  = 1'b1;
      assign converted_last  = row_end;
      assign converted[0]    = high;
      assign converted[1]    = low;
    end
  end else begin : g_no_converter
    assign upper_q         = 1'b0;
    assign converting      = 1'b0;
    assign converted_valid = 1'b0;
    assign converted_last  = 1'b0;
    assign converted_ends  = 1'b0;
    assign converted[0]    = '0;
    assign converted[1]    = '0;
    assign info_o          = '0;
  end

  // A packed tile begins with scales, and with minima if it has them. Its rows follow.
  logic [PartBits-1:0] part_q;  // entry in the tile, of scales and minima each as much as a tile of the array takes
  logic [PartBits-1:0] heads;
  logic [$clog2(TileColumns*RowEntries)-1:0] row_part;
  logic head, minima, tile_done, nibbles;
  assign heads     = (pending.blocks == BlocksQ41) ? PartBits'(2 * HeadEntries) : PartBits'(HeadEntries);
  assign head      = packed_tiles && part_q < heads;
  assign minima    = part_q >= PartBits'(HeadEntries);
  assign row_part  = ($clog2(TileColumns * RowEntries))'(part_q - heads);
  assign nibbles   = packed_tiles && !head && pending.blocks != BlocksQ80;
  assign tile_done = packed_tiles && entry_done && row_part == '1 && !head;

  // The place of the entry, or of the scales, among the tiles of the array.
  logic [TileBits-1:0] packed_k, packed_x;
  logic [LaneBits-1:0] packed_row;
  logic wanted;  // the panel has that tile
  if (Blocks && Split) begin : g_parts
    localparam int unsigned XParts = $clog2(TileColumns / Tile);
    logic [TileBits:0] k_place;
    always_comb begin
      // A K tile is half a block, and a packed tile begins up to a block before the panel.
      k_place = (TileBits + 1)'(index_q) << 2;
      if (head) k_place += {(TileBits)'(part_q[XParts]), 1'b1};
      else k_place += (TileBits + 1)'(row_part[1:0]);
      if (pending.second) k_place -= (TileBits + 1)'(2);
    end
    assign packed_k   = k_place[TileBits-1:0];
    assign packed_x   = (TileBits'(row_q) << XParts) | TileBits'(head ? part_q[XParts-1:0] : row_part[2+LaneBits+:XParts]);
    assign packed_row = row_part[2+:LaneBits];
    assign wanted     = k_place < (TileBits + 1)'(pending.k_tiles);
  end else begin : g_same
    assign packed_k   = index_q;
    assign packed_x   = TileBits'(row_q);
    assign packed_row = LaneBits'(row_part);
    assign wanted     = 1'b1;
  end

  assign bytes        = pending.kind == TypeInt8 && pending.k_rows;
  assign byte_lane    = row_q[1:0];

  logic [Beat8*32-1:0] spread;  // a byte of the beat in each word
  for (genvar i = 0; i < Beat8; i++) begin : g_spread
    assign spread[i*32+:32] = bytes ? {24'd0, data_i[i*8+:8]} : 32'd0;
  end

  // Quants of four bits as bytes, of a block or of a beat of it: the low halves come first.
  localparam int unsigned QuantBits = (DataWidth < 128) ? DataWidth : 128;
  function automatic logic [2*QuantBits-1:0] unpacked(input logic [QuantBits-1:0] quants, input logic [7:0] offset);
    for (int unsigned i = 0; i < QuantBits / 8; i++) begin
      unpacked[i*8+:8]           = {4'd0, quants[i*8+:4]} - offset;
      unpacked[QuantBits+i*8+:8] = {4'd0, quants[i*8+4+:4]} - offset;
    end
  endfunction

  logic [2*EntryBits-1:0] nibble_words;
  if (Blocks && !Left) begin : g_unpack
    always_comb begin
      nibble_words = '0;
      if (beat && nibbles) begin
        for (int unsigned b = 0; b < DataWidth / QuantBits; b++) begin
          nibble_words[b*2*QuantBits+:2*QuantBits] = unpacked(
              data_i[b*QuantBits+:QuantBits], (pending.blocks == BlocksQ40) ? 8'd8 : 8'd0);
        end
      end
    end
  end else begin : g_no_unpack
    assign nibble_words = '0;
  end

  always_comb begin
    words = '0;
    units = UnitBits'(1);
    if (take) begin
      if (packed_tiles) begin
        if (nibbles) units = UnitBits'(2);
        if (Split && head) units = UnitBits'(EntryBeats);
        words = nibbles ? nibble_words : (2 * EntryBits)'(data_i);
      end else if (planes) begin
        words = {converted[1], converted[0]};
      end else if (bytes) begin
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
  assign row_done   = take && row_last;
  assign panel_done = row_done && row_q + dim_t'(1) == pending.rows;

  assign write_o[0] = take && (row_last || entry_done || planes) && !head && (!packed_tiles || wanted);
  // A panel with a single X tile has no neighbour: the next tile in memory is one of K.
  assign write_o[1] = take && ((filled > UnitBits'(EntryBeats) && (XTileBits != 0 || pending.wide)) || planes);
  assign info_write_o = take && planes && converted_ends;
  assign scales_o   = {minima, !minima} & {2{take && entry_done && head && wanted}};
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
    end else if (packed_tiles) begin
      k_tile = packed_k;
      x_tile = packed_x;
    end else begin
      k_tile = index_q;
      x_tile = TileBits'(entry_row >> LaneBits);
    end
    // The planes are side by side.
    if (planes) x_tile = x_tile << 1;
    write_addr_o = {
      parity_q,
      (k_tile << ((pending.wide || planes) ? XTileBits + 1 : XTileBits)) | x_tile,
      packed_tiles ? packed_row : entry_row[LaneBits-1:0]
    };
  end

  always_ff @(posedge clk_i) begin
    if (take) entry_q <= entries[EntryBits-1:0];
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      unit_q   <= '0;
      index_q  <= '0;
      part_q   <= '0;
      row_q    <= '0;
      loaded_q <= '0;
      parity_q <= 1'b0;
    end else if (take) begin
      unit_q  <= (row_last || entry_done || planes) ? '0 : filled;
      if (row_done) index_q <= '0;
      else if (packed_tiles || planes) index_q <= index_q + TileBits'(tile_done || planes);
      else index_q <= index_q + TileBits'(write_o[0]) + TileBits'(write_o[1]);
      if (packed_tiles && entry_done) part_q <= tile_done ? '0 : part_q + 1'b1;
      if (row_done) row_q <= panel_done ? '0 : row_q + dim_t'(1);
      if (panel_done) begin
        loaded_q <= loaded_q + 8'd1;
        parity_q <= ~parity_q;
      end
    end
  end

  assign loaded_o = loaded_q;
  assign rows_o   = packed_tiles ? row_q << $clog2(TileColumns) : entry_row;

  logic unused;
  assign unused = &{1'b0, pending_count, pending.second, pending.k_tiles};

  if (EntryBits % DataWidth != 0 || EntryBeats < 2 || EntryBeats > 8) begin : g_bad_width
    $fatal(1, "panel_loader: a row of the array must be two to eight memory beats wide");
  end
  if (Blocks && !((Tile == 16 && DataWidth >= 128) || Tile == 4)) begin : g_bad_blocks
    $fatal(1, "panel_loader: blocks need an array of 4 by 4, or of 16 by 16 and beats of at least 128 bits");
  end
  if (AddrBits < LaneBits + 2) begin : g_bad_panel
    $fatal(1, "panel_loader: a panel must hold two tiles, one for each bank of its memory");
  end

  // The engine withdraws a panel's descriptor while the other operand's first panel has precedence.
  `NPU_ASSERT_HANDSHAKE(DescHolds, desc_valid_o, desc_ready_i, desc_o,
                        "a descriptor changed or was withdrawn before it was taken", abort_i || !panel_valid_i)
endmodule
