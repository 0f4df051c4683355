// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// The arithmetic of all lanes, an instruction word a clock, and the
// accumulators. Each of an accumulator's sixteen partial results belongs to one
// lane.
//
// One fused multiply-add a lane computes all sums and products from selected
// operands: a + b is a * 1 + b, a * b is a * b + -0. The special functions share
// one interpolation a lane.
//
// With Pipeline every word takes two clocks, and one may begin in each. The second
// clock normalizes and rounds a multiply-add, and ends a special function. An
// accumulation into the word of the one before, or of an ASET, must begin two clocks
// behind it, and so must a step of a fold behind the last one.
// Reset and clear state: all accumulators zero.
module vector_alu
  import fp32_pkg::*;
  import special_function_pkg::*;
  import vector_alu_pkg::*;
  import vector_pkg::*;
#(
    parameter int unsigned Lanes    = 16,             // a power of two from 2 to 16
    parameter bit          Pipeline = 1'b0,           // a word takes two clocks
    parameter int unsigned LaneBits = $clog2(Lanes),  // of a lane's number; derived, not to be set
    parameter int unsigned WordBits = 6 - LaneBits    // of an accumulator word's number; derived, not to be set
) (
    input  logic                   clk_i,
    input  logic                   clear_i,       // zero the accumulators

    input  logic                   execute_i,
    input  logic [6:0]             opcode_i,
    input  logic                   accumulate_i,  // accumulator word = op(accumulator word, a)
    input  logic                   fold_i,        // lane 0: result = op(last result, a)
    input  logic                   fold_first_i,  // with fold_i: result = a
    input  logic [WordBits-1:0]    word_i,        // accumulator word
    input  logic [LaneBits:0]      count_i,       // lanes at work; the others keep the accumulator
    input  logic [Lanes*32-1:0]    a_i,
    input  logic [Lanes*32-1:0]    b_i,
    input  logic [Lanes*32-1:0]    c_i,
    output logic [Lanes*32-1:0]    result_o,      // one clock after execute_i, with Pipeline two

    input  logic [5:0]             partial_i,     // {accumulator, partial result} to read
    output logic [31:0]            partial_o
);
  localparam int unsigned Words    = Accumulators * Partials / Lanes;

  localparam fp32_t One       = 32'h3F80_0000;
  localparam fp32_t MinusZero = 32'h8000_0000;

  typedef logic [31:0] vector_t [Lanes];

  // ---- maps over the lanes ----------------------------------------------------------------
  function automatic vector_t map_fma(input vector_t a, input vector_t b, input vector_t c, input vector_t power);
    for (int unsigned l = 0; l < Lanes; l++) map_fma[l] = alu_fma(a[l], b[l], c[l], power[l]);
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
  function automatic vector_t map_special(input vector_t a, input special_t kind);
    for (int unsigned l = 0; l < Lanes; l++) map_special[l] = alu_special(a[l], kind);
  endfunction
  function automatic vector_t map_integer(input vector_t a, input vector_t b, input integer_op_t operation);
    for (int unsigned l = 0; l < Lanes; l++) map_integer[l] = alu_integer(a[l], b[l], operation);
  endfunction

  vop_e opcode;
  assign opcode = vop_e'(opcode_i);

  // ---- operands ---------------------------------------------------------------------------
  vector_t lanes_a, lanes_b, lanes_c, accumulator, left, right;
  for (genvar l = 0; l < Lanes; l++) begin : g_lanes
    assign lanes_a[l] = a_i[l*32+:32];
    assign lanes_b[l] = b_i[l*32+:32];
    assign lanes_c[l] = c_i[l*32+:32];
  end

  logic [Lanes*32-1:0] partials_q [Words];
  logic [Lanes*32-1:0] stored, looked_at;
  logic forward_q;  // the result is not stored in word forward_word_q yet
  logic [WordBits-1:0] forward_word_q;

  assign stored    = partials_q[word_i];
  assign looked_at = partials_q[partial_i[5:LaneBits]];
  assign partial_o = 32'(looked_at >> {partial_i[LaneBits-1:0], 5'd0});
  for (genvar l = 0; l < Lanes; l++) begin : g_accumulator
    assign accumulator[l] = (fold_i || (forward_q && forward_word_q == word_i)) ? result_o[l*32+:32] : stored[l*32+:32];
  end

  // An accumulation with a two-operand opcode computes op(accumulator, a).
  logic with_accumulator;
  assign with_accumulator = accumulate_i || fold_i;
  for (genvar l = 0; l < Lanes; l++) begin : g_operands
    assign left[l]  = with_accumulator ? accumulator[l] : lanes_a[l];
    assign right[l] = with_accumulator ? lanes_a[l] : lanes_b[l];
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
  vector_t factor_a, factor_b, addend, exponent;
  logic sums, scales, multiplies;
  fp32_t sign_a, sign_c;  // masks of the sign bit
  assign sums       = opcode == VopAdd || opcode == VopFoldAdd;
  assign scales     = opcode == VopScale;
  assign multiplies = opcode == VopMul || opcode == VopFma || opcode == VopFnma || opcode == VopFms;
  assign sign_a     = (opcode == VopFnma) ? SignBit : '0;
  assign sign_c     = (opcode == VopSub || opcode == VopFms) ? SignBit : '0;
  for (genvar l = 0; l < Lanes; l++) begin : g_multiply_add
    assign factor_a[l] = (sums ? left[l] : lanes_a[l]) ^ sign_a;
    assign factor_b[l] = multiplies ? lanes_b[l] : One;
    assign exponent[l] = scales ? lanes_b[l] : '0;
    always_comb begin
      addend[l] = accumulate_i ? accumulator[l] : lanes_c[l];
      if (sums) addend[l] = right[l];
      else if (opcode == VopSub) addend[l] = lanes_b[l];
      addend[l] = addend[l] ^ sign_c;
      if (scales || opcode == VopMul) addend[l] = MinusZero;
    end
  end

  // Lanes not at work keep the accumulator.
  function automatic vector_t keep(input vector_t value, input vector_t old, input logic [31:0] from);
    for (int unsigned l = 0; l < Lanes; l++) keep[l] = (l < from) ? value[l] : old[l];
  endfunction

  logic [31:0] at_work;
  assign at_work = accumulate_i ? 32'(count_i) : 32'(Lanes);

  // ---- the first clock, without Pipeline the only one ----------------------------------------
  vector_t first_q;
  always_ff @(posedge clk_i) begin
    if (execute_i) begin
      if (fold_i && fold_first_i) first_q <= lanes_a;
      else
        unique case (opcode)
          VopAdd, VopFoldAdd, VopSub, VopMul, VopScale, VopFma, VopFnma, VopFms:
          if (!Pipeline) first_q <= keep(map_fma(factor_a, factor_b, addend, exponent), accumulator, at_work);
          VopMin, VopFoldMin: first_q <= keep(map_min(left, right), accumulator, at_work);
          VopMax, VopFoldMax: first_q <= keep(map_max(left, right), accumulator, at_work);
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
          VopExp, VopRcp, VopRsqrt: if (!Pipeline) first_q <= map_special(lanes_a, special);
          VopMov, VopSwap, VopAset: first_q <= lanes_a;
          default: first_q <= keep(map_integer(left, right, integer_op), accumulator, at_work);
        endcase
    end
  end

  // ---- accumulators --------------------------------------------------------------------------
  logic stores, leaves;  // the word at execute goes to an accumulator; so does the one that becomes the result
  logic [WordBits-1:0] leaving_word;
  assign stores = execute_i && (accumulate_i || opcode == VopAset);

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
    else if (forward_q) partials_q[forward_word_q] <= result_o;
  end

  // ---- the second clock ------------------------------------------------------------------------
  if (Pipeline) begin : g_pipeline
    typedef enum logic [1:0] {
      FinishOther,
      FinishSum,
      FinishSpecial
    } finish_t;
    typedef logic [63:0] wide_t [Lanes];
    typedef logic [7:0] segments_t [Lanes];
    typedef logic flags_t [Lanes];

    logic finishing_q, storing_q;
    finish_t finish, finish_q;
    logic [WordBits-1:0] storing_word_q;
    logic [LaneBits:0] at_work_q;
    vector_t kept_q, result_q;
    wide_t sum_q, begun_q, x_q;
    vector_t exp_sum_q, sign_q, exponent_q, known_q;
    segments_t segment_q;
    flags_t infinite_q, nan_q, special_q;

    function automatic void fma_begin(input vector_t a, input vector_t b, input vector_t c, input vector_t power,
                                      output wide_t sum, output vector_t exp_sum, output vector_t sign,
                                      output flags_t infinite, output flags_t nan);
      for (int unsigned l = 0; l < Lanes; l++)
        alu_fma_begin(a[l], b[l], c[l], power[l], sum[l], exp_sum[l], sign[l], infinite[l], nan[l]);
    endfunction
    function automatic vector_t fma_end(input wide_t sum, input vector_t exp_sum, input vector_t sign,
                                        input flags_t infinite, input flags_t nan);
      for (int unsigned l = 0; l < Lanes; l++)
        fma_end[l] = alu_fma_end(sum[l], exp_sum[l], sign[l], infinite[l], nan[l]);
    endfunction
    function automatic void special_begin(input vector_t a, input special_t kind, output wide_t begun,
                                          output segments_t segment, output wide_t x, output vector_t power,
                                          output flags_t is_known, output vector_t known);
      for (int unsigned l = 0; l < Lanes; l++)
        alu_special_begin(a[l], kind, begun[l], segment[l], x[l], power[l], is_known[l], known[l]);
    endfunction
    function automatic vector_t special_end(input wide_t begun, input segments_t segment, input wide_t x,
                                            input vector_t power, input flags_t is_known, input vector_t known);
      for (int unsigned l = 0; l < Lanes; l++)
        special_end[l] = alu_special_end(begun[l], segment[l], x[l], power[l], is_known[l], known[l]);
    endfunction

    always_comb begin
      finish = FinishOther;
      if (sums || scales || multiplies || opcode == VopSub) finish = FinishSum;
      if (opcode == VopExp || opcode == VopRcp || opcode == VopRsqrt) finish = FinishSpecial;
      if (fold_i && fold_first_i) finish = FinishOther;
    end

    always_ff @(posedge clk_i) begin
      if (execute_i && finish == FinishSum) begin
        wide_t sum;
        vector_t exp_sum, sign;
        flags_t infinite, nan;
        fma_begin(factor_a, factor_b, addend, exponent, sum, exp_sum, sign, infinite, nan);
        sum_q      <= sum;
        exp_sum_q  <= exp_sum;
        sign_q     <= sign;
        infinite_q <= infinite;
        nan_q      <= nan;
        if (accumulate_i) kept_q <= accumulator;
      end
      if (execute_i && finish == FinishSpecial) begin
        wide_t begun, x;
        segments_t segment;
        vector_t power, known;
        flags_t is_known;
        special_begin(lanes_a, special, begun, segment, x, power, is_known, known);
        begun_q    <= begun;
        segment_q  <= segment;
        x_q        <= x;
        exponent_q <= power;
        special_q  <= is_known;
        known_q    <= known;
      end
    end

    always_ff @(posedge clk_i) begin
      finishing_q <= execute_i;
      if (execute_i) begin
        finish_q       <= finish;
        at_work_q      <= (LaneBits + 1)'(at_work);
        storing_word_q <= word_i;
      end
      storing_q <= stores && !clear_i;
    end

    always_ff @(posedge clk_i) begin
      if (finishing_q)
        unique case (finish_q)
          FinishSum:
          result_q <= keep(fma_end(sum_q, exp_sum_q, sign_q, infinite_q, nan_q), kept_q, 32'(at_work_q));
          FinishSpecial: result_q <= special_end(begun_q, segment_q, x_q, exponent_q, special_q, known_q);
          default:       result_q <= first_q;
        endcase
    end

    for (genvar l = 0; l < Lanes; l++) begin : g_result
      assign result_o[l*32+:32] = result_q[l];
    end
    assign leaves       = storing_q;
    assign leaving_word = storing_word_q;
  end else begin : g_one_clock
    for (genvar l = 0; l < Lanes; l++) begin : g_result
      assign result_o[l*32+:32] = first_q[l];
    end
    assign leaves       = stores;
    assign leaving_word = word_i;
  end
endmodule
