// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Executes a program once for each row of a command.
//
// An instruction issues one word (an element a lane) a clock, in order:
//   issue    operands are read from registers and windows
//   execute  the lanes compute, with Pipeline two clocks, of which the second one is called finish
//   late     the lanes end a special function (e^a, 1/a, 1/sqrt(a)); any other word skips this stage, unless
//            the one before it is there
//   write    the result goes to its register or to the output, and to an
//            instruction that reads it at issue in the same clock
// An instruction waits at issue while a word that it reads is still being
// computed, while a window has no data, or while the output has no room. With Pipeline
// an accumulation and a step of a fold wait likewise for what they add to.
// Control instructions take one clock and no lanes.
// Reset and abort state: idle.
module vector_core
  import vector_pkg::*;
#(
    parameter int unsigned Lanes        = 16,    // float32 lanes, a power of two from 2 to 16
    parameter int unsigned VectorLength = 256,   // elements of a vector register, 2^n, at least 16 and 2 * Lanes
    parameter int unsigned RowElements  = 8192,  // elements of a row register, a power of two from VectorLength
    parameter bit          Pipeline     = 1'b0,  // the lanes take two clocks
    parameter int unsigned BeatBits     = $clog2(VectorLength / Lanes)  // of a word's number; not to be set
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic                   abort_i,

    input  logic                   start_i,         // pulse while idle; behind fault_o an abort comes first
    input  vector_command_t        command_i,       // stable from start_i to the end
    output logic                   busy_o,          // a program is running
    output logic                   fault_o,         // pulse: the program broke a rule; the lanes end their words
    output logic [31:0]            fault_address_o, // with fault_o: the instruction

    // program memory
    output logic                   fetch_o,
    output logic [31:0]            fetch_address_o,
    input  instruction_t           instruction_i,   // one clock after fetch_o
    input  logic                   executable_i,

    // windows of the input streams
    output logic [BeatBits-1:0]    window_beat_o,
    input  logic [Inputs-1:0]      window_ready_i,
    input  logic [Inputs-1:0]      window_used_up_i,
    input  logic [Lanes*32-1:0]    window_word_i [Inputs],
    output logic [Inputs-1:0]      window_advance_o,
    output logic [31:0]            window_granules_o,
    output logic                   row_end_o,

    // output
    output logic                   out_valid_o,
    output logic [Lanes*32-1:0]    out_word_o,
    output logic [$clog2(Lanes):0] out_count_o,
    input  logic                   out_room_i,      // room for four more words, with Pipeline for five

    // performance events
    output logic                   stall_read_o,
    output logic                   stall_write_o
);
  localparam int unsigned WordBits    = Lanes * 32;
  localparam int unsigned LaneBits    = $clog2(Lanes);
  localparam int unsigned Beats       = VectorLength / Lanes;  // of a chunk
  localparam int unsigned RowWords    = RowElements / Lanes;
  localparam int unsigned RowBits     = $clog2(RowWords);
  localparam int unsigned LengthBits  = $clog2(VectorLength) + 1;
  localparam int unsigned AccWordBits = 6 - LaneBits;
  // An instruction has as many words as a chunk, or the sixteen steps of a fold.
  localparam int unsigned CounterBits = (BeatBits > 4) ? BeatBits : 4;

  typedef logic [WordBits-1:0] word_t;
  typedef logic [LengthBits-1:0] length_t;

  // ---- rows -----------------------------------------------------------------------------
  typedef enum logic [1:0] {
    StateIdle,
    StateBegin,  // of the command's first row
    StateRun,
    StateEnd     // of a row: the lanes' last words are written
  } core_state_e;

  core_state_e state_q, state_d;
  logic [24:0] row_q;
  logic [15:0] batch0_q, batch1_q;
  logic last_row, last_batch0, last_batch1, row_begins, lanes_empty, end_reached;

  assign last_row    = row_q == command_i.rows - 25'd1;
  assign last_batch0 = batch0_q == command_i.batch0 - 16'd1;
  assign last_batch1 = batch1_q == command_i.batch1 - 16'd1;
  assign row_end_o   = state_q == StateEnd && lanes_empty;
  assign row_begins  = state_q == StateBegin || (row_end_o && state_d == StateRun);
  assign busy_o      = state_q != StateIdle;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      StateIdle:  if (start_i) state_d = StateBegin;
      StateBegin: state_d = StateRun;
      StateRun:   if (end_reached) state_d = StateEnd;
      StateEnd:   if (lanes_empty) state_d = (last_row && last_batch0 && last_batch1) ? StateIdle : StateRun;
    endcase
    if (fault_o) state_d = StateIdle;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) state_q <= StateIdle;
    else state_q <= state_d;
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      row_q    <= '0;
      batch0_q <= '0;
      batch1_q <= '0;
    end else if (row_end_o) begin
      row_q <= last_row ? '0 : row_q + 25'd1;
      if (last_row) batch0_q <= last_batch0 ? '0 : batch0_q + 16'd1;
      if (last_row && last_batch0) batch1_q <= batch1_q + 16'd1;
    end
  end

  // ---- fetch ----------------------------------------------------------------------------
  instruction_t instruction;
  logic valid_q, consume, jump;
  logic [31:0] pc_q, next_pc_q, target;

  assign instruction     = instruction_i;
  assign fetch_address_o = row_begins ? command_i.entry : (jump ? target : next_pc_q);
  assign fetch_o         = row_begins || consume;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i || state_q == StateIdle) valid_q <= 1'b0;
    else if (row_begins) valid_q <= 1'b1;
    else if (end_reached) valid_q <= 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (fetch_o) begin
      pc_q      <= fetch_address_o;
      next_pc_q <= fetch_address_o + 32'd1;
    end
  end

  // ---- decode ---------------------------------------------------------------------------
  logic uses_a, uses_b, uses_c, control, fold, accumulate, special, illegal, aset;

  vector_decoder u_decoder (
      .instruction_i(instruction),
      .uses_a_o     (uses_a),
      .uses_b_o     (uses_b),
      .uses_c_o     (uses_c),
      .control_o    (control),
      .fold_o       (fold),
      .accumulate_o (accumulate),
      .special_o    (special),
      .illegal_o    (illegal)
  );
  vop_e opcode;
  assign opcode = vop_e'(instruction.opcode);
  assign aset   = opcode == VopAset;

  // ---- loops ----------------------------------------------------------------------------
  logic chunks_open_q, repeat_open_q, repeat_inside_q;  // the repeat loop is the inner one
  logic next_is_chunks, next_again;
  logic [31:0] chunks_pc_q, repeat_pc_q, left_q, rep_q;
  logic [31:0] base_q;                     // first element of the chunk
  logic do_chunks, do_repeat, do_next, do_advance, control_done;
  length_t vl;

  assign control_done   = valid_q && state_q == StateRun && control && !fault_o;
  assign do_chunks      = control_done && opcode == VopChunks;
  assign do_repeat      = control_done && opcode == VopRepeat;
  assign do_next        = control_done && opcode == VopNext;
  assign do_advance     = control_done && opcode == VopAdvance;
  assign end_reached    = control_done && opcode == VopEnd;
  assign next_is_chunks = chunks_open_q && !(repeat_open_q && repeat_inside_q);
  assign next_again     = next_is_chunks ? left_q > 32'(VectorLength) : rep_q != 32'(command_i.repeats) - 32'd1;
  assign jump           = do_next && next_again;
  assign target         = next_is_chunks ? chunks_pc_q : repeat_pc_q;
  assign vl             = (left_q > 32'(VectorLength)) ? length_t'(VectorLength) : length_t'(left_q);

  always_ff @(posedge clk_i) begin
    if (row_begins) begin
      chunks_open_q   <= 1'b0;
      repeat_open_q   <= 1'b0;
      repeat_inside_q <= 1'b0;
      left_q          <= command_i.cols;
      base_q          <= '0;
      rep_q           <= '0;
    end else if (do_chunks) begin
      chunks_open_q   <= 1'b1;
      repeat_inside_q <= 1'b0;
      chunks_pc_q     <= pc_q + 32'd1;
    end else if (do_repeat) begin
      repeat_open_q   <= 1'b1;
      repeat_inside_q <= chunks_open_q;
      repeat_pc_q     <= pc_q + 32'd1;
    end else if (do_next && next_is_chunks) begin
      chunks_open_q <= next_again;
      left_q        <= next_again ? left_q - 32'(VectorLength) : command_i.cols;
      base_q        <= next_again ? base_q + 32'(VectorLength) : '0;
    end else if (do_next) begin
      repeat_open_q <= next_again;
      rep_q         <= next_again ? rep_q + 32'd1 : '0;
    end
  end

  assign window_advance_o  = (do_next || do_advance) ? instruction.imm[Inputs-1:0] : '0;
  assign window_granules_o = (32'(vl) + 32'(Partials - 1)) >> $clog2(Partials);

  // ---- the instruction's words ------------------------------------------------------------
  length_t elements;                       // that it processes
  logic [CounterBits-1:0] beat_q, last_beat;
  logic [BeatBits-1:0] beat;
  logic [LaneBits:0] count;                // of this word
  logic last, go;

  always_comb begin
    elements = (is_scalar(instruction.dst) || instruction.one) ? length_t'(1) : vl;
    if (fold) last_beat = CounterBits'(Partials - 1);
    else if (aset) last_beat = CounterBits'(Partials / Lanes - 1);
    else last_beat = CounterBits'((elements - length_t'(1)) >> LaneBits);
    count = (LaneBits + 1)'(Lanes);
    if (!aset && beat_q == last_beat) count = (LaneBits + 1)'(elements - (length_t'(beat_q) << LaneBits));
    if (fold) count = (LaneBits + 1)'(1);
  end
  assign last    = beat_q == last_beat;
  assign beat    = BeatBits'(beat_q);
  assign consume = control_done || (go && last);
  assign window_beat_o = beat;

  always_ff @(posedge clk_i) begin
    if (row_begins || !valid_q) beat_q <= '0;
    else if (go) beat_q <= last ? '0 : beat_q + CounterBits'(1);
  end

  // ---- place in the output ------------------------------------------------------------------
  logic [31:0] out_offset_q, out_after;
  logic [24:0] out_segment_q;
  logic out_bad, out_complete, writes_out;

  assign writes_out   = !control && instruction.dst == OperandOut;
  assign out_complete = out_segment_q == command_i.streams[Output].segments;
  assign out_after    = out_offset_q + 32'(elements);
  assign out_bad      = out_complete || out_offset_q[$clog2(Partials)-1:0] != '0
                        || out_after > command_i.streams[Output].length || out_after < out_offset_q;

  always_ff @(posedge clk_i) begin
    if (row_begins) begin
      out_offset_q  <= '0;
      out_segment_q <= '0;
    end else if (go && last && writes_out) begin
      if (out_after == command_i.streams[Output].length) begin
        out_offset_q  <= '0;
        out_segment_q <= out_segment_q + 25'd1;
      end else begin
        out_offset_q <= out_after;
      end
    end
  end

  // ---- rules ------------------------------------------------------------------------------
  logic window_bad, row_register_bad, nesting_bad;

  function automatic logic reads(input logic [5:0] code);
    reads = (uses_a && instruction.a == code) || (uses_b && instruction.b == code)
            || (uses_c && instruction.c == code);
  endfunction

  always_comb begin
    window_bad = 1'b0;
    for (int unsigned s = 0; s < Inputs; s++) begin
      if (reads(OperandStream + 6'(s)))
        window_bad |= !command_i.streams[s].enable || window_used_up_i[s];
    end
    row_register_bad = (is_row(instruction.dst) || reads(OperandRow0) || reads(OperandRow1))
                       && base_q + 32'(elements) > 32'(RowElements);
    nesting_bad = 1'b0;
    unique case (opcode)
      VopChunks: nesting_bad = chunks_open_q;
      VopRepeat: nesting_bad = repeat_open_q;
      VopNext:   nesting_bad = !chunks_open_q && !repeat_open_q;
      VopEnd:    nesting_bad = chunks_open_q || repeat_open_q || !out_complete;
      default: ;
    endcase
  end

  assign fault_o = valid_q && state_q == StateRun && beat_q == '0
                   && (!executable_i || illegal || nesting_bad
                       || (!control && (window_bad || row_register_bad || (writes_out && out_bad))));
  assign fault_address_o = pc_q;

  // ---- issue --------------------------------------------------------------------------------
  typedef struct packed {
    logic [6:0]             opcode;
    logic [5:0]             dst;
    logic [RowBits-1:0]     address;     // word of a w, beat of a v
    logic                   write;       // at the end of this word
    logic                   accumulate;
    logic                   fold;
    logic                   first;
    logic                   special;
    logic [AccWordBits-1:0] acc_word;
    logic [LaneBits:0]      count;
  } slot_t;

  slot_t issue, execute_q, leave, late_q, write_q;
  logic executing_q, leaving, ending_late_q, writing_q;  // the slots that hold a word
  logic [RowBits-1:0] row_word;
  logic hazard, starved, blocked;
  logic [7:0] first_element;
  logic [5:0] partial_place;

  assign row_word = RowBits'(base_q >> LaneBits) + RowBits'(beat);

  // Element i of an instruction belongs to partial result i mod 16.
  assign first_element = 8'(beat_q) << LaneBits;
  assign partial_place = {instruction.dst[1:0], first_element[3:0]};

  always_comb begin
    issue            = '0;
    issue.opcode     = instruction.opcode;
    issue.dst        = instruction.dst;
    issue.address    = is_row(instruction.dst) ? row_word : RowBits'(beat);
    issue.write      = (!fold || last) && !accumulate && !aset;
    issue.accumulate = accumulate;
    issue.fold       = fold;
    issue.first      = beat_q == '0;
    issue.special    = special;
    issue.acc_word   = AccWordBits'(partial_place >> LaneBits);
    issue.count      = count;
  end

  // A word in flight writes `code`, where the current word reads it.
  function automatic logic meets(input logic [5:0] code, input logic valid, input logic [5:0] dst,
                                 input logic [RowBits-1:0] address);
    meets = valid && dst == code
            && (is_scalar(code) || is_acc(code) || address == (is_row(code) ? row_word : RowBits'(beat)));
  endfunction
  function automatic logic pending(input logic [5:0] code);
    pending = meets(code, executing_q, execute_q.dst, execute_q.address)
              || (Pipeline && meets(code, leaving, leave.dst, leave.address))
              || meets(code, ending_late_q, late_q.dst, late_q.address)
              || meets(code, writing_q && !write_q.write, write_q.dst, write_q.address);
  endfunction
  // The operand is in the write stage and is taken from there.
  function automatic logic forwarded(input logic [5:0] code);
    forwarded = meets(code, writing_q && write_q.write, write_q.dst, write_q.address);
  endfunction

  // With Pipeline a word that adds to the result of the one at execute issues a clock later.
  logic adds_on;
  assign adds_on = Pipeline && executing_q
                   && ((accumulate && (execute_q.accumulate || execute_q.opcode == VopAset)
                        && execute_q.acc_word == issue.acc_word)
                       || (fold && beat_q != '0));

  assign hazard = (uses_a && pending(instruction.a)) || (uses_b && pending(instruction.b))
                  || (uses_c && pending(instruction.c)) || adds_on;

  // What leaves here is written in the next clock, if it need not be late.
  if (Pipeline) begin : g_finish
    slot_t finish_q;
    logic finishing_q;
    always_ff @(posedge clk_i) begin
      if (!rst_ni || abort_i) finishing_q <= 1'b0;
      else finishing_q <= executing_q;
      if (executing_q) finish_q <= execute_q;
    end
    assign leave   = finish_q;
    assign leaving = finishing_q;
    `NPU_ASSERT(SumThere, !(executing_q && execute_q.accumulate && finishing_q && finish_q.acc_word == execute_q.acc_word
                            && (finish_q.accumulate || finish_q.opcode == VopAset)),
                "an accumulation came before the last one into the same word was done")
    `NPU_ASSERT(StepThere, !(executing_q && execute_q.fold && !execute_q.first && finishing_q),
                "a step of a fold came before the last one was done")
  end else begin : g_no_finish
    assign leave   = execute_q;
    assign leaving = executing_q;
  end

  always_comb begin
    starved = 1'b0;
    for (int unsigned s = 0; s < Inputs; s++) begin
      if (reads(OperandStream + 6'(s)) && !window_ready_i[s]) starved = 1'b1;
    end
  end
  assign blocked = writes_out && !out_room_i;

  logic may_go;  // only an instruction that breaks no rule waits: the word of another one may be anything
  assign may_go        = valid_q && state_q == StateRun && !control && !fault_o;
  assign go            = may_go && !hazard && !starved && !blocked;
  assign lanes_empty   = !executing_q && !leaving && !ending_late_q && !writing_q;
  assign stall_read_o  = may_go && starved;
  assign stall_write_o = may_go && !starved && blocked;

  logic turns_late;
  assign turns_late = leaving && (leave.special || ending_late_q);

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      executing_q  <= 1'b0;
      ending_late_q <= 1'b0;
      writing_q    <= 1'b0;
    end else begin
      executing_q  <= go;
      ending_late_q <= turns_late;
      writing_q    <= ending_late_q || (leaving && !turns_late);
    end
    if (go) execute_q <= issue;
    if (turns_late) late_q <= leave;
    if (ending_late_q) write_q <= late_q;
    else if (leaving) write_q <= leave;
  end

  // ---- registers ----------------------------------------------------------------------------
  // A register that has not been written in this row reads as zero.
  word_t vectors_q [16*Beats];
  word_t row0_q [RowWords];
  word_t row1_q [RowWords];
  logic [16*Beats-1:0] vectors_set_q;
  logic [RowWords-1:0] row0_set_q, row1_set_q;
  logic [31:0] scalars_q [16];
  logic [31:0] partial;
  word_t a_q, b_q, c_q, iota, result, merged;

  for (genvar l = 0; l < Lanes; l++) begin : g_iota
    assign iota[l*32+:32] = base_q + (32'(beat) << LaneBits) + 32'(l);
  end

  function automatic word_t operand(input logic [5:0] code);
    operand = '0;
    if (forwarded(code)) begin
      operand = is_scalar(code) ? {Lanes{result[31:0]}} : merged;
    end else if (is_vector(code)) begin
      if (vectors_set_q[{code[3:0], beat}]) operand = vectors_q[{code[3:0], beat}];
    end else if (is_scalar(code)) begin
      operand = {Lanes{scalars_q[code[3:0]]}};
    end else if (is_stream(code)) begin
      operand = window_word_i[code[1:0]];
    end else begin
      unique case (code)
        OperandRow0:   if (row0_set_q[row_word]) operand = row0_q[row_word];
        OperandRow1:   if (row1_set_q[row_word]) operand = row1_q[row_word];
        OperandImm:    operand = {Lanes{instruction.imm}};
        OperandIota:   operand = iota;
        OperandRowNo:  operand = {Lanes{32'(row_q)}};
        OperandBatch0: operand = {Lanes{32'(batch0_q)}};
        OperandBatch1: operand = {Lanes{32'(batch1_q)}};
        OperandCols:   operand = {Lanes{command_i.cols}};
        OperandRep:    operand = {Lanes{rep_q}};
        default:       operand = is_acc(code) ? {Lanes{partial}} : {Lanes{command_i.params[code[2:0]]}};
      endcase
    end
  endfunction

  // Swaps neighbouring elements; the element behind the last one is zero.
  function automatic word_t swapped(input word_t value);
    for (int unsigned l = 0; l < Lanes; l++)
      swapped[l*32+:32] = ((l ^ 1) < 32'(count)) ? value[(l^1)*32+:32] : 32'd0;
  endfunction

  always_ff @(posedge clk_i) begin
    // Every instruction with words reads a.
    if (go) a_q <= (opcode == VopSwap) ? swapped(operand(instruction.a)) : operand(instruction.a);
    if (go && uses_b) b_q <= operand(instruction.b);
    if (go && uses_c) c_q <= operand(instruction.c);
  end

  // ---- execute ------------------------------------------------------------------------------
  vector_alu #(
      .Lanes   (Lanes),
      .Pipeline(Pipeline)
  ) u_alu (
      .clk_i,
      .clear_i     (row_begins),
      .issue_i     (go),
      .opcode_i    (issue.opcode),
      .accumulate_i(issue.accumulate),
      .fold_i      (issue.fold),
      .fold_first_i(issue.first),
      .special_i   (issue.special),
      .word_i      (issue.acc_word),
      .count_i     (issue.count),
      .execute_i   (executing_q),
      .a_i         (a_q),
      .b_i         (b_q),
      .c_i         (c_q),
      .result_o    (result),
      .partial_i   ({instruction.a[1:0], 4'(beat_q)}),
      .partial_o   (partial)
  );

  // ---- write --------------------------------------------------------------------------------
  logic store;
  word_t mask, old;
  assign store = writing_q && write_q.write;
  assign mask  = ~({WordBits{1'b1}} << {write_q.count, 5'd0});

  always_comb begin
    old    = '0;
    merged = result;
    if (store && write_q.count != (LaneBits + 1)'(Lanes)) begin
      if (is_vector(write_q.dst)) begin
        if (vectors_set_q[{write_q.dst[3:0], BeatBits'(write_q.address)}])
          old = vectors_q[{write_q.dst[3:0], BeatBits'(write_q.address)}];
      end else if (write_q.dst == OperandRow0) begin
        if (row0_set_q[write_q.address]) old = row0_q[write_q.address];
      end else if (write_q.dst == OperandRow1) begin
        if (row1_set_q[write_q.address]) old = row1_q[write_q.address];
      end
      merged = (result & mask) | (old & ~mask);
    end
  end

  always_ff @(posedge clk_i) begin
    if (store && is_vector(write_q.dst)) vectors_q[{write_q.dst[3:0], BeatBits'(write_q.address)}] <= merged;
  end
  always_ff @(posedge clk_i) begin
    if (store && write_q.dst == OperandRow0) row0_q[write_q.address] <= merged;
  end
  always_ff @(posedge clk_i) begin
    if (store && write_q.dst == OperandRow1) row1_q[write_q.address] <= merged;
  end

  always_ff @(posedge clk_i) begin
    if (row_begins) begin
      vectors_set_q <= '0;
      row0_set_q    <= '0;
      row1_set_q    <= '0;
    end else if (store) begin
      if (is_vector(write_q.dst)) vectors_set_q[{write_q.dst[3:0], BeatBits'(write_q.address)}] <= 1'b1;
      if (write_q.dst == OperandRow0) row0_set_q[write_q.address] <= 1'b1;
      if (write_q.dst == OperandRow1) row1_set_q[write_q.address] <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (row_begins) for (int unsigned i = 0; i < 16; i++) scalars_q[i] <= '0;
    else if (store && is_scalar(write_q.dst)) scalars_q[write_q.dst[3:0]] <= result[31:0];
  end

  assign out_valid_o = store && write_q.dst == OperandOut;
  assign out_word_o  = result;
  assign out_count_o = write_q.count;

  for (genvar s = 0; s < Streams; s++) begin : g_unused
    logic unused_stream;
    assign unused_stream = &{1'b0, command_i.streams[s].addr, command_i.streams[s].row_stride,
                             command_i.streams[s].batch0_stride, command_i.streams[s].batch1_stride,
                             command_i.streams[s].seg_stride, command_i.streams[s].seg_bytes,
                             command_i.streams[s].seg_len, command_i.streams[s].segs,
                             command_i.streams[s].row_granules, command_i.streams[s].passes,
                             command_i.streams[s].size, command_i.streams[s].bcast};
    if (s == Output) begin : g_output
      logic unused_output;
      assign unused_output = &{1'b0, command_i.streams[s].enable};
    end else begin : g_input
      logic unused_input;
      assign unused_input = &{1'b0, command_i.streams[s].length, command_i.streams[s].segments};
    end
  end
  logic unused;
  assign unused = &{1'b0, command_i.kind, command_i.table_rows, write_q.opcode, write_q.accumulate, write_q.fold, write_q.first,
                    write_q.acc_word,
                    write_q.special, late_q.special, first_element[7:4]};

  if ((VectorLength & (VectorLength - 1)) != 0 || VectorLength < Partials || VectorLength < 2 * Lanes) begin : g_bad_length
    $fatal(1, "vector_core: VectorLength must be a power of two of at least 16 and twice the lanes");
  end
  if (RowElements < VectorLength) begin : g_bad_row
    $fatal(1, "vector_core: RowElements must be at least VectorLength");
  end

  `NPU_ASSERT(StartsEmpty, !(start_i && (busy_o || !lanes_empty)),
              "a command was started before the last one was done, or before an abort emptied the lanes")
  `NPU_ASSERT(LateTogether, !(leaving && u_alu.late != ending_late_q),
              "the lanes and what follows them disagree whether the last word came late")
  `NPU_ASSERT(PassesAlone, !(u_alu.special_late && u_alu.passing_q),
              "a special function and another word end in the same clock")
  `NPU_ASSERT(OutComplete, !(row_end_o && out_segment_q != command_i.streams[Output].segments),
              "a row ended with an incomplete output")
endmodule
