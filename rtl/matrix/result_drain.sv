// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Writes finished sums to device memory, through the epilogue where the command
// has one. The sums arrive in the order in which the array finishes them: for
// each tile of columns of a block, all its rows. Each tile is one transfer; a
// block of a single row is one transfer as a whole.
// Reset and abort state: nothing to write.
module result_drain
  import npu_pkg::*;
  import fp32_pkg::*;
#(
    parameter int unsigned DataWidth = 256,  // bits of a memory beat: 64, 128, 256 or 512; two to eight beats an entry
    parameter int unsigned Tile      = 16,   // rows and columns of the array, a power of two from 4 to 64
    parameter int unsigned BlockM    = 128,  // most rows of a block, a power of two
    parameter int unsigned BlockN    = 512,  // most columns of a block, a power of two
    parameter int unsigned RingBits  = 10    // log2 of the entries of the memory that holds the sums, at least 1
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic                   abort_i,
    output logic                   awake_o,        // the next edge of clk_i changes something

    // the result block to write next
    input  logic                   block_valid_i,
    output logic                   block_next_o,
    input  matrix_command_t        command_i,
    input  address_t               base_i,         // of the batch
    input  dim_t                   m0_i,
    input  dim_t                   mb_i,
    input  dim_t                   n0_i,
    input  dim_t                   nb_i,

    // sums, in a ring
    input  logic [RingBits:0]      written_i,      // since reset, wraps
    output logic [RingBits:0]      read_o,         // likewise: entries read
    output logic                   read_valid_o,
    input  logic [Tile*32-1:0]     read_data_i,    // one clock later

    // scales and bias, from the memory controller
    output logic                   e_desc_valid_o,
    input  logic                   e_desc_ready_i,
    output dma_desc_t              e_desc_o,
    input  logic                   e_valid_i,
    output logic                   e_ready_o,
    input  logic [DataWidth-1:0]   e_data_i,
    input  logic                   e_row_last_i,

    // result
    output logic                   desc_valid_o,
    input  logic                   desc_ready_i,
    output dma_desc_t              desc_o,
    output logic                   data_valid_o,
    input  logic                   data_ready_i,
    output logic [DataWidth-1:0]   data_o
);
  localparam int unsigned EntryBits  = Tile * 32;
  localparam int unsigned LaneBits   = $clog2(Tile);
  localparam int unsigned BeatBytes  = DataWidth / 8;
  localparam int unsigned QueueDepth = 16;

  logic [1:0] shift;     // log2 of a result element's bytes
  logic plain, one_row;
  assign shift   = (command_i.result == OutOwn) ? type_shift(command_i.kind) : 2'd2;
  assign plain   = command_i.kind != TypeInt8 && !command_i.use_alpha && !command_i.row_scale && !command_i.col_scale
                   && !command_i.bias && !command_i.relu && shift == 2'd2;
  // A single row is dense in memory. It is one transfer if its entries are whole beats, else each entry is one.
  assign one_row = mb_i == dim_t'(1) && ((32'(Tile) << shift) & 32'(BeatBytes - 1)) == '0;

  // ---- entries out of the ring ------------------------------------------------------------
  logic epilogue_ready, flight_q, read_last_m, read_last_n, all_read_q;
  logic [RingBits:0] read_q;
  dim_t read_m_q, read_n_q, flight_m_q, flight_n_q;
  logic [$clog2(QueueDepth):0] room_q;  // entries that the queue and the stages before it can still take
  logic queue_pop;

  assign read_last_m  = read_m_q + dim_t'(1) == mb_i;
  assign read_last_n  = nb_i - read_n_q <= dim_t'(Tile);
  assign read_valid_o = epilogue_ready && !all_read_q && written_i != read_q && room_q != '0;
  assign read_o       = read_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) read_q <= '0;
    else read_q <= read_q + (RingBits + 1)'(read_valid_o);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i || block_next_o) begin
      read_m_q   <= '0;
      read_n_q   <= '0;
      all_read_q <= 1'b0;
    end else if (read_valid_o) begin
      read_m_q <= read_last_m ? '0 : read_m_q + dim_t'(1);
      if (read_last_m) read_n_q <= read_n_q + dim_t'(Tile);
      all_read_q <= read_last_m && read_last_n;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) flight_q <= 1'b0;
    else flight_q <= read_valid_o;
  end
  always_ff @(posedge clk_i) begin
    if (read_valid_o) begin
      flight_m_q <= read_m_q;
      flight_n_q <= read_n_q >> LaneBits;
    end
  end

  // ---- epilogue ---------------------------------------------------------------------------
  dim_t scale_row, scale_tile, bias_tile;
  fp32_t row_scale;
  logic [EntryBits-1:0] column_scales, bias, result;
  logic scale_read, bias_read, result_valid, loader_awake, epilogue_busy;

  epilogue_loader #(
      .DataWidth(DataWidth),
      .Tile     (Tile),
      .BlockM   (BlockM),
      .BlockN   (BlockN)
  ) u_loader (
      .clk_i,
      .rst_ni,
      .abort_i,
      .awake_o        (loader_awake),
      .block_valid_i,
      .block_next_i   (block_next_o),
      .command_i,
      .m0_i,
      .mb_i,
      .n0_i,
      .nb_i,
      .desc_valid_o   (e_desc_valid_o),
      .desc_ready_i   (e_desc_ready_i),
      .desc_o         (e_desc_o),
      .data_valid_i   (e_valid_i),
      .data_ready_o   (e_ready_o),
      .data_i         (e_data_i),
      .data_row_last_i(e_row_last_i),
      .ready_o        (epilogue_ready),
      .row_i          (scale_row),
      .row_scale_o    (row_scale),
      .column_read_i  (scale_read),
      .column_tile_i  (scale_tile),
      .column_scales_o(column_scales),
      .bias_read_i    (bias_read),
      .bias_tile_i    (bias_tile),
      .bias_o         (bias)
  );

  result_epilogue #(
      .Tile(Tile)
  ) u_epilogue (
      .clk_i,
      .rst_ni,
      .abort_i,
      .busy_o         (epilogue_busy),
      .command_i,
      .valid_i        (flight_q && !plain),
      .sums_i         (read_data_i),
      .row_i          (flight_m_q),
      .tile_i         (flight_n_q),
      .scale_row_o    (scale_row),
      .row_scale_i    (row_scale),
      .scale_read_o   (scale_read),
      .scale_tile_o   (scale_tile),
      .column_scales_i(column_scales),
      .bias_read_o    (bias_read),
      .bias_tile_o    (bias_tile),
      .bias_i         (bias),
      .valid_o        (result_valid),
      .result_o       (result)
  );

  // ---- beats ------------------------------------------------------------------------------
  logic [EntryBits-1:0] entry;
  logic queue_empty, queue_full;
  logic [$clog2(QueueDepth):0] queue_count;

  sync_fifo #(
      .Width(EntryBits),
      .Depth(QueueDepth)
  ) u_queue (
      .clk_i,
      .rst_ni,
      .clear_i(abort_i),
      .push_i (plain ? flight_q : result_valid),
      .data_i (plain ? read_data_i : result),
      .pop_i  (queue_pop),
      .data_o (entry),
      .full_o (queue_full),
      .empty_o(queue_empty),
      .count_o(queue_count)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) room_q <= ($clog2(QueueDepth) + 1)'(QueueDepth);
    else
      room_q <= room_q - ($clog2(QueueDepth) + 1)'(read_valid_o) + ($clog2(QueueDepth) + 1)'(queue_pop);
  end

  assign awake_o = read_valid_o || flight_q || epilogue_busy || !queue_empty || desc_valid_o || loader_awake
                   || block_next_o;

  logic announced_q, last_tile, tile_end, entry_end;
  logic [3:0] beat_q;
  dim_t n_q, m_q, columns;           // of the entry being sent
  logic [31:0] entry_bytes;

  assign columns   = (nb_i - n_q < dim_t'(Tile)) ? nb_i - n_q : dim_t'(Tile);
  assign last_tile = nb_i - n_q <= dim_t'(Tile);
  assign entry_bytes = 32'(columns) << shift;

  always_comb begin
    desc_o           = '0;
    desc_o.addr      = base_i + address_t'(m0_i) * address_t'(command_i.dst.row_stride)
                       + ((address_t'(n0_i) + address_t'(n_q)) << shift);
    desc_o.rows      = 32'(mb_i);
    desc_o.row_bytes = 32'(one_row ? nb_i : columns) << shift;
    desc_o.stride    = command_i.dst.row_stride;
  end
  assign desc_valid_o = block_valid_i && !announced_q;

  assign entry_end    = entry_bytes <= (32'(beat_q) + 32'd1) * 32'(BeatBytes);
  assign tile_end     = m_q + dim_t'(1) == mb_i;
  assign data_valid_o = announced_q && !queue_empty;
  assign queue_pop    = data_valid_o && data_ready_i && entry_end;
  assign block_next_o = queue_pop && tile_end && last_tile;

  always_comb begin
    data_o = '0;
    if (data_valid_o) data_o = DataWidth'(entry >> (32'(beat_q) * DataWidth));
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      announced_q <= 1'b0;
      beat_q      <= '0;
      n_q         <= '0;
      m_q         <= '0;
    end else begin
      if (desc_valid_o && desc_ready_i) announced_q <= 1'b1;
      else if (queue_pop && tile_end && (last_tile || !one_row)) announced_q <= 1'b0;
      if (data_valid_o && data_ready_i) beat_q <= entry_end ? '0 : beat_q + 4'd1;
      if (queue_pop) begin
        m_q <= tile_end ? '0 : m_q + dim_t'(1);
        if (tile_end) n_q <= last_tile ? '0 : n_q + dim_t'(Tile);
      end
    end
  end

  logic unused;
  assign unused = &{1'b0, queue_full, queue_count};

  `NPU_ASSERT_HANDSHAKE(DescHolds, desc_valid_o, desc_ready_i, desc_o,
                        "a descriptor changed or was withdrawn before it was taken", abort_i)
  `NPU_ASSERT_HANDSHAKE(DataHolds, data_valid_o, data_ready_i, data_o,
                        "a beat changed or was withdrawn before it was taken", abort_i)
endmodule
