// Loads the panels of one operand of a matrix product into its on-chip memory,
// up to two panels ahead of the consumer.
//
// A panel is a grid of Tile x Tile blocks, K direction by X direction (X is M
// for the left operand, N for the right one). Where each row of memory runs
// along X ("k_rows"), an entry holds Tile neighbours in X of one k, otherwise
// Tile neighbours in K of one x. Either way a block lies in Tile consecutive
// entries, and a tile buffer behind the memory turns it round where needed:
//
//   entry address = {panel parity, K tile, X tile, row in the block}
//
// Entries are zero past the end of a row in memory.
// Reset and abort state: nothing loaded.
module panel_loader
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth   = 256,  // bits of a memory beat
    parameter int unsigned Tile        = 16,
    parameter int unsigned BlockKTiles = 4,
    parameter int unsigned BlockX      = 128,  // most elements of a panel in X
    parameter int unsigned AddrBits    = 10    // of the on-chip memory, both parities
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,

    // the panel to ask for next
    input  logic                 panel_valid_i,
    output logic                 panel_next_o,
    input  logic                 k_rows_i,      // memory rows run along X
    input  logic [31:0]          base_i,        // of the batch
    input  logic [31:0]          stride_i,      // of memory rows, bytes
    input  dim_t                 k0_i,
    input  dim_t                 kb_i,
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
    output logic                 write_o,
    output logic [AddrBits-1:0]  write_addr_o,
    output logic [Tile*32-1:0]   write_data_o,

    // progress
    output logic [7:0]           loaded_o,      // panels complete since the start, wraps
    output dim_t                 rows_o,        // memory rows complete of the panel after those
    input  logic                 free_i         // pulse: the consumer needs the oldest panel no more
);
  localparam int unsigned EntryBits  = Tile * 32;
  localparam int unsigned EntryBeats = EntryBits / DataWidth;
  localparam int unsigned LaneBits   = $clog2(Tile);
  localparam int unsigned KTileBits  = $clog2(BlockKTiles);
  localparam int unsigned XBits      = $clog2(BlockX);
  localparam int unsigned XTileBits  = XBits - LaneBits;
  // A row of memory holds at most this many entries.
  localparam int unsigned EntryIndexBits = (KTileBits > XTileBits) ? KTileBits : XTileBits;

  // ---- requests ------------------------------------------------------------------
  logic [1:0] held_q;  // panels asked for and not yet freed
  logic pending_full, pending_empty, panel_done;
  logic pending_k_rows;
  dim_t pending_rows;
  logic [1:0] pending_count;

  assign desc_valid_o = panel_valid_i && held_q != 2'd2 && !pending_full;
  assign panel_next_o = desc_valid_o && desc_ready_i;

  always_comb begin
    desc_o = '0;
    desc_o.stride = stride_i;
    if (k_rows_i) begin
      desc_o.addr      = base_i + 32'(k0_i) * stride_i + (32'(x0_i) << 2);
      desc_o.rows      = 32'(kb_i);
      desc_o.row_bytes = 32'(xb_i) << 2;
    end else begin
      desc_o.addr      = base_i + 32'(x0_i) * stride_i + (32'(k0_i) << 2);
      desc_o.rows      = 32'(xb_i);
      desc_o.row_bytes = 32'(kb_i) << 2;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) held_q <= '0;
    else held_q <= held_q + 2'(panel_next_o) - 2'(free_i);
  end

  sync_fifo #(
      .Width(DimBits + 1),
      .Depth(2)
  ) u_pending (
      .clk_i,
      .rst_ni,
      .clear_i(abort_i),
      .push_i (panel_next_o),
      .data_i ({k_rows_i, desc_o.rows[DimBits-1:0]}),
      .pop_i  (panel_done),
      .data_o ({pending_k_rows, pending_rows}),
      .full_o (pending_full),
      .empty_o(pending_empty),
      .count_o(pending_count)
  );

  // ---- data ------------------------------------------------------------------------
  logic [EntryBits-1:0] entry_q, entry;
  logic [3:0] beat_q;
  logic [EntryIndexBits-1:0] index_q;  // entry in the memory row
  dim_t row_q;
  logic [7:0] loaded_q;
  logic parity_q, row_done;

  assign data_ready_o = !pending_empty;

  // The beats of an entry so far, the new one on top, zero where none came.
  always_comb begin
    entry = '0;
    if (data_valid_i) begin
      if (beat_q != '0) entry = entry_q;
      entry |= EntryBits'(data_i) << (32'(beat_q) * DataWidth);
    end
  end

  assign row_done   = data_valid_i && data_ready_o && data_row_last_i;
  assign panel_done = row_done && row_q + dim_t'(1) == pending_rows;
  assign write_o    = data_valid_i && data_ready_o
                      && (data_row_last_i || beat_q == 4'(EntryBeats - 1));
  assign write_data_o = entry;

  logic [KTileBits+XBits-1:0] block_addr;
  assign block_addr = pending_k_rows
      ? {row_q[LaneBits+:KTileBits], XTileBits'(index_q), row_q[LaneBits-1:0]}
      : {KTileBits'(index_q), row_q[XBits-1:0]};
  assign write_addr_o = {parity_q, block_addr};

  always_ff @(posedge clk_i) begin
    if (data_valid_i && data_ready_o) entry_q <= entry;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      beat_q   <= '0;
      index_q  <= '0;
      row_q    <= '0;
      loaded_q <= '0;
      parity_q <= 1'b0;
    end else if (data_valid_i && data_ready_o) begin
      beat_q  <= write_o ? '0 : beat_q + 4'd1;
      index_q <= row_done ? '0 : (write_o ? index_q + 1'b1 : index_q);
      if (row_done) row_q <= panel_done ? '0 : row_q + dim_t'(1);
      if (panel_done) begin
        loaded_q <= loaded_q + 8'd1;
        parity_q <= ~parity_q;
      end
    end
  end

  assign loaded_o = loaded_q;
  assign rows_o   = row_q;

  logic unused;
  assign unused = &{1'b0, pending_count};

  if (EntryBits % DataWidth != 0 || EntryBeats > 8) begin : g_bad_width
    $fatal(1, "panel_loader: a row of the array must be one to eight memory beats wide");
  end
endmodule
