// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// The vector engine: programs on streams of rows, and copies without a program.
//
// VECTOR and ADD_TENSOR run in vector_core between four input streams and the
// output. If a VECTOR command scatters, the last input's indices select the rows
// that its output goes to. MEMCPY passes the beats of the first channel to the output channel.
// GATHER does the same with the rows that the second channel's numbers select.
// LOAD_PROGRAM writes the first channel's beats to program memory.
// Reset and abort state: idle; programs survive an abort.
module vector_engine
  import npu_pkg::*;
  import vector_pkg::*;
#(
    parameter int unsigned DataWidth    = 256,   // bits of a memory beat: 64, 128, 256 or 512
    parameter int unsigned Lanes        = 16,    // float32 lanes, a power of two from 2 to 16: one to eight beats
    parameter int unsigned VectorLength = 256,   // elements of a vector register, 2^n, at least 16 and 2 * Lanes
    parameter int unsigned RowElements  = 8192,  // elements of a row that stays on chip, 2^n, at least VectorLength
    parameter int unsigned ProgramWords = 4096,  // words of program memory, a power of two from 16
    parameter bit          Pipeline     = 1'b0   // the lanes take two clocks
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 test_enable_i,    // no clock rests
    input  logic                 abort_i,

    input  logic                 start_i,          // pulse while idle
    input  logic                 retire_i,         // pulse: the done command and all older ones have succeeded
    input  vector_command_t      command_i,        // stable from start_i to retire_i
    output logic                 busy_o,
    output logic                 done_o,           // pulse: the result is in memory
    output logic                 fault_o,          // pulse: the command failed; the engine then waits for an abort
    output logic                 fault_index_o,    // with fault_o: a bad row number, else a bad program
    output address_t             fault_address_o,  // with fault_o
    output logic [31:0]          program_words_o,  // loaded words of program memory
    output logic                 program_ready_o,  // a LOAD_PROGRAM may start

    // memory controller: the inputs and the output
    output logic                 src_desc_valid_o [Inputs],
    input  logic                 src_desc_ready_i [Inputs],
    output dma_desc_t            src_desc_o       [Inputs],
    input  logic                 src_valid_i      [Inputs],
    output logic                 src_ready_o      [Inputs],
    input  logic [DataWidth-1:0] src_data_i       [Inputs],
    output logic                 dst_desc_valid_o,
    input  logic                 dst_desc_ready_i,
    output dma_desc_t            dst_desc_o,
    output logic                 dst_valid_o,
    input  logic                 dst_ready_i,
    output logic [DataWidth-1:0] dst_data_o,
    input  logic                 dst_idle_i,

    // performance events
    output logic                 stall_read_o,     // the lanes wait for operands
    output logic                 stall_write_o     // the lanes wait for room at the output
);
  localparam int unsigned BeatBits   = $clog2(VectorLength / Lanes);
  localparam int unsigned CountBits  = $clog2(Lanes) + 1;
  localparam int unsigned WordBits   = Lanes * 32;
  // The results of a row wait here while the lanes process the next row.
  localparam int unsigned QueueWords = 8 * VectorLength / Lanes;

  logic is_program, is_copy, is_gather, is_load, scatters;
  assign is_program = command_i.kind == KindProgram;
  assign is_copy    = command_i.kind == KindCopy;
  assign is_gather  = command_i.kind == KindGather;
  assign is_load    = command_i.kind == KindLoad;
  assign scatters   = is_program && command_i.table_rows != '0;

  logic busy_q, faulted_q;
  assign busy_o = busy_q;

  // ---- programs ---------------------------------------------------------------------------
  logic fetch, executable, load_write, load_writable;
  typedef logic [$clog2(ProgramWords):0] words_t;  // a number of words of program memory, all of them included
  logic [31:0] fetch_address;
  words_t load_address_q, load_words;
  logic [63:0] load_data;
  instruction_t instruction;

  program_memory #(
      .Words(ProgramWords)
  ) u_programs (
      .clk_i,
      .rst_ni,
      .abort_i,
      .ready_o        (program_ready_o),
      .begin_i        (start_i && is_load),
      .begin_first_i  (command_i.entry),
      .begin_end_i    (command_i.entry + 32'(load_words)),
      .writable_o     (load_writable),
      .write_i        (load_write),
      .write_address_i(32'(load_address_q)),
      .write_data_i   (load_data),
      .complete_i     (retire_i && is_load),
      .loaded_o       (program_words_o),
      .read_i         (fetch),
      .read_address_i (fetch_address),
      .instruction_o  (instruction),
      .executable_o   (executable)
  );

  // Indices are not an input of the program.
  vector_command_t core_command;
  always_comb begin
    core_command = command_i;
    if (scatters) core_command.streams[Indices].enable = 1'b0;
  end

  logic core_busy, core_fault, row_end, out_valid, core_stall_read, core_stall_write;
  logic [31:0] core_fault_address, granules;
  logic [BeatBits-1:0] window_beat;
  logic [Inputs-1:0] window_ready, window_used_up, window_advance, input_idle;
  logic [WordBits-1:0] window_word [Inputs];
  logic [WordBits-1:0] out_word, queue_word;
  logic [CountBits-1:0] out_count, queue_count;
  logic queue_empty, queue_full, queue_pop;
  logic [$clog2(QueueWords):0] queue_level;

  vector_core #(
      .Lanes       (Lanes),
      .VectorLength(VectorLength),
      .RowElements (RowElements),
      .Pipeline    (Pipeline)
  ) u_core (
      .clk_i,
      .rst_ni,
      .abort_i,
      .start_i          (start_i && is_program),
      .command_i        (core_command),
      .busy_o           (core_busy),
      .fault_o          (core_fault),
      .fault_address_o  (core_fault_address),
      .fetch_o          (fetch),
      .fetch_address_o  (fetch_address),
      .instruction_i    (instruction),
      .executable_i     (executable),
      .window_beat_o    (window_beat),
      .window_ready_i   (window_ready),
      .window_used_up_i (window_used_up),
      .window_word_i    (window_word),
      .window_advance_o (window_advance),
      .window_granules_o(granules),
      .row_end_o        (row_end),
      .out_valid_o      (out_valid),
      .out_word_o       (out_word),
      .out_count_o      (out_count),
      .out_room_i       (queue_level <= ($clog2(QueueWords) + 1)'(QueueWords - (Pipeline ? 5 : 4))),
      .stall_read_o     (core_stall_read),
      .stall_write_o    (core_stall_write)
  );

  // ---- inputs -----------------------------------------------------------------------------
  logic load_waits;
  assign load_waits = is_load && !load_writable;

  logic input_desc_valid [Inputs], input_desc_ready [Inputs], input_beat_ready [Inputs];
  dma_desc_t input_desc [Inputs];
  logic gather_busy, gather_desc_valid, gather_beat_ready, gather_fault;
  address_t gather_fault_address;
  dma_desc_t gather_desc;

  for (genvar s = 0; s < Inputs; s++) begin : g_inputs
    // A command wakes all inputs. Those that it uses stay awake to its end, which an abort is too.
    logic input_clk;
    clock_gate u_gate (
        .clk_i,
        .enable_i(start_i || (busy_q && command_i.streams[s].enable) || !rst_ni),
        .test_enable_i,
        .clk_o   (input_clk)
    );

    stream_input #(
        .DataWidth  (DataWidth),
        .Lanes      (Lanes),
        .RowElements(RowElements),
        .BeatBits   (BeatBits)
    ) u_input (
        .clk_i            (input_clk),
        .rst_ni,
        .abort_i,
        // For a gather, row_gatherer generates the transfers of stream 0.
        .start_i          (start_i && command_i.streams[s].enable && !(is_gather && s == 0)),
        .program_i        (is_program && !(scatters && s == Indices)),
        .stream_i         (command_i.streams[s]),
        .rows_i           (command_i.rows),
        .batch0_i         (command_i.batch0),
        .batch1_i         (command_i.batch1),
        .drain_i          (!core_busy),
        .idle_o           (input_idle[s]),
        .desc_valid_o     (input_desc_valid[s]),
        .desc_ready_i     (input_desc_ready[s]),
        .desc_o           (input_desc[s]),
        .beat_valid_i     (src_valid_i[s]),
        .beat_ready_o     (input_beat_ready[s]),
        .beat_i           (src_data_i[s]),
        .window_beat_i    (window_beat),
        .window_ready_o   (window_ready[s]),
        .window_used_up_o (window_used_up[s]),
        .window_word_o    (window_word[s]),
        .window_advance_i (window_advance[s]),
        .window_granules_i(granules),
        .row_end_i        (row_end)
    );
    // A load requests its words when program memory can take them.
    assign src_desc_valid_o[s] = (s == 0 && is_gather) ? gather_desc_valid
                                 : (input_desc_valid[s] && !(s == 0 && load_waits));
    assign src_desc_o[s]       = (s == 0 && is_gather) ? gather_desc : input_desc[s];
    assign input_desc_ready[s] = src_desc_ready_i[s] && !(s == 0 && (is_gather || load_waits));
  end

  row_gatherer #(
      .DataWidth(DataWidth)
  ) u_gatherer (
      .clk_i,
      .rst_ni,
      .abort_i,
      .start_i        (start_i && is_gather),
      .table_address_i(command_i.streams[0].addr),
      .table_rows_i   (command_i.cols),
      .row_bytes_i    (command_i.streams[0].seg_bytes),
      .index_address_i(command_i.streams[1].addr),
      .count_i        (command_i.streams[Output].segs),
      .beat_valid_i   (src_valid_i[1] && is_gather && busy_q),
      .beat_ready_o   (gather_beat_ready),
      .beat_i         (src_data_i[1]),
      .busy_o         (gather_busy),
      .desc_valid_o   (gather_desc_valid),
      .desc_ready_i   (src_desc_ready_i[0]),
      .desc_o         (gather_desc),
      .fault_o        (gather_fault),
      .fault_address_o(gather_fault_address)
  );

  // ---- output -----------------------------------------------------------------------------
  logic copying, unpacker_idle, unpacked_valid, unpacked_ready, dst_asked;
  logic [DataWidth-1:0] unpacked;
  logic walker_desc_valid, scatter_desc_valid, scatter_busy, scatter_began, scatter_discard, scatter_beat_ready;
  logic scatter_fault, proven_q;
  dma_desc_t walker_desc, scatter_desc;
  address_t scatter_fault_address;

  stream_walker u_output_walker (
      .clk_i,
      .rst_ni,
      .abort_i,
      .start_i     (start_i && !is_load && !scatters),
      .stream_i    (command_i.streams[Output]),
      .resident_i  (1'b1),
      .constant_i  (1'b0),
      .rows_i      (command_i.rows),
      .batch0_i    (command_i.batch0),
      .batch1_i    (command_i.batch1),
      .desc_valid_o(walker_desc_valid),
      .desc_ready_i(dst_desc_ready_i),
      .desc_o      (walker_desc)
  );

  row_scatterer #(
      .DataWidth(DataWidth)
  ) u_scatterer (
      .clk_i,
      .rst_ni,
      .abort_i,
      .start_i        (start_i && scatters),
      .table_i        (command_i.streams[Output]),
      .indices_i      (command_i.streams[Indices]),
      .table_rows_i   (command_i.table_rows),
      .rows_i         (command_i.rows),
      .batch0_i       (command_i.batch0),
      .batch1_i       (command_i.batch1),
      .proven_i       (proven_q),
      .beat_valid_i   (src_valid_i[Indices] && scatters && busy_q),
      .beat_ready_o   (scatter_beat_ready),
      .beat_i         (src_data_i[Indices]),
      .busy_o         (scatter_busy),
      .began_o        (scatter_began),
      .discard_o      (scatter_discard),
      .desc_valid_o   (scatter_desc_valid),
      .desc_ready_i   (dst_desc_ready_i),
      .desc_o         (scatter_desc),
      .fault_o        (scatter_fault),
      .fault_address_o(scatter_fault_address)
  );

  // Control flow does not depend on data: what a program may not do, it does in its first row.
  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i || start_i) proven_q <= 1'b0;
    else if (row_end) proven_q <= 1'b1;
  end

  assign dst_desc_valid_o = walker_desc_valid || scatter_desc_valid;
  assign dst_desc_o       = scatters ? scatter_desc : walker_desc;
  assign dst_asked        = !walker_desc_valid && !scatter_busy;

  sync_fifo #(
      .Width(WordBits + CountBits),
      .Depth(QueueWords)
  ) u_queue (
      .clk_i,
      .rst_ni,
      .clear_i(abort_i),
      .push_i (out_valid && !abort_i),
      .data_i ({out_count, out_word}),
      .pop_i  (queue_pop),
      .data_o ({queue_count, queue_word}),
      .full_o (queue_full),
      .empty_o(queue_empty),
      .count_o(queue_level)
  );

  element_unpacker #(
      .DataWidth(DataWidth),
      .Lanes    (Lanes)
  ) u_unpacker (
      .clk_i,
      .rst_ni,
      .abort_i,
      .start_i     (start_i && is_program),
      .stream_i    (command_i.streams[Output]),
      .idle_o      (unpacker_idle),
      .word_valid_i(!queue_empty),
      .word_ready_o(queue_pop),
      .word_i      (queue_word),
      .count_i     (queue_count),
      .beat_valid_o(unpacked_valid),
      .beat_ready_i(unpacked_ready),
      .beat_o      (unpacked)
  );

  assign copying     = busy_q && (is_copy || is_gather);
  // The first row waits until it has a place.
  assign unpacked_ready = (scatters && !scatter_began) ? scatter_discard : dst_ready_i;
  assign dst_valid_o = copying ? src_valid_i[0] : (unpacked_valid && !(scatters && !scatter_began));
  assign dst_data_o  = copying ? src_data_i[0] : unpacked;

  // ---- program loading ----------------------------------------------------------------------
  localparam int unsigned LoadWords    = DataWidth / 64;  // a beat
  localparam int unsigned LoadWordBits = (LoadWords > 1) ? $clog2(LoadWords) : 1;
  words_t load_left_q;
  logic [LoadWordBits-1:0] load_place_q;
  logic load_beat_ends;

  assign load_words     = words_t'(command_i.streams[0].seg_bytes >> 3);
  assign load_write     = busy_q && is_load && load_left_q != '0 && src_valid_i[0] && !abort_i;
  assign load_data      = 64'(src_data_i[0] >> {load_place_q, 6'd0});
  assign load_beat_ends = load_left_q == words_t'(1) || load_place_q == LoadWordBits'(LoadWords - 1);

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      load_left_q    <= load_words;
      load_place_q   <= '0;
      load_address_q <= words_t'(command_i.entry);
    end else if (load_write) begin
      load_left_q    <= load_left_q - words_t'(1);
      load_place_q   <= load_beat_ends ? '0 : load_place_q + LoadWordBits'(1);
      load_address_q <= load_address_q + words_t'(1);
    end
  end

  for (genvar s = 0; s < Inputs; s++) begin : g_ready
    if (s == 0) begin : g_first
      assign src_ready_o[s] = is_program ? input_beat_ready[s]
                              : (is_load ? (load_write && load_beat_ends) : (copying && dst_ready_i));
    end else if (s == 1) begin : g_second
      assign src_ready_o[s] = is_gather ? gather_beat_ready : input_beat_ready[s];
    end else if (s == Indices) begin : g_indices
      assign src_ready_o[s] = scatters ? scatter_beat_ready : input_beat_ready[s];
    end else begin : g_other
      assign src_ready_o[s] = input_beat_ready[s];
    end
  end

  // ---- state --------------------------------------------------------------------------------
  logic inputs_done, finished;
  assign inputs_done = &input_idle;

  always_comb begin
    unique case (command_i.kind)
      KindProgram: finished = !core_busy && queue_empty && unpacker_idle && inputs_done && dst_asked && dst_idle_i;
      KindLoad:    finished = load_left_q == '0 && inputs_done;
      default:     finished = inputs_done && !gather_busy && dst_asked && dst_idle_i;
    endcase
  end
  assign done_o = busy_q && !faulted_q && !fault_o && finished;

  assign fault_o         = busy_q && !faulted_q && (core_fault || gather_fault || scatter_fault);
  assign fault_index_o   = gather_fault || scatter_fault;
  always_comb begin
    fault_address_o = address_t'(core_fault_address);
    if (gather_fault) fault_address_o = gather_fault_address;
    if (scatter_fault) fault_address_o = scatter_fault_address;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      busy_q    <= 1'b0;
      faulted_q <= 1'b0;
    end else begin
      if (start_i) busy_q <= 1'b1;
      else if (done_o) busy_q <= 1'b0;
      if (fault_o) faulted_q <= 1'b1;
    end
  end

  assign stall_read_o  = core_stall_read || (copying && !dst_valid_o && !(inputs_done && dst_asked && dst_idle_i));
  assign stall_write_o = core_stall_write || (copying && dst_valid_o && !dst_ready_i);

  logic unused;
  assign unused = &{1'b0, queue_full};

  if (DataWidth < 64) begin : g_bad_width
    $fatal(1, "vector_engine: DataWidth must be at least 64");
  end

  `NPU_ASSERT(StartsIdle, !(start_i && busy_q), "a command was started before the last one was done")
  // The channels of stream 0 and of the result have several drivers, so they are asserted here.
  `NPU_ASSERT_HANDSHAKE(SourceDescHolds, src_desc_valid_o[0], src_desc_ready_i[0], src_desc_o[0],
                        "a descriptor changed or was withdrawn before it was taken", abort_i)
  `NPU_ASSERT_HANDSHAKE(ResultDescHolds, dst_desc_valid_o, dst_desc_ready_i, dst_desc_o,
                        "a descriptor of the result changed or was withdrawn before it was taken", abort_i)
  `NPU_ASSERT_HANDSHAKE(ResultHolds, dst_valid_o, dst_ready_i, dst_data_o,
                        "a beat of the result changed or was withdrawn before it was taken", abort_i)
endmodule
