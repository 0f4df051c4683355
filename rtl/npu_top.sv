// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "axi_types.svh"

// The NPU: registers, command processor, matrix engine, vector engine, and the
// memory controller that serves them and the host window.
//
// Ports have standard AXI names: s_axil is the registers (AXI4-Lite), s_axi the
// host's window onto device memory (AXI4), m_axi device memory (AXI4 master).
// rst_n is synchronous.
//
// All parameters but ClockGating and Pipeline are powers of two. runtime/echo_sim/parameters.py applies the same limits
// before any tool runs.
//
// Each unit's clock rests while the unit does: a comment beside each clock gate says what wakes it and what holds it.
//
// Reset state: no valid is high, no interrupt, the state is IDLE. Idle state: only the cycle counter moves.
module npu_top
  import npu_pkg::*;
  import npu_perf_pkg::*;
  import vector_pkg::*;
#(
    parameter int unsigned ArrayRows    = 16,   // rows of the systolic array, K direction, 4 to 64
    parameter int unsigned ArrayCols    = 16,   // columns of the systolic array, N direction; must equal ArrayRows
    parameter int unsigned VectorLanes  = 16,   // float32 lanes of the vector engine, 2 to 16: one to eight beats
    parameter int unsigned VectorLength = 256,  // elements of a vector register, 16 to 4096, at least 2 * VectorLanes
    parameter int unsigned RowElements  = 8192, // elements of a row register, VectorLength to 65536
    parameter int unsigned ProgramWords = 4096, // instructions of the program memory, 1024 to 65536
    parameter int unsigned DataWidth    = 256,  // bits of s_axi and m_axi data, 64 to 512: a row is two to eight beats
    parameter int unsigned BlockM       = 128,  // rows of the left operand on chip, 8 to 1024, at least 2 * ArrayRows
    parameter int unsigned BlockKTiles  = 4,    // K tiles of an operand panel on chip, 1 to 64
    parameter int unsigned BlockNTiles  = 16,   // most N tiles of a block, 1 to 64; 2 or more beside BlockKTiles 1
    parameter int unsigned AccEntries   = 1024, // accumulator rows of a block: 1 to BlockNTiles times BlockM
    parameter int unsigned QueueDepth   = 16,   // packets in the window queue, 16 to 128
    parameter int unsigned ClockGating  = 1,    // 1: the clock of a unit rests while the unit does; 0: it never rests
    parameter int unsigned Pipeline     = 0     // 1: a multiply-add of array and lanes takes a clock more; 0: it does not
) (
    input  logic                     clk,
    input  logic                     rst_n,
    input  logic                     test_enable,  // no clock rests: every clock gate is open
    output logic                     irq,

    // registers: offsets in the register window
    input  logic [15:0]              s_axil_awaddr,
    input  logic [2:0]               s_axil_awprot,
    input  logic                     s_axil_awvalid,
    output logic                     s_axil_awready,
    input  logic [31:0]              s_axil_wdata,
    input  logic [3:0]               s_axil_wstrb,
    input  logic                     s_axil_wvalid,
    output logic                     s_axil_wready,
    output logic [1:0]               s_axil_bresp,
    output logic                     s_axil_bvalid,
    input  logic                     s_axil_bready,
    input  logic [15:0]              s_axil_araddr,
    input  logic [2:0]               s_axil_arprot,
    input  logic                     s_axil_arvalid,
    output logic                     s_axil_arready,
    output logic [31:0]              s_axil_rdata,
    output logic [1:0]               s_axil_rresp,
    output logic                     s_axil_rvalid,
    input  logic                     s_axil_rready,

    // host window onto device memory
    input  logic [3:0]               s_axi_awid,
    input  logic [31:0]              s_axi_awaddr,
    input  logic [7:0]               s_axi_awlen,
    input  logic [2:0]               s_axi_awsize,
    input  logic [1:0]               s_axi_awburst,
    input  logic                     s_axi_awlock,
    input  logic [3:0]               s_axi_awcache,
    input  logic [2:0]               s_axi_awprot,
    input  logic [3:0]               s_axi_awqos,
    input  logic                     s_axi_awvalid,
    output logic                     s_axi_awready,
    input  logic [DataWidth-1:0]     s_axi_wdata,
    input  logic [DataWidth/8-1:0]   s_axi_wstrb,
    input  logic                     s_axi_wlast,
    input  logic                     s_axi_wvalid,
    output logic                     s_axi_wready,
    output logic [3:0]               s_axi_bid,
    output logic [1:0]               s_axi_bresp,
    output logic                     s_axi_bvalid,
    input  logic                     s_axi_bready,
    input  logic [3:0]               s_axi_arid,
    input  logic [31:0]              s_axi_araddr,
    input  logic [7:0]               s_axi_arlen,
    input  logic [2:0]               s_axi_arsize,
    input  logic [1:0]               s_axi_arburst,
    input  logic                     s_axi_arlock,
    input  logic [3:0]               s_axi_arcache,
    input  logic [2:0]               s_axi_arprot,
    input  logic [3:0]               s_axi_arqos,
    input  logic                     s_axi_arvalid,
    output logic                     s_axi_arready,
    output logic [3:0]               s_axi_rid,
    output logic [DataWidth-1:0]     s_axi_rdata,
    output logic [1:0]               s_axi_rresp,
    output logic                     s_axi_rlast,
    output logic                     s_axi_rvalid,
    input  logic                     s_axi_rready,

    // device memory
    output logic [7:0]               m_axi_awid,
    output logic [AddressBits-1:0]   m_axi_awaddr,
    output logic [7:0]               m_axi_awlen,
    output logic [2:0]               m_axi_awsize,
    output logic [1:0]               m_axi_awburst,
    output logic                     m_axi_awlock,
    output logic [3:0]               m_axi_awcache,
    output logic [2:0]               m_axi_awprot,
    output logic [3:0]               m_axi_awqos,
    output logic                     m_axi_awvalid,
    input  logic                     m_axi_awready,
    output logic [DataWidth-1:0]     m_axi_wdata,
    output logic [DataWidth/8-1:0]   m_axi_wstrb,
    output logic                     m_axi_wlast,
    output logic                     m_axi_wvalid,
    input  logic                     m_axi_wready,
    input  logic [7:0]               m_axi_bid,
    input  logic [1:0]               m_axi_bresp,
    input  logic                     m_axi_bvalid,
    output logic                     m_axi_bready,
    output logic [7:0]               m_axi_arid,
    output logic [AddressBits-1:0]   m_axi_araddr,
    output logic [7:0]               m_axi_arlen,
    output logic [2:0]               m_axi_arsize,
    output logic [1:0]               m_axi_arburst,
    output logic                     m_axi_arlock,
    output logic [3:0]               m_axi_arcache,
    output logic [2:0]               m_axi_arprot,
    output logic [3:0]               m_axi_arqos,
    output logic                     m_axi_arvalid,
    input  logic                     m_axi_arready,
    input  logic [7:0]               m_axi_rid,
    input  logic [DataWidth-1:0]     m_axi_rdata,
    input  logic [1:0]               m_axi_rresp,
    input  logic                     m_axi_rlast,
    input  logic                     m_axi_rvalid,
    output logic                     m_axi_rready
);
  localparam int unsigned ScratchABytes   = BlockM * BlockKTiles * ArrayRows * 4;
  localparam int unsigned ScratchBBytes   = BlockKTiles * ArrayRows * BlockNTiles * ArrayCols * 4;
  localparam int unsigned ScratchAccBytes = AccEntries * ArrayCols * 4;
  // Weights in blocks: two planes of the left operand fit a panel. An array of 4 by 4 takes half a block a tile, and an
  // N block of it holds whole packed tiles.
  localparam bit          Blocks          = (ArrayRows == 16 && DataWidth >= 128 && BlockKTiles >= 2)
                                            || (ArrayRows == 4 && BlockKTiles >= 4 && AccEntries >= 4 * BlockM);
  localparam int unsigned HostOutstanding = 16;  // bursts of the host under way, each direction

  // Opens every clock gate.
  logic clocks_open;
  assign clocks_open = test_enable || ClockGating == 0;

  // ---- registers -----------------------------------------------------------------------
  logic soft_reset, clear_error, ring_enable, reset_done, doorbell, ring_tail_write, queue_full;
  logic irq_done, irq_error, irq_command;
  logic [PacketBits-1:0] window_packet;
  logic [31:0] ring_base, error_index, retired;
  logic [2:0] ring_base_high, guard_base_high;  // without effect where memory lies below 4 GiB
  logic [15:0] ring_size, ring_tail, ring_head, ring_tail_value;
  logic ring_tail_set;
  logic [31:0] guard_base, guard_size, watchdog;
  logic [2:0] axi_prot;
  logic [1:0] state;
  logic [7:0] queue_level, error_code;
  logic [63:0] error_addr;
  perf_events_t events;

  register_block #(
      .ArrayRows      (ArrayRows),
      .ArrayCols      (ArrayCols),
      .VectorLanes    (VectorLanes),
      .DataWidth      (DataWidth),
      .QueueDepth     (QueueDepth),
      .ScratchABytes  (ScratchABytes),
      .ScratchBBytes  (ScratchBBytes),
      .ScratchAccBytes(ScratchAccBytes),
      .VectorLength   (VectorLength),
      .RowElements    (RowElements),
      .ProgramWords   (ProgramWords),
      .WeightMib      (WeightMib),
      .ActivationMib  (ActivationMib),
      .Blocks         (Blocks)
  ) u_registers (
      .clk_i              (clk),
      .rst_ni             (rst_n),
      .test_enable_i      (clocks_open),
      .s_axil_awaddr,
      .s_axil_awprot,
      .s_axil_awvalid,
      .s_axil_awready,
      .s_axil_wdata,
      .s_axil_wstrb,
      .s_axil_wvalid,
      .s_axil_wready,
      .s_axil_bresp,
      .s_axil_bvalid,
      .s_axil_bready,
      .s_axil_araddr,
      .s_axil_arprot,
      .s_axil_arvalid,
      .s_axil_arready,
      .s_axil_rdata,
      .s_axil_rresp,
      .s_axil_rvalid,
      .s_axil_rready,
      .soft_reset_o       (soft_reset),
      .clear_error_o      (clear_error),
      .ring_enable_o      (ring_enable),
      .ring_enable_clear_i(reset_done),
      .cmd_packet_o       (window_packet),
      .cmd_doorbell_o     (doorbell),
      .ring_base_o        (ring_base),
      .ring_base_high_o   (ring_base_high),
      .ring_size_o        (ring_size),
      .ring_tail_o        (ring_tail),
      .ring_tail_write_o  (ring_tail_write),
      .ring_tail_clear_i  (reset_done),
      .ring_tail_set_i    (ring_tail_set),
      .ring_tail_value_i  (ring_tail_value),
      .ring_head_i        (ring_head),
      .guard_base_o       (guard_base),
      .guard_base_high_o  (guard_base_high),
      .guard_size_o       (guard_size),
      .watchdog_o         (watchdog),
      .axi_prot_o         (axi_prot),
      .state_i            (state),
      .queue_level_i      (queue_level),
      .queue_full_i       (queue_full),
      .error_code_i       (error_code),
      .error_index_i      (error_index),
      .error_addr_i       (error_addr),
      .retired_i          (retired),
      .irq_done_i         (irq_done),
      .irq_error_i        (irq_error),
      .irq_command_i      (irq_command),
      .irq_o              (irq),
      .events_i           (events)
  );

  // ---- memory channels -------------------------------------------------------------------
  logic rd_desc_valid [NumReads], rd_desc_ready [NumReads], rd_valid [NumReads], rd_ready [NumReads];
  logic rd_row_last [NumReads];
  dma_desc_t rd_desc [NumReads];
  logic [DataWidth-1:0] rd_data [NumReads];
  logic wr_desc_valid [NumWrites], wr_desc_ready [NumWrites], wr_valid [NumWrites], wr_ready [NumWrites];
  logic wr_idle [NumWrites];
  dma_desc_t wr_desc [NumWrites];
  logic [DataWidth-1:0] wr_data [NumWrites];
  logic abort_all, memory_idle, fetch_error;
  logic [ErrorOwners-1:0] memory_error, memory_error_write;
  address_t memory_error_addr [ErrorOwners];
  logic matrix_ready, rd_next [NumReads];
  address_t fetch_error_addr;

  // ---- commands --------------------------------------------------------------------------
  matrix_command_t matrix_command;
  logic [1:0] matrix_held;
  vector_command_t vector_command;
  logic [Engines-1:0] start, done;
  logic matrix_busy, vector_busy, vector_fault, vector_fault_index, retire, vector_retire;
  address_t vector_fault_addr;
  logic [31:0] program_words;
  logic program_ready;

  // ---- clocks of the units -----------------------------------------------------------------
  // The command processor computes its own enable.
  logic command_awake, command_clk;
  clock_gate u_command_gate (
      .clk_i        (clk),
      .enable_i     (command_awake || !rst_n),
      .test_enable_i(clocks_open),
      .clk_o        (command_clk)
  );

  // A command or an abort wakes the matrix engine; the commands inside and rows in the array hold it.
  logic matrix_awake, matrix_clk;
  clock_gate u_matrix_gate (
      .clk_i        (clk),
      .enable_i     (start[EngineMatrix] || matrix_awake || abort_all || !rst_n),
      .test_enable_i(clocks_open),
      .clk_o        (matrix_clk)
  );

  // An address or data of the host wakes the window and its buffers; what they hold, and bursts under way, hold them.
  logic host_busy, host_clk;
  clock_gate u_host_gate (
      .clk_i        (clk),
      .enable_i     (s_axi_awvalid || s_axi_wvalid || s_axi_arvalid || host_busy || !rst_n),
      .test_enable_i(clocks_open),
      .clk_o        (host_clk)
  );

  // A command wakes the vector engine; a command inside and program memory hold it, which sweeps or waits for the
  // retirement of a load. A resting engine has nothing to abort.
  logic vector_clk;
  clock_gate u_vector_gate (
      .clk_i        (clk),
      .enable_i     (start[EngineVector] || vector_busy || !program_ready || !rst_n),
      .test_enable_i(clocks_open),
      .clk_o        (vector_clk)
  );

  command_processor #(
      .DataWidth   (DataWidth),
      .QueueDepth  (QueueDepth),
      .ProgramWords(ProgramWords),
      .Blocks      (Blocks)
  ) u_commands (
      .clk_i               (command_clk),
      .rst_ni              (rst_n),
      .awake_o             (command_awake),
      .free_clk_i          (clk),
      .soft_reset_i        (soft_reset),
      .clear_error_i       (clear_error),
      .cmd_packet_i        (window_packet),
      .cmd_doorbell_i      (doorbell),
      .ring_enable_i       (ring_enable),
      .ring_base_i         (address_t'({ring_base_high, ring_base})),
      .ring_size_i         (ring_size),
      .ring_tail_i         (ring_tail),
      .ring_tail_write_i   (ring_tail_write),
      .ring_tail_set_o     (ring_tail_set),
      .ring_tail_o         (ring_tail_value),
      .ring_head_o         (ring_head),
      .guard_base_i        (address_t'({guard_base_high, guard_base})),
      .guard_size_i        (guard_size),
      .watchdog_i          (watchdog),
      .reset_done_o        (reset_done),
      .state_o             (state),
      .queue_level_o       (queue_level),
      .queue_full_o        (queue_full),
      .error_code_o        (error_code),
      .error_index_o       (error_index),
      .error_addr_o        (error_addr),
      .retired_o           (retired),
      .irq_done_o          (irq_done),
      .irq_error_o         (irq_error),
      .irq_command_o       (irq_command),
      .retire_o            (retire),
      .vector_retire_o     (vector_retire),
      .abort_o             (abort_all),
      .memory_idle_i       (memory_idle),
      .memory_error_i      (memory_error),
      .memory_error_write_i(memory_error_write),
      .memory_error_addr_i (memory_error_addr),
      .fetch_error_i       (fetch_error),
      .fetch_error_addr_i  (fetch_error_addr),
      .desc_valid_o        (rd_desc_valid[ReadCommand]),
      .desc_ready_i        (rd_desc_ready[ReadCommand]),
      .desc_o              (rd_desc[ReadCommand]),
      .data_valid_i        (rd_valid[ReadCommand]),
      .data_ready_o        (rd_ready[ReadCommand]),
      .data_i              (rd_data[ReadCommand]),
      .start_o             (start),
      .matrix_ready_i      (matrix_ready),
      .matrix_command_o    (matrix_command),
      .matrix_held_o       (matrix_held),
      .vector_command_o    (vector_command),
      .done_i              (done),
      .vector_fault_i      (vector_fault),
      .vector_fault_index_i(vector_fault_index),
      .vector_fault_addr_i (vector_fault_addr),
      .program_words_i     (program_words),
      .program_ready_i     (program_ready)
  );

  // ---- engines ---------------------------------------------------------------------------
  logic [15:0] macs;
  logic matrix_stall_read, matrix_stall_write, vector_stall_read, vector_stall_write;

  matrix_engine #(
      .DataWidth  (DataWidth),
      .Tile       (ArrayRows),
      .BlockM     (BlockM),
      .BlockKTiles(BlockKTiles),
      .BlockNTiles(BlockNTiles),
      .AccEntries (AccEntries),
      .Blocks     (Blocks),
      .Pipeline   (Pipeline != 0)
  ) u_matrix (
      .clk_i         (matrix_clk),
      .rst_ni        (rst_n),
      .test_enable_i (clocks_open),
      .awake_o       (matrix_awake),
      .abort_i       (abort_all),
      .ready_o       (matrix_ready),
      .start_i       (start[EngineMatrix]),
      .command_i     (matrix_command),
      .held_i        (matrix_held),
      .busy_o        (matrix_busy),
      .done_o        (done[EngineMatrix]),
      .a_next_o      (rd_next[ReadMatrixA]),
      .b_next_o      (rd_next[ReadMatrixB]),
      .a_desc_valid_o(rd_desc_valid[ReadMatrixA]),
      .a_desc_ready_i(rd_desc_ready[ReadMatrixA]),
      .a_desc_o      (rd_desc[ReadMatrixA]),
      .a_valid_i     (rd_valid[ReadMatrixA]),
      .a_ready_o     (rd_ready[ReadMatrixA]),
      .a_data_i      (rd_data[ReadMatrixA]),
      .a_row_last_i  (rd_row_last[ReadMatrixA]),
      .b_desc_valid_o(rd_desc_valid[ReadMatrixB]),
      .b_desc_ready_i(rd_desc_ready[ReadMatrixB]),
      .b_desc_o      (rd_desc[ReadMatrixB]),
      .b_valid_i     (rd_valid[ReadMatrixB]),
      .b_ready_o     (rd_ready[ReadMatrixB]),
      .b_data_i      (rd_data[ReadMatrixB]),
      .b_row_last_i  (rd_row_last[ReadMatrixB]),
      .e_desc_valid_o(rd_desc_valid[ReadMatrixE]),
      .e_desc_ready_i(rd_desc_ready[ReadMatrixE]),
      .e_desc_o      (rd_desc[ReadMatrixE]),
      .e_valid_i     (rd_valid[ReadMatrixE]),
      .e_ready_o     (rd_ready[ReadMatrixE]),
      .e_data_i      (rd_data[ReadMatrixE]),
      .e_row_last_i  (rd_row_last[ReadMatrixE]),
      .c_desc_valid_o(wr_desc_valid[WriteMatrix]),
      .c_desc_ready_i(wr_desc_ready[WriteMatrix]),
      .c_desc_o      (wr_desc[WriteMatrix]),
      .c_valid_o     (wr_valid[WriteMatrix]),
      .c_ready_i     (wr_ready[WriteMatrix]),
      .c_data_o      (wr_data[WriteMatrix]),
      .c_idle_i      (wr_idle[WriteMatrix]),
      .macs_o        (macs),
      .stall_read_o  (matrix_stall_read),
      .stall_write_o (matrix_stall_write)
  );

  // Only the loaders of the matrix engine prefetch for the next command.
  for (genvar i = 0; i < NumReads; i++) begin : g_next
    if (i != ReadMatrixA && i != ReadMatrixB) begin : g_never
      assign rd_next[i] = 1'b0;
    end
  end

  logic src_desc_valid [Inputs], src_desc_ready [Inputs], src_valid [Inputs], src_ready [Inputs];
  dma_desc_t src_desc [Inputs];
  logic [DataWidth-1:0] src_data [Inputs];

  for (genvar i = 0; i < Inputs; i++) begin : g_vector_channels
    assign rd_desc_valid[ReadVector+i] = src_desc_valid[i];
    assign src_desc_ready[i]           = rd_desc_ready[ReadVector+i];
    assign rd_desc[ReadVector+i]       = src_desc[i];
    assign src_valid[i]                = rd_valid[ReadVector+i];
    assign rd_ready[ReadVector+i]      = src_ready[i];
    assign src_data[i]                 = rd_data[ReadVector+i];
  end

  vector_engine #(
      .DataWidth   (DataWidth),
      .Lanes       (VectorLanes),
      .VectorLength(VectorLength),
      .RowElements (RowElements),
      .ProgramWords(ProgramWords),
      .Pipeline    (Pipeline != 0)
  ) u_vector (
      .clk_i           (vector_clk),
      .rst_ni          (rst_n),
      .test_enable_i   (clocks_open),
      .abort_i         (abort_all),
      .start_i         (start[EngineVector]),
      .retire_i        (vector_retire),
      .command_i       (vector_command),
      .busy_o          (vector_busy),
      .done_o          (done[EngineVector]),
      .fault_o         (vector_fault),
      .fault_index_o   (vector_fault_index),
      .fault_address_o (vector_fault_addr),
      .program_words_o (program_words),
      .program_ready_o (program_ready),
      .src_desc_valid_o(src_desc_valid),
      .src_desc_ready_i(src_desc_ready),
      .src_desc_o      (src_desc),
      .src_valid_i     (src_valid),
      .src_ready_o     (src_ready),
      .src_data_i      (src_data),
      .dst_desc_valid_o(wr_desc_valid[WriteVector]),
      .dst_desc_ready_i(wr_desc_ready[WriteVector]),
      .dst_desc_o      (wr_desc[WriteVector]),
      .dst_valid_o     (wr_valid[WriteVector]),
      .dst_ready_i     (wr_ready[WriteVector]),
      .dst_data_o      (wr_data[WriteVector]),
      .dst_idle_i      (wr_idle[WriteVector]),
      .stall_read_o    (vector_stall_read),
      .stall_write_o   (vector_stall_write)
  );

  // ---- host window and device memory -----------------------------------------------------
  // window_: the host window's side of the buffers; host_: the memory controller's side.
  `AXI_TYPES(4, DataWidth)
  axi_address_t window_aw, window_ar, host_aw, host_ar;
  axi_write_data_t window_w, host_w;
  axi_response_t window_b, host_b;
  axi_read_data_t window_r, host_r;
  logic window_awvalid, window_awready, host_awvalid, host_awready;
  logic window_wvalid, window_wready, host_wvalid, host_wready;
  logic window_bvalid, window_bready, host_bvalid;
  logic window_arvalid, window_arready, host_arvalid, host_arready;
  logic window_rvalid, window_rready, host_rvalid;

  axi_slave #(
      .DataWidth       (DataWidth),
      .MaxOutstanding  (HostOutstanding),
      .Reaches         (!LargeMemory),
      .axi_address_t   (axi_address_t),
      .axi_write_data_t(axi_write_data_t),
      .axi_response_t  (axi_response_t),
      .axi_read_data_t (axi_read_data_t)
  ) u_host (
      .clk_i (host_clk),
      .rst_ni(rst_n),
      .busy_o(host_busy),
      .s_axi_awid,
      .s_axi_awaddr,
      .s_axi_awlen,
      .s_axi_awsize,
      .s_axi_awburst,
      .s_axi_awprot,
      .s_axi_awvalid,
      .s_axi_awready,
      .s_axi_wdata,
      .s_axi_wstrb,
      .s_axi_wlast,
      .s_axi_wvalid,
      .s_axi_wready,
      .s_axi_bid,
      .s_axi_bresp,
      .s_axi_bvalid,
      .s_axi_bready,
      .s_axi_arid,
      .s_axi_araddr,
      .s_axi_arlen,
      .s_axi_arsize,
      .s_axi_arburst,
      .s_axi_arprot,
      .s_axi_arvalid,
      .s_axi_arready,
      .s_axi_rid,
      .s_axi_rdata,
      .s_axi_rresp,
      .s_axi_rlast,
      .s_axi_rvalid,
      .s_axi_rready,
      .m_aw_o     (window_aw),
      .m_awvalid_o(window_awvalid),
      .m_awready_i(window_awready),
      .m_w_o      (window_w),
      .m_wvalid_o (window_wvalid),
      .m_wready_i (window_wready),
      .m_b_i      (window_b),
      .m_bvalid_i (window_bvalid),
      .m_bready_o (window_bready),
      .m_ar_o     (window_ar),
      .m_arvalid_o(window_arvalid),
      .m_arready_i(window_arready),
      .m_r_i      (window_r),
      .m_rvalid_i (window_rvalid),
      .m_rready_o (window_rready)
  );

  host_write_buffer #(
      .MaxOutstanding  (HostOutstanding),
      .axi_address_t   (axi_address_t),
      .axi_write_data_t(axi_write_data_t),
      .axi_response_t  (axi_response_t)
  ) u_host_writes (
      .clk_i    (host_clk),
      .rst_ni   (rst_n),
      .awvalid_i(window_awvalid),
      .awready_o(window_awready),
      .aw_i     (window_aw),
      .wvalid_i (window_wvalid),
      .wready_o (window_wready),
      .w_i      (window_w),
      .bvalid_o (window_bvalid),
      .bready_i (window_bready),
      .b_o      (window_b),
      .awvalid_o(host_awvalid),
      .awready_i(host_awready),
      .aw_o     (host_aw),
      .wvalid_o (host_wvalid),
      .wready_i (host_wready),
      .w_o      (host_w),
      .bvalid_i (host_bvalid),
      .b_i      (host_b)
  );

  host_read_buffer #(
      .axi_address_t  (axi_address_t),
      .axi_read_data_t(axi_read_data_t)
  ) u_host_reads (
      .clk_i    (host_clk),
      .rst_ni   (rst_n),
      .arvalid_i(window_arvalid),
      .arready_o(window_arready),
      .ar_i     (window_ar),
      .rvalid_o (window_rvalid),
      .rready_i (window_rready),
      .r_o      (window_r),
      .arvalid_o(host_arvalid),
      .arready_i(host_arready),
      .ar_o     (host_ar),
      .rvalid_i (host_rvalid),
      .r_i      (host_r)
  );

  memory_controller #(
      .DataWidth       (DataWidth),
      .axi_address_t   (axi_address_t),
      .axi_write_data_t(axi_write_data_t),
      .axi_response_t  (axi_response_t),
      .axi_read_data_t (axi_read_data_t)
  ) u_memory (
      .clk_i             (clk),
      .rst_ni            (rst_n),
      .test_enable_i     (clocks_open),
      .prot_i            (axi_prot),
      .abort_i           (abort_all),
      .idle_o            (memory_idle),
      .write_idle_o      (wr_idle),
      .rd_next_i         (rd_next),
      .error_o           (memory_error),
      .error_write_o     (memory_error_write),
      .error_addr_o      (memory_error_addr),
      .fetch_error_o     (fetch_error),
      .fetch_error_addr_o(fetch_error_addr),
      .rd_desc_valid_i   (rd_desc_valid),
      .rd_desc_ready_o   (rd_desc_ready),
      .rd_desc_i         (rd_desc),
      .rd_valid_o        (rd_valid),
      .rd_ready_i        (rd_ready),
      .rd_data_o         (rd_data),
      .rd_row_last_o     (rd_row_last),
      .wr_desc_valid_i   (wr_desc_valid),
      .wr_desc_ready_o   (wr_desc_ready),
      .wr_desc_i         (wr_desc),
      .wr_valid_i        (wr_valid),
      .wr_ready_o        (wr_ready),
      .wr_data_i         (wr_data),
      .host_aw_i         (host_aw),
      .host_awvalid_i    (host_awvalid),
      .host_awready_o    (host_awready),
      .host_w_i          (host_w),
      .host_wvalid_i     (host_wvalid),
      .host_wready_o     (host_wready),
      .host_b_o          (host_b),
      .host_bvalid_o     (host_bvalid),
      .host_ar_i         (host_ar),
      .host_arvalid_i    (host_arvalid),
      .host_arready_o    (host_arready),
      .host_r_o          (host_r),
      .host_rvalid_o     (host_rvalid),
      .m_axi_awid,
      .m_axi_awaddr,
      .m_axi_awlen,
      .m_axi_awsize,
      .m_axi_awburst,
      .m_axi_awprot,
      .m_axi_awvalid,
      .m_axi_awready,
      .m_axi_wdata,
      .m_axi_wstrb,
      .m_axi_wlast,
      .m_axi_wvalid,
      .m_axi_wready,
      .m_axi_bid,
      .m_axi_bresp,
      .m_axi_bvalid,
      .m_axi_bready,
      .m_axi_arid,
      .m_axi_araddr,
      .m_axi_arlen,
      .m_axi_arsize,
      .m_axi_arburst,
      .m_axi_arprot,
      .m_axi_arvalid,
      .m_axi_arready,
      .m_axi_rid,
      .m_axi_rdata,
      .m_axi_rresp,
      .m_axi_rlast,
      .m_axi_rvalid,
      .m_axi_rready
  );

  // Normal, non-cacheable, bufferable memory.
  assign m_axi_awlock  = 1'b0;
  assign m_axi_awcache = 4'b0011;
  assign m_axi_awqos   = 4'd0;
  assign m_axi_arlock  = 1'b0;
  assign m_axi_arcache = 4'b0011;
  assign m_axi_arqos   = 4'd0;

  // ---- performance events ------------------------------------------------------------------
  always_comb begin
    events             = '0;
    events.busy        = state == StateBusy;
    events.matrix_busy = matrix_busy;
    events.vector_busy = vector_busy;
    events.macs        = macs;
    events.read_beat   = m_axi_rvalid && m_axi_rready;
    events.write_beat  = m_axi_wvalid && m_axi_wready;
    events.stall_read  = (matrix_busy && matrix_stall_read) || vector_stall_read;
    events.stall_write = (matrix_busy && matrix_stall_write) || vector_stall_write;
    events.stall_bus   = (m_axi_arvalid && !m_axi_arready) || (m_axi_awvalid && !m_axi_awready)
                         || (m_axi_wvalid && !m_axi_wready);
    events.host_beats  = 2'(s_axi_rvalid && s_axi_rready) + 2'(s_axi_wvalid && s_axi_wready);
    events.command     = retire;
  end

  // Hints that this memory system does not use.
  logic unused;
  assign unused = &{1'b0, s_axi_awlock, s_axi_awcache, s_axi_awqos, s_axi_arlock, s_axi_arcache,
                    s_axi_arqos, ring_base_high, guard_base_high, rd_row_last[ReadCommand], rd_row_last[ReadVector], rd_row_last[ReadVector+1],
                    rd_row_last[ReadVector+2], rd_row_last[ReadVector+3]};

  // ---- legal parameters --------------------------------------------------------------------
  if (ArrayRows < 4 || ArrayRows > 64 || (ArrayRows & (ArrayRows - 1)) != 0) begin : g_bad_rows
    $fatal(1, "npu_top: ArrayRows must be a power of two from 4 to 64");
  end
  if (ArrayRows != ArrayCols) begin : g_bad_array
    $fatal(1, "npu_top: the array must be square (ArrayRows == ArrayCols)");
  end
  if (VectorLanes < 2 || VectorLanes > 16 || (VectorLanes & (VectorLanes - 1)) != 0) begin : g_bad_lanes
    $fatal(1, "npu_top: VectorLanes must be a power of two from 2 to 16");
  end
  if (VectorLength < 16 || VectorLength > 4096 || (VectorLength & (VectorLength - 1)) != 0) begin : g_bad_length
    $fatal(1, "npu_top: VectorLength must be a power of two from 16 to 4096");
  end
  if (RowElements < 16 || RowElements > 65536 || (RowElements & (RowElements - 1)) != 0) begin : g_bad_row
    $fatal(1, "npu_top: RowElements must be a power of two from 16 to 65536");
  end
  if (ProgramWords < 1024 || ProgramWords > 65536 || (ProgramWords & (ProgramWords - 1)) != 0) begin : g_bad_words
    $fatal(1, "npu_top: ProgramWords must be a power of two from 1024 to 65536");
  end
  if (DataWidth < 64 || DataWidth > 512 || (DataWidth & (DataWidth - 1)) != 0) begin : g_bad_width
    $fatal(1, "npu_top: DataWidth must be a power of two from 64 to 512");
  end
  if (BlockM < 8 || BlockM > 1024 || (BlockM & (BlockM - 1)) != 0) begin : g_bad_m
    $fatal(1, "npu_top: BlockM must be a power of two from 8 to 1024");
  end
  if (BlockKTiles < 1 || BlockKTiles > 64 || (BlockKTiles & (BlockKTiles - 1)) != 0) begin : g_bad_k
    $fatal(1, "npu_top: BlockKTiles must be a power of two from 1 to 64");
  end
  if (BlockNTiles < 1 || BlockNTiles > 64 || (BlockNTiles & (BlockNTiles - 1)) != 0) begin : g_bad_n
    $fatal(1, "npu_top: BlockNTiles must be a power of two from 1 to 64");
  end
  if (AccEntries < 16 || AccEntries > 65536 || (AccEntries & (AccEntries - 1)) != 0) begin : g_bad_acc
    $fatal(1, "npu_top: AccEntries must be a power of two from 16 to 65536");
  end
  if (WeightMib < 256 || WeightMib > 8192 || (WeightMib & (WeightMib - 1)) != 0) begin : g_bad_weight
    $fatal(1, "npu_top: NPU_WEIGHT_MIB must be a power of two from 256 to 8192");
  end
  if (ActivationMib < 256 || ActivationMib > 8192 || (ActivationMib & (ActivationMib - 1)) != 0) begin : g_bad_activation
    $fatal(1, "npu_top: NPU_ACTIVATION_MIB must be a power of two from 256 to 8192");
  end
  if (ClockGating > 1) begin : g_bad_gating
    $fatal(1, "npu_top: ClockGating must be 0 or 1");
  end
  if (Pipeline > 1) begin : g_bad_pipeline
    $fatal(1, "npu_top: Pipeline must be 0 or 1");
  end
  if (QueueDepth < 16 || QueueDepth > 128 || (QueueDepth & (QueueDepth - 1)) != 0) begin : g_bad_queue
    $fatal(1, "npu_top: QueueDepth must be a power of two from 16 to 128");
  end
endmodule
