// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// IEEE-754 binary32 arithmetic: round to nearest even, subnormals kept, every
// NaN result canonical (0x7FC00000).
//
// The functions have no branches: every step is a shift, a compare or a
// select, as in the hardware. A simulator can then evaluate a whole row of
// processing elements with vector instructions.
package fp32_pkg;

  typedef logic [31:0] fp32_t;

  localparam fp32_t CanonicalNan = 32'h7FC0_0000;
  localparam fp32_t PlusInfinity = 32'h7F80_0000;

  // a * b, not rounded yet: the result is word + round, and round is 0 or 1.
  function automatic void fp32_mul_begin(input fp32_t a, input fp32_t b, output fp32_t word, output logic [31:0] round);
    // Exponents carry this offset on top of the format's own, so that they
    // stay positive down to the product of two subnormals.
    localparam logic [31:0] Offset = 32'd192;
    logic [31:0] sign, abs_a, abs_b, exp_a, exp_b, sig_a, sig_b, exponent, top, sticky, shift, mantissa;
    logic [63:0] product;
    logic special, infinite, zero, nan;

    sign  = (a ^ b) & 32'h8000_0000;
    abs_a = a & 32'h7FFF_FFFF;
    abs_b = b & 32'h7FFF_FFFF;
    exp_a = abs_a >> 23;
    exp_b = abs_b >> 23;
    // A subnormal has the exponent of the smallest normal, and no hidden bit.
    sig_a = (a & 32'h007F_FFFF) | ((exp_a != 0) ? 32'h0080_0000 : 32'h0);
    sig_b = (b & 32'h007F_FFFF) | ((exp_b != 0) ? 32'h0080_0000 : 32'h0);
    exp_a = exp_a + ((exp_a == 0) ? 32'd1 : 32'd0);
    exp_b = exp_b + ((exp_b == 0) ? 32'd1 : 32'd0);

    product  = 64'(sig_a) * 64'(sig_b);
    exponent = exp_a + exp_b + (Offset - 32'd126);  // of bit 47

    // Normalize: the leading one moves to bit 47.
    shift    = (product[47:24] == 0) ? 32'd24 : 32'd0;
    product  = product << shift;
    exponent = exponent - shift;
    shift    = (product[47:36] == 0) ? 32'd12 : 32'd0;
    product  = product << shift;
    exponent = exponent - shift;
    shift    = (product[47:42] == 0) ? 32'd6 : 32'd0;
    product  = product << shift;
    exponent = exponent - shift;
    shift    = (product[47:45] == 0) ? 32'd3 : 32'd0;
    product  = product << shift;
    exponent = exponent - shift;
    shift    = (product[47:46] == 0) ? 32'd2 : ((product[47] == 0) ? 32'd1 : 32'd0);
    product  = product << shift;
    exponent = exponent - shift;

    // 24 bits to keep, a guard bit, one below it, the rest in a sticky bit.
    top    = 32'(product >> 22) & 32'h03FF_FFFF;
    sticky = (product[21:0] != 0) ? 32'd1 : 32'd0;
    // Below the normal range the significand moves right; 26 places or more
    // leave only the sticky bit.
    shift    = (exponent <= Offset) ? (Offset + 32'd1 - exponent) : 32'd0;
    shift    = (shift > 32'd26) ? 32'd26 : shift;
    sticky   = sticky | (((top & ((32'd1 << shift) - 32'd1)) != 0) ? 32'd1 : 32'd0);
    top      = top >> shift;
    mantissa = top >> 2;
    round    = (top >> 1) & (top | sticky | mantissa) & 32'd1;
    // The hidden bit, or a carry into it, adds 1 to the exponent. The greatest finite number rounds up to infinity.
    exponent = (exponent <= Offset) ? 32'd0 : (exponent - (Offset + 32'd1));
    word     = (exponent << 23) + mantissa;

    special  = (abs_a >= PlusInfinity) || (abs_b >= PlusInfinity);
    zero     = (abs_a == 0) || (abs_b == 0);
    nan      = (abs_a > PlusInfinity) || (abs_b > PlusInfinity) || (special && zero);
    infinite = special || word >= PlusInfinity;
    word     = infinite ? PlusInfinity : word;
    word     = zero ? 32'd0 : word;
    word     = nan ? CanonicalNan : (word | sign);
    round    = (infinite || zero) ? 32'd0 : round;
  endfunction

  // a * b, rounded once.
  function automatic fp32_t fp32_mul(input fp32_t a, input fp32_t b);
    fp32_t word, round;
    fp32_mul_begin(a, b, word, round);
    return word + round;
  endfunction

  // a + b, added but neither normalized nor rounded: a significand with three places below float32's, and the exponent
  // of its bit 26. The sum is infinite or NaN where the last two outputs say so.
  function automatic void fp32_add_begin(input fp32_t a, input fp32_t b, output logic [31:0] sum,
                                         output logic [31:0] exponent, output logic [31:0] sign,
                                         output logic infinite, output logic nan);
    logic [31:0] abs_a, abs_b, greater, lesser, exp_lesser, sig_greater, sig_lesser, shift, lost;
    logic subtract, swap;

    abs_a    = a & 32'h7FFF_FFFF;
    abs_b    = b & 32'h7FFF_FFFF;
    swap     = abs_b > abs_a;
    greater  = swap ? abs_b : abs_a;
    lesser   = swap ? abs_a : abs_b;
    sign     = (swap ? b : a) & 32'h8000_0000;
    subtract = ((a ^ b) & 32'h8000_0000) != 0;

    exponent    = greater >> 23;
    exp_lesser  = lesser >> 23;
    sig_greater = (greater & 32'h007F_FFFF) | ((exponent != 0) ? 32'h0080_0000 : 32'h0);
    sig_lesser  = (lesser & 32'h007F_FFFF) | ((exp_lesser != 0) ? 32'h0080_0000 : 32'h0);
    exponent    = exponent + ((exponent == 0) ? 32'd1 : 32'd0);
    exp_lesser  = exp_lesser + ((exp_lesser == 0) ? 32'd1 : 32'd0);

    // Three places below the significand: guard, round, sticky.
    sig_greater = sig_greater << 3;
    sig_lesser  = sig_lesser << 3;
    shift       = exponent - exp_lesser;
    shift       = (shift > 32'd27) ? 32'd27 : shift;
    lost        = sig_lesser & ((32'd1 << shift) - 32'd1);
    sig_lesser  = (sig_lesser >> shift) | ((lost != 0) ? 32'd1 : 32'd0);
    sum         = subtract ? (sig_greater - sig_lesser) : (sig_greater + sig_lesser);
    // x + -x is +0; -0 + -0 is -0.
    sign        = (sum == 0 && subtract) ? 32'd0 : sign;
    infinite    = greater >= PlusInfinity;
    nan         = (greater > PlusInfinity) || (greater == PlusInfinity && lesser == PlusInfinity && subtract);
  endfunction

  // The float32 of what fp32_add_begin has added.
  function automatic fp32_t fp32_add_end(input logic [31:0] added, input logic [31:0] exponent_added,
                                         input logic [31:0] sign, input logic infinite, input logic nan);
    logic [31:0] sum, exponent, shift, lost, mantissa, round, result;
    sum      = added;
    exponent = exponent_added;

    // A carry moves the sum right by one place and keeps the sticky bit.
    lost     = sum >> 27;
    sum      = (sum >> lost) | (sum & lost);
    exponent = exponent + lost - 32'd1;

    // After cancellation it moves left, but not below the subnormals' exponent.
    shift    = ((sum >> 11) == 0) ? 32'd16 : 32'd0;
    shift    = (shift > exponent) ? exponent : shift;
    sum      = sum << shift;
    exponent = exponent - shift;
    shift    = ((sum >> 19) == 0) ? 32'd8 : 32'd0;
    shift    = (shift > exponent) ? exponent : shift;
    sum      = sum << shift;
    exponent = exponent - shift;
    shift    = ((sum >> 23) == 0) ? 32'd4 : 32'd0;
    shift    = (shift > exponent) ? exponent : shift;
    sum      = sum << shift;
    exponent = exponent - shift;
    shift    = ((sum >> 25) == 0) ? 32'd2 : 32'd0;
    shift    = (shift > exponent) ? exponent : shift;
    sum      = sum << shift;
    exponent = exponent - shift;
    shift    = ((sum >> 26) == 0) ? 32'd1 : 32'd0;
    shift    = (shift > exponent) ? exponent : shift;
    sum      = sum << shift;
    exponent = exponent - shift;

    // Nothing left: a true zero.
    exponent = (sum == 0) ? 32'd0 : exponent;
    mantissa = sum >> 3;
    round    = (sum >> 2) & (sum | (sum >> 1) | mantissa) & 32'd1;
    // The hidden bit, or a carry into it, adds 1 to the exponent.
    result   = (exponent << 23) + mantissa + round;
    result   = (result > PlusInfinity || infinite) ? PlusInfinity : result;
    return nan ? CanonicalNan : (result | sign);
  endfunction

  // a + b, rounded once.
  function automatic fp32_t fp32_add(input fp32_t a, input fp32_t b);
    logic [31:0] sum, exponent, sign;
    logic infinite, nan;
    fp32_add_begin(a, b, sum, exponent, sign, infinite, nan);
    return fp32_add_end(sum, exponent, sign, infinite, nan);
  endfunction

  // a * 2^power, rounded once. a is no subnormal number; power is signed, of at most 9 bits.
  function automatic fp32_t fp32_scale(input fp32_t a, input logic [31:0] power);
    localparam logic [31:0] Offset = 32'd512;
    logic [31:0] abs_a, exponent, significand, shift, below, kept, round, result;
    abs_a       = a & 32'h7FFF_FFFF;
    exponent    = (abs_a >> 23) + power + Offset;
    significand = ((a & 32'h007F_FFFF) | 32'h0080_0000) << 1;  // a guard bit below
    // Below the normal range the significand moves right; 25 places leave nothing that rounds up.
    shift    = (exponent <= Offset) ? (Offset + 32'd1 - exponent) : 32'd0;
    shift    = (shift > 32'd25) ? 32'd25 : shift;
    below     = significand & ((32'd1 << shift) - 32'd1);
    kept     = significand >> shift;
    round    = kept & (((below != 0) ? 32'd1 : 32'd0) | (kept >> 1)) & 32'd1;
    // The hidden bit, or a carry into it, adds 1 to the exponent.
    exponent = (exponent <= Offset) ? 32'd0 : (exponent - (Offset + 32'd1));
    result   = (exponent << 23) + (kept >> 1) + round;
    result   = (result > PlusInfinity || abs_a == PlusInfinity) ? PlusInfinity : result;
    result   = (abs_a == 0) ? 32'd0 : result;
    return (abs_a > PlusInfinity) ? CanonicalNan : (result | (a & 32'h8000_0000));
  endfunction

endpackage
