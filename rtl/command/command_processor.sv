// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Takes command packets from the window queue and the ring, checks them, and
// has the engines execute them.
//
// Commands start and retire in order. A command starts when its engine can take
// it and it has no RAW, WAR or WAW hazard with a command under way. A MATMUL
// starts when its right operand has none, and is held until the rest of it has
// none, so that its weights are fetched meanwhile. The matrix engine takes a
// second command while it works on one. The window queue is
// served before the ring; a packet and its extensions come from the same
// source. After an error the commands before the failing one still retire. Then
// all bus traffic ends, and the state is ERROR until clear_error_i, which drops
// everything submitted before it.
// While a command that writes to the ring is under way, the ring is not read,
// so prefetching never yields a packet that the command then overwrites.
// Reset and soft-reset state: IDLE, queues empty, ring head 0.
module command_processor
  import npu_pkg::*;
  import vector_pkg::*;
#(
    parameter int unsigned DataWidth    = 256,  // bits of a memory beat: 64, 128, 256 or 512
    parameter int unsigned QueueDepth   = 16,   // packets in the window queue, a power of two from 16 to 128
    parameter int unsigned ProgramWords = 4096, // words of program memory, a power of two from 1024 to 65536
    parameter bit          Blocks       = 1'b1  // the matrix engine takes weights in blocks
) (
    input  logic                  clk_i,
    input  logic                  rst_ni,
    output logic                  awake_o,           // the next edge of clk_i changes something
    input  logic                  free_clk_i,        // clk_i without its gate

    // register block
    input  logic                  soft_reset_i,      // pulse
    input  logic                  clear_error_i,     // pulse
    input  logic [PacketBits-1:0] cmd_packet_i,
    input  logic                  cmd_doorbell_i,    // pulse
    input  logic                  ring_enable_i,
    input  address_t              ring_base_i,
    input  logic [15:0]           ring_size_i,
    input  logic [15:0]           ring_tail_i,
    input  logic                  ring_tail_write_i, // pulse
    output logic                  ring_tail_set_o,   // pulse: the tail register becomes ring_tail_o
    output logic [15:0]           ring_tail_o,       // the last tail that was not refused
    output logic [15:0]           ring_head_o,
    input  address_t              guard_base_i,      // the ring lies in this range, and no command writes it
    input  logic [31:0]           guard_size_i,      // bytes; 0: there is none
    input  logic [31:0]           watchdog_i,        // clocks that the oldest command may take; 0: any number
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
    output logic                  retire_o,          // pulse: a command retired
    output logic                  vector_retire_o,   // pulse: a command of the vector engine retired

    // memory controller
    output logic                  abort_o,           // held until memory_idle_i
    input  logic                  memory_idle_i,
    input  logic [ErrorOwners-1:0] memory_error_i,   // pulse: of a channel of that owner
    input  logic [ErrorOwners-1:0] memory_error_write_i,
    input  address_t              memory_error_addr_i [ErrorOwners],
    input  logic                  fetch_error_i,     // pulse: of the command channel
    input  address_t              fetch_error_addr_i,
    output logic                  desc_valid_o,
    input  logic                  desc_ready_i,
    output dma_desc_t             desc_o,
    input  logic                  data_valid_i,
    output logic                  data_ready_o,
    input  logic [DataWidth-1:0]  data_i,

    // engines
    output logic [Engines-1:0]    start_o,           // pulses
    input  logic                  matrix_ready_i,    // a command may start
    output matrix_command_t       matrix_command_o,  // valid with its start
    output logic [1:0]            matrix_held_o,     // of each second command: only its right operand may be read
    output vector_command_t       vector_command_o,  // stable from its start to its end
    input  logic [Engines-1:0]    done_i,            // pulses
    input  logic                  vector_fault_i,    // pulse: the program or the data is bad
    input  logic                  vector_fault_index_i,
    input  address_t              vector_fault_addr_i,
    input  logic [31:0]           program_words_i,   // loaded words of program memory
    input  logic                  program_ready_i    // a LOAD_PROGRAM may start
);
  // log2 of the clocks for which an announced extension that is not submitted is waited for.
  localparam int unsigned ExtensionTimeoutBits = $clog2(MaxExtensionWait);

  typedef enum logic [3:0] {
    PhaseWait,       // for a packet
    PhaseHead,       // opcode and flags
    PhaseExtension,  // wait for an announced extension
    PhaseExtCheck,
    PhaseCheck,      // everything else
    PhaseIssue,      // wait for the engine, or for all before a fence
    PhaseDrain,      // after a bad packet: all commands before it retire
    PhaseFail,       // bus traffic ends
    PhaseError,      // until the error is cleared
    PhaseReset       // soft reset: bus traffic ends
  } phase_e;

  phase_e phase_q, phase_d;
  packet_t packet_q;
  packet_words_t extension_q [VectorExtensions];
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
  // The ring as of the last accepted doorbell. It does not move until it is empty, even if the registers change.
  logic [15:0] tail_q, size_q;
  address_t base_q, last_q;
  logic ring_valid, ring_take, ring_failed, ring_config_bad, ring_busy, ring_written, tail_back, engine_fails;
  logic [15:0] set_head;
  logic [PacketBits-1:0] ring_packet;
  address_t ring_failed_addr, ring_last;
  logic ring_outside;
  logic fetching;
  logic [AddressBits:0] guard_end;

  // A ring has at most 65535 slots of 64 bytes, so its end cannot overflow.
  assign ring_last = ring_base_i + address_t'({ring_size_i, 6'd0}) - address_t'(1);
  assign guard_end = (AddressBits + 1)'(guard_base_i) + (AddressBits + 1)'(guard_size_i);
  if (LargeMemory) begin : g_large_memory
    assign ring_outside = !(ring_base_i >= WeightFirst && ring_base_i <= WeightEnd && ring_last <= WeightEnd)
                          && !(ring_base_i >= ActivationFirst && ring_base_i <= ActivationEnd
                               && ring_last <= ActivationEnd);
  end else begin : g_small_memory
    assign ring_outside = ring_base_i > ActivationEnd || ring_last[31:28] != ring_base_i[31:28];
  end
  assign ring_config_bad = !ring_enable_i || ring_base_i[5:0] != '0 || ring_size_i < 16'd2
                           || ring_outside
                           || ring_head_o >= ring_size_i
                           || (guard_size_i != '0 && (ring_base_i < guard_base_i || (AddressBits + 1)'(ring_last) >= guard_end))
                           || (ring_busy && (ring_base_i != base_q || ring_size_i != size_q));

  ring_fetcher #(
      .DataWidth(DataWidth)
  ) u_ring (
      .clk_i,
      .rst_ni,
      .abort_i         (abort_o || phase_q == PhaseError),  // nothing is fetched until the error is cleared
      .hold_i          (ring_written),
      .base_i          (base_q),
      .size_i          (size_q),
      .tail_i          (tail_q),
      .set_head_i      (clear_queues || engine_fails),
      .set_head_value_i(set_head),
      .head_o          (ring_head_o),
      .packet_valid_o  (ring_valid),
      .packet_take_i   (ring_take),
      .packet_o        (ring_packet),
      .failed_o        (ring_failed),
      .failed_addr_o   (ring_failed_addr),
      .awake_o         (fetching),
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

  // Submitted slots cannot be taken back: a tail among the waiting slots is refused.
  assign tail_back = ring_busy && ((ring_head_o < tail_q) ? ring_tail_i >= ring_head_o && ring_tail_i < tail_q
                                                          : ring_tail_i >= ring_head_o || ring_tail_i < tail_q);

  // A tail written in state ERROR is accepted here; clearing the error drops its slots with everything else.
  logic tail_good;
  assign tail_good = ring_tail_write_i && phase_q != PhaseReset && !ring_config_bad && ring_tail_i < ring_size_i
                     && !tail_back;

  always_ff @(posedge clk_i) begin
    if (tail_good) begin
      base_q <= ring_base_i;
      size_q <= ring_size_i;
      last_q <= ring_last;
    end
  end

  assign ring_tail_set_o = phase_q == PhaseError && clear_error_i;
  assign ring_tail_o     = tail_q;

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
  extent_t [Operands-1:0] extents;
  logic turned;
  matrix_command_t matrix_command;
  vector_command_t vector_command;

  logic checks;  // the packet and its extensions are there
  logic issues;  // the checked command starts

  packet_checker #(
      .ProgramWords(ProgramWords),
      .Blocks      (Blocks)
  ) u_checker (
      .clk_i,
      .rst_ni,
      .abort_i          (abort_o),
      .packet_i         (packet_q),
      .extension_i      (extension_q),
      .program_words_i,
      .guard_base_i,
      .guard_size_i,
      .head_error_o     (head_error),
      .extension_error_o(extension_error),
      .start_i          (checks),
      .done_o           (check_done),
      .error_o          (check_error),
      .error_addr_o     (check_addr),
      .taken_i          (issues),
      .extents_o        (extents),
      .turned_o         (turned),
      .matrix_o         (matrix_command),
      .vector_o         (vector_command)
  );

  // ---- commands under way, the oldest first -------------------------------------------------
  localparam int unsigned Slots = 3;

  typedef struct packed {
    logic        vector;    // on the vector engine
    logic        odd;       // every second command of the matrix engine
    logic        done;      // its result is in memory, but an older command has not retired
    logic        irq;
    logic [31:0] index;     // commands taken before it
    logic [15:0] ring_head; // the ring's head behind its packets
    error_e      error;
    logic [63:0] error_addr;
    extent_t [Operands-1:0] extents;
  } slot_t;

  slot_t slots_q [Slots], slots [Slots];  // slots: with this clock's reports of the engines
  logic [Slots-1:0] valid_q;              // dense from 0
  logic retires, fails, is_fence, is_matmul, conflict, right_conflict, loading, vector_free, any_slot;
  logic [1:0] free_slot;

  assign any_slot     = valid_q != '0;
  assign retires      = valid_q[0] && slots[0].done && slots[0].error == ErrNone && !abort_o;
  assign fails        = valid_q[0] && slots_q[0].error != ErrNone && !abort_o;
  assign engine_fails = fails && !soft_reset_i;

  always_comb begin
    vector_free = 1'b1;
    free_slot   = '0;
    for (int unsigned i = 0; i < Slots; i++) begin
      if (valid_q[i] && slots_q[i].vector) vector_free = 1'b0;
      if (valid_q[i]) free_slot = 2'(i) + 2'd1;
    end
    loading = !vector_free && vector_command_o.kind == KindLoad;
  end
  assign vector_retire_o = retires && slots_q[0].vector;

  // A RAW, WAR or WAW hazard between the checked command and those under way.
  logic [Slots-1:0] conflicts;
  always_comb begin
    conflicts      = '0;
    right_conflict = 1'b0;
    if (phase_q == PhaseIssue || check_done) begin
      for (int unsigned e = 0; e < Slots; e++) begin
        if (valid_q[e] && !slots_q[e].done) begin
          for (int unsigned i = 0; i < Operands; i++) begin
            for (int unsigned j = 0; j < Operands; j++) begin
              if ((i == OperandDst || j == OperandDst) && extents[i].used && slots_q[e].extents[j].used
                  && extents[i].first <= slots_q[e].extents[j].last
                  && slots_q[e].extents[j].first <= extents[i].last) begin
                conflicts[e] = 1'b1;
                if (i == (turned ? OperandLeft : OperandRight)) right_conflict = 1'b1;
              end
            end
          end
        end
      end
    end
  end
  assign conflict = is_matmul ? right_conflict : conflicts != '0;

  // Packets of the ring are read after the commands that write to the ring.
  always_comb begin
    ring_written = 1'b0;
    for (int unsigned i = 0; i < Slots; i++) begin
      if (valid_q[i] && !slots_q[i].done && slots_q[i].extents[OperandDst].used && ring_busy
          && slots_q[i].extents[OperandDst].first <= last_q && slots_q[i].extents[OperandDst].last >= base_q)
        ring_written = 1'b1;
    end
  end

  // Clocks since the oldest command became the oldest.
  logic [31:0] age_q;
  logic overdue;
  assign overdue = valid_q[0] && watchdog_i != '0 && age_q >= watchdog_i;
  always_ff @(posedge free_clk_i) begin
    if (!valid_q[0] || retires) age_q <= '0;
    else if (age_q != '1) age_q <= age_q + 32'd1;
  end

  assign is_matmul = is_matrix_opcode(packet_q.opcode);
  assign is_fence  = is_fence_opcode(packet_q.opcode);

  // An engine reports on its oldest command that is not done; the matrix engine also on the one behind it.
  logic [ErrorOwners-1:0] seen;  // has a command that is not done
  always_comb begin
    seen  = '0;
    slots = slots_q;
    for (int unsigned i = 0; i < Slots; i++) begin
      int unsigned owner;
      owner = slots_q[i].vector ? EngineVector : (seen[EngineMatrix] ? OwnerMatrixNext : EngineMatrix);
      if (valid_q[i] && !slots_q[i].done) begin
        if (owner != OwnerMatrixNext && !seen[owner] && done_i[slots_q[i].vector]) slots[i].done = 1'b1;
        if (slots_q[i].error == ErrNone) begin
          if (memory_error_i[owner]) begin
            slots[i].error      = memory_error_write_i[owner] ? ErrWriteResponse : ErrReadResponse;
            slots[i].error_addr = 64'(memory_error_addr_i[owner]);
          end else if (owner == EngineVector && vector_fault_i) begin
            slots[i].error      = vector_fault_index_i ? ErrBadIndex : ErrBadProgram;
            slots[i].error_addr = 64'(vector_fault_addr_i);
          end else if (i == 0 && overdue && !slots[i].done) begin
            slots[i].error      = ErrTimeout;
            slots[i].error_addr = '0;
          end
        end
        seen[owner] = 1'b1;
      end
    end
  end

  logic odd_q;  // the next command of the matrix engine is
  slot_t issued;
  assign issued = '{
          vector: !is_matmul,
          odd: odd_q,
          done: 1'b0,
          irq: packet_q.flags[FlagIrq],
          index: taken_q - 32'd1,
          ring_head: ring_head_o,
          error: ErrNone,
          error_addr: '0,
          extents: extents
      };

  logic [Slots-1:0] entering;
  for (genvar i = 0; i < Slots; i++) begin : g_entering
    assign entering[i] = issues && free_slot - 2'(retires) == 2'(i);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_o) valid_q <= '0;
    else valid_q <= (retires ? valid_q >> 1 : valid_q) | entering;
  end
  always_ff @(posedge clk_i) begin
    if (any_slot || issues) begin
      for (int unsigned i = 0; i < Slots; i++) begin
        if (!retires) slots_q[i] <= slots[i];
        else if (i + 1 < Slots) slots_q[i] <= slots[i+1];
        if (entering[i]) slots_q[i] <= issued;
      end
    end
  end

  // The older commands that a slot's command has a hazard with, until they are done.
  logic [Slots-1:0][Slots-1:0] hazards_q, hazards;
  always_comb begin
    for (int unsigned i = 0; i < Slots; i++) begin
      hazards[i] = hazards_q[i];
      if (issues && free_slot == 2'(i)) hazards[i] = conflicts;
      for (int unsigned e = 0; e < Slots; e++) if (slots[e].done) hazards[i][e] = 1'b0;
    end
  end
  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < Slots; i++) begin
      if (!rst_ni || abort_o) hazards_q[i] <= '0;
      else if (!retires) hazards_q[i] <= hazards[i];
      else hazards_q[i] <= (i + 1 < Slots) ? hazards[(i+1)%Slots] >> 1 : '0;
    end
  end
  always_comb begin
    matrix_held_o = '0;
    for (int unsigned i = 0; i < Slots; i++) begin
      if (!slots_q[i].vector && hazards_q[i] != '0) matrix_held_o[slots_q[i].odd] = 1'b1;
    end
  end
  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_o) odd_q <= 1'b0;
    else odd_q <= odd_q ^ start_o[EngineMatrix];
  end

  assign matrix_command_o       = matrix_command;
  assign start_o[EngineMatrix]  = issues && is_matmul;
  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_o) start_o[EngineVector] <= 1'b0;
    else start_o[EngineVector] <= issues && !is_matmul;
  end
  always_ff @(posedge clk_i) begin
    if (issues && !is_matmul) vector_command_o <= vector_command;
  end

  // ---- sequence ----------------------------------------------------------------------------
  error_e fault;  // of the current packet, or of the submission
  logic [63:0] fault_addr;
  logic fault_before_packet;  // the failing packet does not count as taken yet
  logic stops;  // an engine's error or a soft reset leaves every phase
  logic takes;  // the first packet of a command
  logic has_work, source_valid, settle_q, extension_take, extension_last, awaits_host, engine_free, can_issue;
  logic [1:0] extension_no_q;
  logic [ExtensionTimeoutBits-1:0] waited_q;

  assign source_valid   = from_ring_q ? ring_valid : !window_empty;
  assign has_work       = !window_empty || ring_valid;
  // What follows from phase_d is written out: phase_d itself comes last in a clock.
  assign stops          = engine_fails || soft_reset_i;
  assign takes          = phase_q == PhaseWait && submit_error_q == ErrNone && has_work && !stops;
  // Its source is empty, so the announced extension has not been submitted.
  assign awaits_host    = phase_q == PhaseExtension && !extension_take && !(from_ring_q && ring_busy);
  assign extension_last = packet_q.opcode != OpVector || extension_no_q == 2'(VectorExtensions - 1);
  assign extension_take = phase_q == PhaseExtension && source_valid && !stops;
  assign engine_free    = !valid_q[Slots-1] && (is_matmul ? matrix_ready_i : vector_free);
  // A load starts only when no other command is under way, so no older command's error can abort it.
  assign can_issue      = engine_free && !conflict
                          && !(packet_q.opcode == OpLoadProgram && (any_slot || !program_ready_i));
  assign checks         = ((phase_q == PhaseHead && head_error == ErrNone && !is_fence && !packet_q.flags[FlagExt])
                           || (phase_q == PhaseExtCheck && extension_error == ErrNone
                               && (packet_q.opcode != OpVector || !loading)))
                          && !stops;
  assign issues         = (phase_q == PhaseIssue ? !is_fence : phase_q == PhaseCheck && check_done && check_error == ErrNone)
                          && can_issue && !stops;

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
        else if (is_fence) phase_d = PhaseIssue;
        else if (packet_q.flags[FlagExt]) phase_d = PhaseExtension;
        else phase_d = PhaseCheck;
      end
      PhaseExtension: begin
        if (source_valid) begin
          if (extension_last) phase_d = PhaseExtCheck;
        end else if (from_ring_q && ring_failed) begin
          fault      = ErrReadResponse;
          fault_addr = 64'(ring_failed_addr);
        end else if (awaits_host && submit_error_q != ErrNone) begin
          fault               = submit_error_q;
          fault_before_packet = 1'b1;
        end else if (&waited_q) begin
          fault = ErrBadExtension;
        end
      end
      PhaseExtCheck: begin
        if (extension_error != ErrNone) fault = extension_error;
        // The check needs the count of loaded words, which changes at the end of a load.
        else if (packet_q.opcode != OpVector || !loading) phase_d = PhaseCheck;
      end
      PhaseCheck: begin
        if (check_done) begin
          if (check_error != ErrNone) begin
            fault      = check_error;
            fault_addr = check_addr;
          end else begin
            phase_d = can_issue ? PhaseWait : PhaseIssue;
          end
        end
      end
      PhaseIssue: if (is_fence ? !any_slot : can_issue) phase_d = PhaseWait;
      PhaseDrain: if (!any_slot) phase_d = PhaseFail;
      PhaseFail:  if (settle_q && memory_idle_i) phase_d = PhaseError;
      PhaseError: if (clear_error_i) phase_d = PhaseWait;
      PhaseReset: if (settle_q && memory_idle_i) phase_d = PhaseWait;
      default:    phase_d = PhaseWait;
    endcase
    if (fault != ErrNone) phase_d = PhaseDrain;
    if (engine_fails) phase_d = PhaseFail;
    if (soft_reset_i) phase_d = PhaseReset;
  end

  assign window_pop   = (takes && !window_empty) || (extension_take && !from_ring_q);
  assign ring_take    = (takes && window_empty) || (extension_take && from_ring_q);
  assign abort_o      = phase_q == PhaseFail || phase_q == PhaseReset;
  assign reset_done_o = phase_q == PhaseReset && settle_q && memory_idle_i && !soft_reset_i;
  assign clear_queues = reset_done_o || (phase_q == PhaseError && clear_error_i);

  // After an engine's error the packets behind the failing command count as not taken.
  always_comb begin
    set_head = tail_q;
    if (phase_q == PhaseReset) set_head = '0;
    else if (engine_fails) set_head = slots_q[0].ring_head;
  end

  logic fence_retires, retire;
  assign fence_retires = phase_q == PhaseIssue && is_fence && !any_slot && !stops;
  assign retire        = fence_retires || retires;

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
      // memory_idle_i counts from the clock after the channels have seen the abort.
      settle_q <= abort_o && phase_d == phase_q;
      waited_q <= awaits_host ? waited_q + 1'b1 : '0;
      if (window_push || (tail_good && ring_tail_i != ring_head_o)) submitted_q <= 1'b1;
      if (takes) taken_q <= taken_q + 32'd1;
      if (engine_fails) taken_q <= slots_q[0].index + 32'd1;
      if (retire) retired_q <= retired_q + 32'd1;
      if (clear_queues) submitted_q <= 1'b0;
      if (reset_done_o) begin
        taken_q   <= '0;
        retired_q <= '0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (phase_q == PhaseWait) begin
      packet_q       <= window_empty ? ring_packet : window_packet;
      from_ring_q    <= window_empty;
      extension_no_q <= '0;
      for (int unsigned i = 0; i < VectorExtensions; i++) extension_q[i] <= '0;
    end else if (phase_q == PhaseExtension) begin
      if (extension_take) extension_no_q <= extension_no_q + 2'd1;
      extension_q[extension_no_q] <= from_ring_q ? ring_packet : window_packet;
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
    end else if (engine_fails) begin
      error_code_q    <= slots_q[0].error;
      error_index_q   <= slots_q[0].index;
      error_address_q <= slots_q[0].error_addr;
    end else if (fault != ErrNone) begin
      error_code_q    <= fault;
      error_index_q   <= fault_before_packet ? taken_q : taken_q - 32'd1;
      error_address_q <= fault_addr;
    end
  end

  always_comb begin
    if (phase_q == PhaseError) state_d = StateError;
    else if (phase_q != PhaseWait || any_slot || submit_error_q != ErrNone || !window_empty || ring_busy) state_d = StateBusy;
    else state_d = submitted_q ? StateDone : StateIdle;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) state_q <= StateIdle;
    else state_q <= state_d;
  end

  // ---- rest ---------------------------------------------------------------------------------
  // What the host or an engine reports wakes the unit, and so does all that moves it to another phase: a packet, an
  // error, a soft reset, clear_error_i. It stays awake while it fetches, checks or drains, until its outputs have settled.
  // It rests where it waits: for a packet, for an engine, for clear_error_i.
  logic waits;
  assign waits   = phase_q == PhaseWait || phase_q == PhaseIssue || phase_q == PhaseError;
  assign awake_o = !waits || phase_d != phase_q || state_d != state_q || fetching
                   || cmd_doorbell_i || ring_tail_write_i || done_i != '0 || memory_error_i != '0 || vector_fault_i
                   || retires || overdue || start_o[EngineVector];

  assign state_o       = state_d;
  assign queue_level_o = 8'(window_count);
  assign queue_full_o  = window_full;
  // The error shows only when the commands before the failing one have retired.
  assign error_code_o  = (phase_q == PhaseDrain) ? ErrNone : error_code_q;
  assign error_index_o = (phase_q == PhaseDrain) ? '0 : error_index_q;
  assign error_addr_o  = (phase_q == PhaseDrain) ? '0 : error_address_q;
  assign retired_o     = retired_q;
  assign retire_o      = retire;
  assign irq_command_o = (fence_retires && packet_q.flags[FlagIrq])
                         || (retires && slots_q[0].irq);
  assign irq_done_o    = state_d == StateDone && state_q == StateBusy;
  assign irq_error_o   = state_d == StateError && state_q != StateError;

  if (QueueDepth < 16 || QueueDepth > 128) begin : g_bad_queue
    $fatal(1, "command_processor: QueueDepth must be 16 to 128");
  end

  `NPU_ASSERT_RESTS(Rests, awake_o,
                    ({phase_q, state_q, settle_q, waited_q, submitted_q, submit_error_q, taken_q, retired_q, valid_q, odd_q,
                      hazards_q, tail_q, error_code_q, start_o[EngineVector]}),
                    "the unit rests, but a register would change")
  `NPU_ASSERT(TakesHead, takes == (phase_q == PhaseWait && phase_d == PhaseHead), "a packet was taken, but not to be checked")
  `NPU_ASSERT(ChecksNext, checks == (phase_q != PhaseCheck && phase_d == PhaseCheck), "a check began in another phase")
  `NPU_ASSERT(IssuesNext, (issues || fence_retires) == ((phase_q == PhaseIssue || phase_q == PhaseCheck) && phase_d == PhaseWait),
              "a command was issued, but is still waited for")
  `NPU_ASSERT(ResetEnds, reset_done_o == (phase_q == PhaseReset && phase_d == PhaseWait), "a soft reset ended in its phase")
  `NPU_ASSERT(OneRetires, !(fence_retires && retires), "two commands retired in one clock")
  `NPU_ASSERT(DoneExpected, (done_i & ~seen[Engines-1:0]) == '0, "an engine without a command reported one as done")
endmodule
