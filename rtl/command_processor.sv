// Takes command packets from the window queue and the ring, checks them, and
// has the engines execute them in order, one after another.
//
// The window queue is served before the ring; a packet and its extension come
// from the same source. On an error the queue stops: all bus traffic of the
// failing command ends, then the state is ERROR until clear_error_i, which
// drops everything submitted before it.
// Reset and soft-reset state: IDLE, queues empty, ring head 0.
`include "npu_assert.svh"

module command_processor
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth  = 256,
    parameter int unsigned QueueDepth = 16   // packets in the window queue
) (
    input  logic                  clk_i,
    input  logic                  rst_ni,

    // register block
    input  logic                  soft_reset_i,      // pulse
    input  logic                  clear_error_i,     // pulse
    input  logic [PacketBits-1:0] cmd_packet_i,
    input  logic                  cmd_doorbell_i,    // pulse
    input  logic                  ring_enable_i,
    input  logic [31:0]           ring_base_i,
    input  logic [15:0]           ring_size_i,
    input  logic [15:0]           ring_tail_i,
    input  logic                  ring_tail_write_i, // pulse
    output logic [15:0]           ring_head_o,
    output logic                  reset_done_o,      // pulse: a soft reset is complete
    output logic [1:0]            state_o,
    output logic [7:0]            queue_level_o,
    output logic                  queue_full_o,
    output logic [7:0]            error_code_o,
    output logic [31:0]           error_index_o,
    output logic [63:0]           error_addr_o,
    output logic [31:0]           retired_o,
    output logic                  irq_done_o,        // pulses
    output logic                  irq_error_o,
    output logic                  irq_command_o,
    output logic                  retire_o,

    // memory controller
    output logic                  abort_o,           // held until memory_idle_i
    input  logic                  memory_idle_i,
    input  logic                  memory_error_i,    // pulse: of an engine's channel
    input  logic                  memory_error_write_i,
    input  logic [31:0]           memory_error_addr_i,
    input  logic                  fetch_error_i,     // pulse: of the command channel
    input  logic [31:0]           fetch_error_addr_i,
    output logic                  desc_valid_o,
    input  logic                  desc_ready_i,
    output dma_desc_t             desc_o,
    input  logic                  data_valid_i,
    output logic                  data_ready_o,
    input  logic [DataWidth-1:0]  data_i,

    // engines
    output command_t              command_o,         // stable while an engine is busy
    output logic                  matrix_start_o,    // pulses
    output logic                  vector_start_o,
    input  logic                  matrix_done_i,
    input  logic                  vector_done_i
);
  // An announced extension that has not come after this many clocks never will.
  localparam int unsigned ExtensionTimeoutBits = 16;

  typedef enum logic [3:0] {
    PhaseWait,       // for a packet
    PhaseHead,       // opcode and flags
    PhaseExtension,  // wait for the announced extension
    PhaseExtCheck,
    PhaseCheck,      // everything else
    PhaseStart,
    PhaseRun,
    PhaseRetire,
    PhaseFail,       // bus traffic ends
    PhaseError,      // until it is cleared
    PhaseReset       // soft reset, bus traffic ends
  } phase_e;

  phase_e phase_q, phase_d;
  packet_t packet_q;
  extension_t extension_q;
  logic from_ring_q, submitted_q;
  logic [31:0] taken_q, retired_q;

  // ---- window queue --------------------------------------------------------------------
  logic window_push, window_pop, window_full, window_empty, clear_queues;
  logic [PacketBits-1:0] window_packet;
  logic [$clog2(QueueDepth):0] window_count;
  logic accepting;

  assign accepting   = phase_q != PhaseFail && phase_q != PhaseError && phase_q != PhaseReset;
  assign window_push = cmd_doorbell_i && accepting && !window_full;

  sync_fifo #(
      .Width(PacketBits),
      .Depth(QueueDepth)
  ) u_window (
      .clk_i,
      .rst_ni,
      .clear_i(clear_queues),
      .push_i (window_push),
      .data_i (cmd_packet_i),
      .pop_i  (window_pop),
      .data_o (window_packet),
      .full_o (window_full),
      .empty_o(window_empty),
      .count_o(window_count)
  );

  // ---- ring ----------------------------------------------------------------------------
  logic [15:0] tail_q;  // the last good one
  logic ring_valid, ring_take, ring_failed, ring_config_bad, ring_busy;
  logic [PacketBits-1:0] ring_packet;
  logic [31:0] ring_failed_addr, ring_last;

  // A ring has at most 65535 slots of 64 bytes, so its end cannot overflow.
  assign ring_last = ring_base_i + {10'd0, ring_size_i, 6'd0} - 32'd1;
  assign ring_config_bad = !ring_enable_i || ring_base_i[5:0] != '0 || ring_size_i < 16'd2
                           || ring_base_i > ActivationLast
                           || ring_last[31:28] != ring_base_i[31:28];

  ring_fetcher #(
      .DataWidth(DataWidth)
  ) u_ring (
      .clk_i,
      .rst_ni,
      .abort_i         (abort_o || phase_q == PhaseError),  // nothing is fetched until the error is cleared
      .base_i          (ring_base_i),
      .size_i          (ring_size_i),
      .tail_i          (tail_q),
      .set_head_i      (clear_queues),
      .set_head_value_i((phase_q == PhaseReset) ? 16'd0 : tail_q),
      .head_o          (ring_head_o),
      .packet_valid_o  (ring_valid),
      .packet_take_i   (ring_take),
      .packet_o        (ring_packet),
      .failed_o        (ring_failed),
      .failed_addr_o   (ring_failed_addr),
      .desc_valid_o,
      .desc_ready_i,
      .desc_o,
      .data_valid_i,
      .data_ready_o,
      .data_i,
      .error_i         (fetch_error_i),
      .error_addr_i    (fetch_error_addr_i)
  );
  assign ring_busy = ring_head_o != tail_q;

  logic unused;
  assign unused = &{1'b0, ring_last[27:0]};

  logic tail_good;
  assign tail_good = ring_tail_write_i && accepting && !ring_config_bad && ring_tail_i < ring_size_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || reset_done_o) tail_q <= '0;
    else if (tail_good) tail_q <= ring_tail_i;
  end

  // ---- errors of the submission itself, raised between commands ---------------------------
  error_e submit_error_q, submit_error_d;
  always_comb begin
    submit_error_d = submit_error_q;
    if (submit_error_q == ErrNone && accepting) begin
      if (cmd_doorbell_i && window_full) submit_error_d = ErrQueueFull;
      else if (ring_tail_write_i && ring_config_bad) submit_error_d = ErrRingConfig;
      else if (ring_tail_write_i && !tail_good) submit_error_d = ErrRingIndex;
    end
    if (phase_q == PhaseError || reset_done_o) submit_error_d = ErrNone;
  end
  always_ff @(posedge clk_i) begin
    if (!rst_ni) submit_error_q <= ErrNone;
    else submit_error_q <= submit_error_d;
  end

  // ---- checks ----------------------------------------------------------------------------
  error_e head_error, extension_error, check_error;
  logic check_done;
  logic [63:0] check_addr;

  packet_checker u_checker (
      .clk_i,
      .rst_ni,
      .abort_i          (abort_o),
      .packet_i         (packet_q),
      .extension_i      (extension_q),
      .head_error_o     (head_error),
      .extension_error_o(extension_error),
      .start_i          (phase_d == PhaseCheck && phase_q != PhaseCheck),
      .done_o           (check_done),
      .error_o          (check_error),
      .error_addr_o     (check_addr),
      .command_o        (command_o)
  );

  // ---- sequence ----------------------------------------------------------------------------
  error_e fault;
  logic [63:0] fault_addr;
  logic fault_before_packet;  // not yet one of the commands taken
  logic has_work, is_matmul, source_valid, settle_q;
  logic [ExtensionTimeoutBits-1:0] waited_q;

  assign is_matmul    = packet_q.opcode == OpMatmul;
  assign source_valid = from_ring_q ? ring_valid : !window_empty;
  assign has_work     = !window_empty || ring_valid;

  always_comb begin
    phase_d             = phase_q;
    fault               = ErrNone;
    fault_addr          = '0;
    fault_before_packet = 1'b0;
    unique case (phase_q)
      PhaseWait: begin
        if (submit_error_q != ErrNone) begin
          fault               = submit_error_q;
          fault_before_packet = 1'b1;
        end else if (has_work) begin
          phase_d = PhaseHead;
        end else if (ring_failed) begin
          fault               = ErrReadResponse;
          fault_addr          = 64'(ring_failed_addr);
          fault_before_packet = 1'b1;
        end
      end
      PhaseHead: begin
        if (head_error != ErrNone) fault = head_error;
        else if (packet_q.opcode == OpNop || packet_q.opcode == OpSync) phase_d = PhaseRetire;
        else if (packet_q.flags[FlagExt]) phase_d = PhaseExtension;
        else phase_d = PhaseCheck;
      end
      PhaseExtension: begin
        if (source_valid) begin
          phase_d = PhaseExtCheck;
        end else if (from_ring_q && ring_failed) begin
          fault      = ErrReadResponse;
          fault_addr = 64'(ring_failed_addr);
        end else if (&waited_q) begin
          fault = ErrBadExtension;
        end
      end
      PhaseExtCheck: begin
        if (extension_error != ErrNone) fault = extension_error;
        else phase_d = PhaseCheck;
      end
      PhaseCheck: begin
        if (check_done) begin
          if (check_error != ErrNone) begin
            fault      = check_error;
            fault_addr = check_addr;
          end else begin
            phase_d = PhaseStart;
          end
        end
      end
      PhaseStart: phase_d = PhaseRun;
      PhaseRun: begin
        if (memory_error_i) begin
          fault      = memory_error_write_i ? ErrWriteResponse : ErrReadResponse;
          fault_addr = 64'(memory_error_addr_i);
        end else if (matrix_done_i || vector_done_i) begin
          phase_d = PhaseRetire;
        end
      end
      PhaseRetire: phase_d = PhaseWait;
      PhaseFail:   if (settle_q && memory_idle_i) phase_d = PhaseError;
      PhaseError:  if (clear_error_i) phase_d = PhaseWait;
      PhaseReset:  if (settle_q && memory_idle_i) phase_d = PhaseWait;
      default:     phase_d = PhaseWait;
    endcase
    if (fault != ErrNone) phase_d = PhaseFail;
    if (soft_reset_i) phase_d = PhaseReset;
  end

  assign window_pop = (phase_q == PhaseWait && phase_d == PhaseHead && !window_empty)
                      || (phase_q == PhaseExtension && phase_d == PhaseExtCheck && !from_ring_q);
  assign ring_take  = (phase_q == PhaseWait && phase_d == PhaseHead && window_empty)
                      || (phase_q == PhaseExtension && phase_d == PhaseExtCheck && from_ring_q);
  assign abort_o      = phase_q == PhaseFail || phase_q == PhaseReset;
  assign reset_done_o = phase_q == PhaseReset && phase_d == PhaseWait;
  assign clear_queues = reset_done_o || (phase_q == PhaseError && clear_error_i);
  assign matrix_start_o = phase_q == PhaseStart && is_matmul;
  assign vector_start_o = phase_q == PhaseStart && !is_matmul;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      phase_q     <= PhaseWait;
      settle_q    <= 1'b0;
      waited_q    <= '0;
      submitted_q <= 1'b0;
      taken_q     <= '0;
      retired_q   <= '0;
    end else begin
      phase_q  <= phase_d;
      // The channels see the abort one clock before their idle counts.
      settle_q <= abort_o && phase_d == phase_q;
      waited_q <= (phase_q == PhaseExtension) ? waited_q + 1'b1 : '0;
      if (window_push || (tail_good && ring_tail_i != ring_head_o)) submitted_q <= 1'b1;
      if (phase_q == PhaseWait && phase_d == PhaseHead) taken_q <= taken_q + 32'd1;
      if (phase_q == PhaseRetire) retired_q <= retired_q + 32'd1;
      if (clear_queues) submitted_q <= 1'b0;
      if (reset_done_o) begin
        taken_q   <= '0;
        retired_q <= '0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (phase_q == PhaseWait) begin
      packet_q    <= window_empty ? ring_packet : window_packet;
      from_ring_q <= window_empty;
      extension_q <= '0;
    end else if (phase_q == PhaseExtension) begin
      extension_q <= from_ring_q ? ring_packet : window_packet;
    end
  end

  // ---- status ------------------------------------------------------------------------------
  error_e error_code_q;
  logic [31:0] error_index_q;
  logic [63:0] error_address_q;
  state_e state_q, state_d;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || reset_done_o || (phase_q == PhaseError && clear_error_i)) begin
      error_code_q    <= ErrNone;
      error_index_q   <= '0;
      error_address_q <= '0;
    end else if (fault != ErrNone) begin
      error_code_q    <= fault;
      error_index_q   <= fault_before_packet ? taken_q : taken_q - 32'd1;
      error_address_q <= fault_addr;
    end
  end

  always_comb begin
    if (phase_q == PhaseError) state_d = StateError;
    else if (phase_q != PhaseWait || submit_error_q != ErrNone || !window_empty || ring_busy) state_d = StateBusy;
    else state_d = submitted_q ? StateDone : StateIdle;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) state_q <= StateIdle;
    else state_q <= state_d;
  end

  assign state_o       = state_d;
  assign queue_level_o = 8'(window_count);
  assign queue_full_o  = window_full;
  assign error_code_o  = error_code_q;
  assign error_index_o = error_index_q;
  assign error_addr_o  = error_address_q;
  assign retired_o     = retired_q;
  assign retire_o      = phase_q == PhaseRetire;
  assign irq_command_o = phase_q == PhaseRetire && packet_q.flags[FlagIrq];
  assign irq_done_o    = state_d == StateDone && state_q == StateBusy;
  assign irq_error_o   = state_d == StateError && state_q != StateError;

  if (QueueDepth < 16 || QueueDepth > 128) begin : g_bad_queue
    $fatal(1, "command_processor: QueueDepth must be 16 to 128");
  end

  `NPU_ASSERT(OneEngine, !(matrix_done_i && vector_done_i), "two engines finished at once though one command runs")
endmodule
