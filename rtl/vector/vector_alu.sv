// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// The arithmetic of all lanes, an instruction word a clock, and the
// accumulators. Each of an accumulator's sixteen partial results belongs to one
// lane. What a word does is known a clock before its operands: its accumulator is
// read in that clock.
//
// One fused multiply-add a lane computes all sums and products from selected
// operands: a + b is a * 1 + b, a * b is a * b + -0.
//
// A special function takes a clock more than any other word. A word right behind it
// takes a clock more too, and so on, up to a clock in which no word ends: results come
// in the order of their words. Accumulators and folds do not wait for that clock.
//
// With Pipeline a word takes two clocks, a special function three. The second clock of
// a multiply-add normalizes and rounds it. An accumulation into the word of the one
// before, or of an ASET, must begin two clocks behind it, and so must a step of a fold
// behind the last one.
// Reset and clear state: all accumulators zero.
module vector_alu
  import fp32_pkg::*;
  import special_function_pkg::*;
  import vector_alu_pkg::*;
  import vector_pkg::*;
#(
    parameter int unsigned Lanes    = 16,             // a power of two from 2 to 16
    parameter bit          Pipeline = 1'b0,           // a word takes a clock more
    parameter int unsigned LaneBits = $clog2(Lanes),  // of a lane's number; derived, not to be set
    parameter int unsigned WordBits = 6 - LaneBits    // of an accumulator word's number; derived, not to be set
) (
    input  logic                   clk_i,
    input  logic                   clear_i,       // zero the accumulators

    input  logic                   issue_i,       // a word comes, of which this is known:
    input  logic [6:0]             opcode_i,
    input  logic                   accumulate_i,  // accumulator word = op(accumulator word, a)
    input  logic                   fold_i,        // lane 0: result = op(last result, a)
    input  logic                   fold_first_i,  // with fold_i: result = a
    input  logic                   special_i,     // the opcode is a special function
    input  logic [WordBits-1:0]    word_i,        // accumulator word
    input  logic [LaneBits:0]      count_i,       // lanes at work; the others keep the accumulator

    input  logic                   execute_i,     // one clock after issue_i, unless the word is dropped; its operands:
    input  logic [Lanes*32-1:0]    a_i,
    input  logic [Lanes*32-1:0]    b_i,
    input  logic [Lanes*32-1:0]    c_i,
    output logic [Lanes*32-1:0]    result_o,      // behind the last clock of a word, until the next one ends

    input  logic [5:0]             partial_i,     // {accumulator, partial result} to read
    output logic [31:0]            partial_o
);
  localparam int unsigned Words    = Accumulators * Partials / Lanes;

  localparam fp32_t One       = 32'h3F80_0000;
  localparam fp32_t MinusZero = 32'h8000_0000;

  typedef logic [31:0] vector_t [Lanes];

  // ---- maps over the lanes ----------------------------------------------------------------
  function automatic vector_t map_fma(input vector_t a, input vector_t b, input vector_t c, input logic scaled,
                                      input vector_t power);
    for (int unsigned l = 0; l < Lanes; l++) map_fma[l] = alu_fma(a[l], b[l], c[l], scaled, power[l]);
  endfunction
  function automatic vector_t map_min(input vector_t a, input vector_t b);
    for (int unsigned l = 0; l < Lanes; l++) map_min[l] = alu_min(a[l], b[l]);
  endfunction
  function automatic vector_t map_max(input vector_t a, input vector_t b);
    for (int unsigned l = 0; l < Lanes; l++) map_max[l] = alu_max(a[l], b[l]);
  endfunction
  function automatic vector_t map_compare(input vector_t a, input vector_t b, input compare_t kind);
    for (int unsigned l = 0; l < Lanes; l++) map_compare[l] = alu_compare(a[l], b[l], kind);
  endfunction
  function automatic vector_t map_select(input vector_t a, input vector_t b, input vector_t c);
    for (int unsigned l = 0; l < Lanes; l++) map_select[l] = (a[l] != 0) ? b[l] : c[l];
  endfunction
  function automatic vector_t map_class(input vector_t a, input vector_t b);
    for (int unsigned l = 0; l < Lanes; l++) map_class[l] = alu_class(a[l], b[l]);
  endfunction
  function automatic vector_t map_getmant(input vector_t a);
    for (int unsigned l = 0; l < Lanes; l++) map_getmant[l] = alu_getmant(a[l]);
  endfunction
  function automatic vector_t map_getexp(input vector_t a);
    for (int unsigned l = 0; l < Lanes; l++) map_getexp[l] = alu_getexp(a[l]);
  endfunction
  function automatic vector_t map_f2i(input vector_t a, input logic truncate);
    for (int unsigned l = 0; l < Lanes; l++) map_f2i[l] = alu_f2i(a[l], truncate);
  endfunction
  function automatic vector_t map_i2f(input vector_t a);
    for (int unsigned l = 0; l < Lanes; l++) map_i2f[l] = alu_i2f(a[l]);
  endfunction
  function automatic vector_t map_f2h(input vector_t a);
    for (int unsigned l = 0; l < Lanes; l++) map_f2h[l] = alu_f2h(a[l]);
  endfunction
  function automatic vector_t map_h2f(input vector_t a);
    for (int unsigned l = 0; l < Lanes; l++) map_h2f[l] = alu_h2f(a[l]);
  endfunction
  function automatic vector_t map_f2b(input vector_t a);
    for (int unsigned l = 0; l < Lanes; l++) map_f2b[l] = alu_f2b(a[l]);
  endfunction
  function automatic vector_t map_integer(input vector_t a, input vector_t b, input integer_op_t operation);
    for (int unsigned l = 0; l < Lanes; l++) map_integer[l] = alu_integer(a[l], b[l], operation);
  endfunction

  // ---- the word at execute ------------------------------------------------------------------
  vop_e opcode;
  logic accumulates_q, folds_q, begins_fold_q, special_q;
  logic [6:0] opcode_q;
  logic [WordBits-1:0] word_q;
  logic [31:0] at_work_q;
  assign opcode = vop_e'(opcode_q);

  always_ff @(posedge clk_i) begin
    if (issue_i) begin
      opcode_q      <= opcode_i;
      accumulates_q <= accumulate_i;
      folds_q       <= fold_i;
      begins_fold_q <= fold_i && fold_first_i;
      special_q     <= special_i;
      word_q        <= word_i;
      at_work_q     <= accumulate_i ? 32'(count_i) : 32'(Lanes);
    end
  end

  // ---- operands ---------------------------------------------------------------------------
  vector_t lanes_a, lanes_b, lanes_c, accumulator, second;
  for (genvar l = 0; l < Lanes; l++) begin : g_lanes
    assign lanes_a[l] = a_i[l*32+:32];
    assign lanes_b[l] = b_i[l*32+:32];
    assign lanes_c[l] = c_i[l*32+:32];
  end

  logic [Lanes*32-1:0] partials_q [Words];
  logic [Lanes*32-1:0] looked_at, last_result, old_q;
  logic forward_q;  // the last result is not stored in word forward_word_q yet
  logic leaves;     // the word that ends in this clock goes to accumulator word leaving_word
  logic from_last_q;  // the word at execute goes on with the last result
  logic [WordBits-1:0] forward_word_q, leaving_word;

  assign looked_at = partials_q[partial_i[5:LaneBits]];
  assign partial_o = 32'(looked_at >> {partial_i[LaneBits-1:0], 5'd0});

  always_ff @(posedge clk_i) begin
    if (issue_i) from_last_q <= fold_i || (leaves && leaving_word == word_i && !clear_i);
    if (issue_i && accumulate_i) begin
      if (clear_i) old_q <= '0;
      else old_q <= (forward_q && forward_word_q == word_i) ? last_result : partials_q[word_i];
    end
  end

  // An accumulation with a two-operand opcode computes op(a, accumulator), a fold op(a, last result): all these
  // opcodes are commutative.
  for (genvar l = 0; l < Lanes; l++) begin : g_operands
    assign accumulator[l] = from_last_q ? last_result[l*32+:32] : old_q[l*32+:32];
    assign second[l]      = (accumulates_q || folds_q) ? accumulator[l] : lanes_b[l];
  end

  compare_t compare;
  integer_op_t integer_op;
  special_t special;
  always_comb begin
    unique case (opcode)
      VopCmpLt:  compare = CompareLess;
      VopCmpLe:  compare = CompareLessEqual;
      VopCmpUn:  compare = CompareUnordered;
      VopIcmpEq: compare = CompareIntEqual;
      VopIcmpLt: compare = CompareIntLess;
      default:   compare = CompareEqual;
    endcase
    unique case (opcode)
      VopIsub:              integer_op = IntSub;
      VopAnd:               integer_op = IntAnd;
      VopOr:                integer_op = IntOr;
      VopXor:               integer_op = IntXor;
      VopShl:               integer_op = IntShl;
      VopShr:               integer_op = IntShr;
      VopSar:               integer_op = IntSar;
      VopImin, VopFoldImin: integer_op = IntMin;
      VopImax, VopFoldImax: integer_op = IntMax;
      default:              integer_op = IntAdd;
    endcase
    unique case (opcode)
      VopRcp:   special = SpecialRcp;
      VopRsqrt: special = SpecialRsqrt;
      default:  special = SpecialExp;
    endcase
  end

  // ---- operands of the multiply-add ---------------------------------------------------------
  typedef enum logic [1:0] {
    AddC,
    AddB,
    AddAccumulator,
    AddNothing
  } addend_e;

  vector_t factor_a, factor_b, addend;
  vop_e coming;
  addend_e addend_q;
  logic scales_q, multiplies_q, flip_a_q, flip_addend_q;
  assign coming = vop_e'(opcode_i);

  always_ff @(posedge clk_i) begin
    if (issue_i) begin
      scales_q      <= coming == VopScale;
      multiplies_q  <= coming == VopMul || coming == VopFma || coming == VopFnma || coming == VopFms;
      flip_a_q      <= coming == VopFnma;
      flip_addend_q <= coming == VopSub || coming == VopFms;
      if (coming == VopMul || coming == VopScale) addend_q <= AddNothing;
      else if (accumulate_i || fold_i) addend_q <= AddAccumulator;
      else addend_q <= (coming == VopAdd || coming == VopSub) ? AddB : AddC;
    end
  end

  for (genvar l = 0; l < Lanes; l++) begin : g_multiply_add
    assign factor_a[l] = lanes_a[l] ^ (flip_a_q ? SignBit : 32'd0);
    assign factor_b[l] = multiplies_q ? lanes_b[l] : One;
    always_comb begin
      unique case (addend_q)
        AddC:           addend[l] = lanes_c[l];
        AddB:           addend[l] = lanes_b[l];
        AddAccumulator: addend[l] = accumulator[l];
        AddNothing:     addend[l] = MinusZero;
      endcase
      addend[l] = addend[l] ^ (flip_addend_q ? SignBit : 32'd0);
    end
  end

  // Lanes not at work keep the accumulator.
  function automatic vector_t keep(input vector_t value, input vector_t old, input logic [31:0] from);
    for (int unsigned l = 0; l < Lanes; l++) keep[l] = (l < from) ? value[l] : old[l];
  endfunction

  // ---- special functions ----------------------------------------------------------------------
  logic ends;               // of another word; with late, it takes the next clock too
  logic special_late, late;  // a special function is in its last clock, or any word in that additional one
  logic passing_q;           // another word is
  logic from_late_q;         // the last result came late
  logic [Lanes*32-1:0] late_result;
  assign late = special_late || passing_q;

  special_unit #(
      .Lanes   (Lanes),
      .Pipeline(Pipeline)
  ) u_special (
      .clk_i,
      .begin_i  (execute_i && special_q),
      .kind_i   (special),
      .a_i,
      .late_o   (special_late),
      .pass_i   (passing_q),
      .passing_i(last_result),
      .result_o (late_result)
  );

  always_ff @(posedge clk_i) begin
    passing_q <= ends && late;
    if (late) from_late_q <= 1'b1;
    else if (ends) from_late_q <= 1'b0;
  end

  // ---- the first clock, without Pipeline the only one ----------------------------------------
  vector_t first_q;
  always_ff @(posedge clk_i) begin
    if (execute_i) begin
      if (begins_fold_q) first_q <= lanes_a;
      else
        unique case (opcode)
          VopAdd, VopFoldAdd, VopSub, VopMul, VopScale, VopFma, VopFnma, VopFms:
          if (!Pipeline) first_q <= keep(map_fma(factor_a, factor_b, addend, scales_q, lanes_b), accumulator, at_work_q);
          VopMin, VopFoldMin: first_q <= keep(map_min(lanes_a, second), accumulator, at_work_q);
          VopMax, VopFoldMax: first_q <= keep(map_max(lanes_a, second), accumulator, at_work_q);
          VopCmpEq, VopCmpLt, VopCmpLe, VopCmpUn, VopIcmpEq, VopIcmpLt: first_q <= map_compare(lanes_a, lanes_b, compare);
          VopSel: first_q <= map_select(lanes_a, lanes_b, lanes_c);
          VopClass: first_q <= map_class(lanes_a, lanes_b);
          VopGetMant: first_q <= map_getmant(lanes_a);
          VopGetExp: first_q <= map_getexp(lanes_a);
          VopF2i, VopF2iz: first_q <= map_f2i(lanes_a, opcode == VopF2iz);
          VopI2f: first_q <= map_i2f(lanes_a);
          VopF2h: first_q <= map_f2h(lanes_a);
          VopH2f: first_q <= map_h2f(lanes_a);
          VopF2b: first_q <= map_f2b(lanes_a);
          VopExp, VopRcp, VopRsqrt: ;  // special_unit
          VopMov, VopSwap, VopAset: first_q <= lanes_a;
          default: first_q <= keep(map_integer(lanes_a, second, integer_op), accumulator, at_work_q);
        endcase
    end
  end

  // ---- accumulators --------------------------------------------------------------------------
  logic stores;  // the word at execute goes to an accumulator
  assign stores = execute_i && (accumulates_q || opcode == VopAset);

  always_ff @(posedge clk_i) begin
    if (clear_i) begin
      forward_q <= 1'b0;
    end else begin
      forward_q      <= leaves;
      forward_word_q <= leaving_word;
    end
  end

  always_ff @(posedge clk_i) begin
    if (clear_i) for (int unsigned w = 0; w < Words; w++) partials_q[w] <= '0;
    else if (forward_q) partials_q[forward_word_q] <= last_result;
  end

  // ---- the second clock ------------------------------------------------------------------------
  if (Pipeline) begin : g_pipeline
    typedef logic [63:0] wide_t [Lanes];
    typedef logic flags_t [Lanes];

    logic finishing_q, storing_q;  // a word other than a special function is in its second clock
    logic adds_q, added_q;         // the word in its first clock is a multiply-add; that in its second one
    logic [WordBits-1:0] storing_word_q;
    logic [LaneBits:0] added_work_q;
    vector_t kept_q, result_q;
    wide_t sum_q;
    vector_t exp_sum_q, sign_q;
    flags_t infinite_q, nan_q;

    function automatic void fma_begin(input vector_t a, input vector_t b, input vector_t c, input logic scaled,
                                      input vector_t power, output wide_t sum, output vector_t exp_sum, output vector_t sign,
                                      output flags_t infinite, output flags_t nan);
      for (int unsigned l = 0; l < Lanes; l++)
        alu_fma_begin(a[l], b[l], c[l], scaled, power[l], sum[l], exp_sum[l], sign[l], infinite[l], nan[l]);
    endfunction
    function automatic vector_t fma_end(input wide_t sum, input vector_t exp_sum, input vector_t sign,
                                        input flags_t infinite, input flags_t nan);
      for (int unsigned l = 0; l < Lanes; l++)
        fma_end[l] = alu_fma_end(sum[l], exp_sum[l], sign[l], infinite[l], nan[l]);
    endfunction

    always_ff @(posedge clk_i) begin
      if (issue_i) begin
        unique case (coming)
          VopAdd, VopFoldAdd, VopSub, VopMul, VopScale, VopFma, VopFnma, VopFms: adds_q <= !(fold_i && fold_first_i);
          default: adds_q <= 1'b0;
        endcase
      end
    end
    always_ff @(posedge clk_i) begin
      if (execute_i && adds_q) begin
        wide_t sum;
        vector_t exp_sum, sign;
        flags_t infinite, nan;
        fma_begin(factor_a, factor_b, addend, scales_q, lanes_b, sum, exp_sum, sign, infinite, nan);
        sum_q      <= sum;
        exp_sum_q  <= exp_sum;
        sign_q     <= sign;
        infinite_q <= infinite;
        nan_q      <= nan;
        if (accumulates_q) kept_q <= accumulator;
      end
    end

    always_ff @(posedge clk_i) begin
      finishing_q <= execute_i && !special_q;
      if (execute_i) begin
        added_q        <= adds_q;
        added_work_q   <= (LaneBits + 1)'(at_work_q);
        storing_word_q <= word_q;
      end
      storing_q <= stores && !clear_i;
    end

    always_ff @(posedge clk_i) begin
      if (finishing_q)
        result_q <= added_q ? keep(fma_end(sum_q, exp_sum_q, sign_q, infinite_q, nan_q), kept_q, 32'(added_work_q)) : first_q;
    end

    for (genvar l = 0; l < Lanes; l++) begin : g_result
      assign last_result[l*32+:32] = result_q[l];
    end
    assign ends         = finishing_q;
    assign leaves       = storing_q;
    assign leaving_word = storing_word_q;
  end else begin : g_one_clock
    for (genvar l = 0; l < Lanes; l++) begin : g_result
      assign last_result[l*32+:32] = first_q[l];
    end
    assign ends         = execute_i && !special_q;
    assign leaves       = stores;
    assign leaving_word = word_q;
  end

  assign result_o = from_late_q ? late_result : last_result;
endmodule
