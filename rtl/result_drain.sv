// Writes finished result blocks from the accumulator memory to device memory,
// row by row, scaled by alpha where the command asks for it.
// Reset and abort state: nothing to drain.
module result_drain
  import npu_pkg::*;
  import fp32_pkg::*;
#(
    parameter int unsigned DataWidth   = 256,
    parameter int unsigned Tile        = 16,
    parameter int unsigned BlockM      = 128,
    parameter int unsigned AccAddrBits = 10
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic                   abort_i,

    // the result block to write next
    input  logic                   block_valid_i,
    output logic                   block_next_o,
    input  logic                   ready_i,        // its sums are complete
    input  logic [31:0]            base_i,         // of the batch
    input  logic [31:0]            stride_i,       // of rows, bytes
    input  dim_t                   m0_i,
    input  dim_t                   mb_i,
    input  dim_t                   n0_i,
    input  dim_t                   nb_i,
    input  logic                   tall_i,
    input  logic                   use_alpha_i,
    input  fp32_t                  alpha_i,

    output logic                   read_o,
    output logic [AccAddrBits-1:0] read_addr_o,
    input  logic [Tile*32-1:0]     read_data_i,    // one clock later

    output logic                   desc_valid_o,
    input  logic                   desc_ready_i,
    output dma_desc_t              desc_o,
    output logic                   data_valid_o,
    input  logic                   data_ready_i,
    output logic [DataWidth-1:0]   data_o
);
  localparam int unsigned EntryBits  = Tile * 32;
  localparam int unsigned EntryBeats = EntryBits / DataWidth;
  localparam int unsigned BeatWords  = DataWidth / 32;
  localparam int unsigned LaneBits   = $clog2(Tile);
  localparam int unsigned MBits      = $clog2(BlockM);
  localparam int unsigned QueueDepth = 4;

  // ---- one transfer a block ----------------------------------------------------------
  logic announced_q;
  assign desc_valid_o = block_valid_i && ready_i && !announced_q;
  always_comb begin
    desc_o           = '0;
    desc_o.addr      = base_i + 32'(m0_i) * stride_i + (32'(n0_i) << 2);
    desc_o.rows      = 32'(mb_i);
    desc_o.row_bytes = 32'(nb_i) << 2;
    desc_o.stride    = stride_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i || block_next_o) announced_q <= 1'b0;
    else if (desc_valid_o && desc_ready_i) announced_q <= 1'b1;
  end

  // ---- accumulator reads ----------------------------------------------------------------
  dim_t m_q, n_q;
  logic all_read_q, flight_q, last_n, last_m, row_end;
  logic scaled_valid_q;
  logic [2:0] room_q;  // entries that the queue and the stages before it can still take

  assign last_n = nb_i - n_q <= dim_t'(Tile);
  assign last_m = m_q + dim_t'(1) == mb_i;
  assign read_o = announced_q && !all_read_q && room_q != '0;
  assign read_addr_o = (AccAddrBits'(n_q >> LaneBits) << (tall_i ? MBits : MBits - 1)) | AccAddrBits'(m_q);

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i || block_next_o) begin
      m_q        <= '0;
      n_q        <= '0;
      all_read_q <= 1'b0;
    end else if (read_o) begin
      n_q <= last_n ? '0 : n_q + dim_t'(Tile);
      if (last_n) m_q <= m_q + dim_t'(1);
      all_read_q <= last_n && last_m;
    end
  end

  // ---- alpha ----------------------------------------------------------------------------------
  typedef fp32_t row_t [Tile];
  row_t sums, scaled_q;
  logic [EntryBits-1:0] queue_in;

  for (genvar c = 0; c < Tile; c++) begin : g_lanes
    assign sums[c] = read_data_i[c*32+:32];
    assign queue_in[c*32+:32] = scaled_q[c];
  end

  function automatic row_t scale(input row_t values, input fp32_t alpha);
    for (int unsigned c = 0; c < Tile; c++) scale[c] = fp32_mul(values[c], alpha);
  endfunction

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      flight_q       <= 1'b0;
      scaled_valid_q <= 1'b0;
    end else begin
      flight_q       <= read_o;
      scaled_valid_q <= flight_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (flight_q) begin
      if (use_alpha_i) scaled_q <= scale(sums, alpha_i);
      else scaled_q <= sums;
    end
  end

  // ---- beats ------------------------------------------------------------------------------------
  logic [EntryBits-1:0] entry;
  logic queue_empty, queue_full, queue_pop;
  logic [2:0] queue_count;

  sync_fifo #(
      .Width(EntryBits),
      .Depth(QueueDepth)
  ) u_queue (
      .clk_i,
      .rst_ni,
      .clear_i(abort_i),
      .push_i (scaled_valid_q),
      .data_i (queue_in),
      .pop_i  (queue_pop),
      .data_o (entry),
      .full_o (queue_full),
      .empty_o(queue_empty),
      .count_o(queue_count)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) room_q <= 3'(QueueDepth);
    else room_q <= room_q - 3'(read_o) + 3'(queue_pop);
  end

  logic [3:0] beat_q;
  dim_t words_left_q, rows_left_q;  // of the row / block being sent
  logic sending_q, entry_end;

  assign row_end      = words_left_q <= dim_t'(BeatWords);
  assign entry_end    = row_end || beat_q == 4'(EntryBeats - 1);
  assign data_valid_o = sending_q && !queue_empty;
  assign queue_pop    = data_valid_o && data_ready_i && entry_end;
  assign block_next_o = queue_pop && row_end && rows_left_q == dim_t'(1);

  always_comb begin
    data_o = '0;
    if (data_valid_o) data_o = DataWidth'(entry >> (32'(beat_q) * DataWidth));
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      sending_q <= 1'b0;
      beat_q    <= '0;
    end else begin
      if (desc_valid_o && desc_ready_i) sending_q <= 1'b1;
      else if (block_next_o) sending_q <= 1'b0;
      if (data_valid_o && data_ready_i) beat_q <= entry_end ? '0 : beat_q + 4'd1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (desc_valid_o && desc_ready_i) begin
      words_left_q <= nb_i;
      rows_left_q  <= mb_i;
    end else if (data_valid_o && data_ready_i) begin
      words_left_q <= row_end ? nb_i : words_left_q - dim_t'(BeatWords);
      if (row_end) rows_left_q <= rows_left_q - dim_t'(1);
    end
  end

  logic unused;
  assign unused = &{1'b0, queue_full, queue_count};
endmodule
