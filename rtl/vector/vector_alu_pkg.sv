// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// The arithmetic of one lane of the vector engine: what every opcode of its
// programs computes on 32-bit words.
//
// IEEE-754 binary32, round to nearest even, subnormals kept, every NaN result
// canonical (0x7FC00000); a mask is all ones or zero. As in fp32_pkg there are
// no branches, so a simulator can evaluate all lanes with vector instructions.
// Callers pass a constant for an argument that selects an operation.
package vector_alu_pkg;
  import fp32_pkg::fp32_t;
  import fp32_pkg::CanonicalNan;
  import fp32_pkg::PlusInfinity;

  typedef enum logic [2:0] {
    CompareEqual,
    CompareLess,
    CompareLessEqual,
    CompareUnordered,
    CompareIntEqual,
    CompareIntLess
  } compare_t;

  typedef enum logic [3:0] {
    IntAdd,
    IntSub,
    IntAnd,
    IntOr,
    IntXor,
    IntShl,
    IntShr,
    IntSar,
    IntMin,
    IntMax
  } integer_op_t;

  localparam fp32_t SignBit = 32'h8000_0000;
  // Exponents of a multiply-add carry this offset on top of the format's own, so that they stay positive.
  localparam logic [31:0] FmaOffset = 32'd2048;
  // The bits that an exponent of a product or an addend with that offset has, 1026 to 3327. Without its zeros above them
  // every difference of two would be as long a carry as that of words.
  localparam logic [31:0] FmaExponents = 32'd4095;

  // Bits 31:0: a nonzero number moved left until its leading one is bit 31.
  // Bits 63:32: the number of places.
  function automatic logic [63:0] normalize32(input logic [31:0] significand);
    logic [31:0] moved, places, shift;
    moved  = significand;
    shift  = (moved[31:16] == 0) ? 32'd16 : 32'd0;
    moved  = moved << shift;
    places = shift;
    shift  = (moved[31:24] == 0) ? 32'd8 : 32'd0;
    moved  = moved << shift;
    places = places + shift;
    shift  = (moved[31:28] == 0) ? 32'd4 : 32'd0;
    moved  = moved << shift;
    places = places + shift;
    shift  = (moved[31:30] == 0) ? 32'd2 : 32'd0;
    moved  = moved << shift;
    places = places + shift;
    shift  = (moved[31] == 0) ? 32'd1 : 32'd0;
    moved  = moved << shift;
    places = places + shift;
    return {places, moved};
  endfunction

  // a * b + c, neither normalized nor rounded: the absolute sum, and the exponent of its bit 62. It is infinite or NaN
  // where the last two outputs say so. With scaled it is a * 2^exponent + c of an int32, and b is 1.
  function automatic void alu_fma_begin(input fp32_t a, input fp32_t b, input fp32_t c, input logic scaled,
                                        input fp32_t exponent, output logic [63:0] sum, output logic [31:0] exp_sum,
                                        output logic [31:0] sign, output logic infinite, output logic nan);
    // A factor's exponent carries the product's offset: the format's exponents have 127 each, and the leading one of
    // 1 * 1 is one place below that of an addend of 1.
    localparam logic [31:0] FactorOffset = FmaOffset - 32'd126, ScaleOffset = FactorOffset + 32'd127;
    logic [31:0] abs_a, abs_b, abs_c, sign_p, sign_c, exp_a, exp_b, exp_c, exp_p, sig_a, sig_b, sig_c, scale, beyond, above,
                 below, shift;
    logic [63:0] product, addend, greater, lesser, lost;
    logic swap, subtract, negative, infinite_p, infinite_c, zero_p;

    abs_a  = a & 32'h7FFF_FFFF;
    abs_b  = b & 32'h7FFF_FFFF;
    abs_c  = c & 32'h7FFF_FFFF;
    sign_p = (a ^ b) & SignBit;
    sign_c = c & SignBit;
    // A subnormal has the exponent of the smallest normal, and no hidden bit.
    exp_a = abs_a >> 23;
    exp_b = abs_b >> 23;
    exp_c = abs_c >> 23;
    sig_a = (a & 32'h007F_FFFF) | ((exp_a != 0) ? 32'h0080_0000 : 32'h0);
    sig_b = (b & 32'h007F_FFFF) | ((exp_b != 0) ? 32'h0080_0000 : 32'h0);
    sig_c = (c & 32'h007F_FFFF) | ((exp_c != 0) ? 32'h0080_0000 : 32'h0);
    exp_a = exp_a | ((exp_a == 0) ? 32'd1 : 32'd0);
    exp_b = (exp_b == 0) ? (FactorOffset + 32'd1) : (exp_b + FactorOffset);
    exp_c = exp_c | ((exp_c == 0) ? 32'd1 : 32'd0) | FmaOffset;

    beyond = exponent >> 10;  // scales of more than eleven bits give what the greatest or the least of these does
    scale  = ((exponent & SignBit) != 0) ? (ScaleOffset - 32'd1024) : (ScaleOffset + 32'd1023);
    scale  = (beyond == 0 || beyond == 32'h003F_FFFF) ? ((exponent + ScaleOffset) & FmaExponents) : scale;
    exp_b  = scaled ? scale : exp_b;

    // Both operands have their leading one at bit 61 or below, and exp_p and exp_c are the exponents of that bit. A
    // product of two normal numbers has it at bit 61 or 60, one with a subnormal number up to 23 places lower: it need
    // not move up, as its last bit is bit 14. The product of two subnormal numbers is below half of the least number.
    zero_p  = sig_a == 0 || sig_b == 0;
    product = (64'(sig_a) * 64'(sig_b)) << 14;
    exp_p   = exp_a + exp_b;
    addend  = 64'(sig_c) << 38;

    // The operand with the smaller exponent moves right; the bits that it loses stay as a sticky bit. An addend that
    // loses bits has moved by 39 places or more, to bit 22 or below, and the product's leading one is at bit 37 or above.
    // A product that loses bits has moved by 15 places or more, to bit 46 or below. So the difference has its leading
    // one at bit 36 or above, and rounding needs 26 bits. Where the greater operand is a subnormal addend, no bit below
    // its last one survives rounding.
    // The two distances, of -1277 to 1278, do not wait for exp_p; bit 11 is their sign. A zero moves anywhere.
    above    = exp_a - exp_c + exp_b;
    below    = exp_c - exp_a - exp_b;
    swap     = zero_p || (above & 32'd2048) != 0;
    greater  = swap ? addend : product;
    lesser   = swap ? product : addend;
    shift    = (swap ? below : above) & 32'd2047;
    shift    = (shift > 32'd63) ? 32'd63 : shift;
    lost     = (lesser << (32'd63 - shift)) << 1;
    lesser   = (lesser >> shift) | ((lost != 0) ? 64'd1 : 64'd0);
    subtract = sign_p != sign_c;
    negative = subtract && greater < lesser;
    sum      = subtract ? (negative ? (lesser - greater) : (greater - lesser)) : (greater + lesser);
    sign     = (swap ? sign_c : sign_p) ^ (negative ? SignBit : 32'd0);
    // x + -x is +0; -0 + -0 is -0.
    sign     = (sum == 0 && subtract) ? 32'd0 : sign;
    exp_sum  = (swap ? exp_c : exp_p) + 32'd1;

    infinite_p = abs_a >= PlusInfinity || abs_b >= PlusInfinity;
    infinite_c = abs_c >= PlusInfinity;
    infinite   = infinite_p || infinite_c;
    nan        = abs_a > PlusInfinity || abs_b > PlusInfinity || abs_c > PlusInfinity ||
                 (infinite_p && zero_p) || (infinite_p && infinite_c && subtract);
    sign       = infinite_p ? sign_p : (infinite_c ? sign_c : sign);
  endfunction

  // The float32 of what alu_fma_begin has added.
  function automatic fp32_t alu_fma_end(input logic [63:0] added, input logic [31:0] exp_added, input logic [31:0] sign,
                                        input logic infinite, input logic nan);
    logic [31:0] exponent, result, top, sticky, shift, places, mantissa, round;
    logic [63:0] sum;
    logic zeros;

    // The leading one moves to bit 62.
    sum    = added;
    zeros  = sum[62:31] == 0;
    shift  = (zeros ? sum[30:15] == 0 : sum[62:47] == 0) ? 32'd16 : 32'd0;  // does not wait for the other move
    places = zeros ? 32'd32 : 32'd0;
    sum    = sum << places;
    sum    = sum << shift;
    places = places | shift;
    shift  = (sum[62:55] == 0) ? 32'd8 : 32'd0;
    sum    = sum << shift;
    places = places | shift;
    shift  = (sum[62:59] == 0) ? 32'd4 : 32'd0;
    sum    = sum << shift;
    places = places | shift;
    shift  = (sum[62:61] == 0) ? 32'd2 : 32'd0;
    sum    = sum << shift;
    places = places | shift;
    shift  = (sum[62] == 0) ? 32'd1 : 32'd0;
    sum    = sum << shift;
    places = places | shift;

    exponent = (exp_added - places) & FmaExponents;

    // 24 bits to keep, a guard bit, one below it, the rest in a sticky bit.
    top    = 32'(sum >> 37) & 32'h03FF_FFFF;
    sticky = (sum[36:0] != 0) ? 32'd1 : 32'd0;
    // Below the normal range the significand moves right; 26 places or more
    // leave only the sticky bit.
    shift    = (exponent <= FmaOffset) ? (FmaOffset + 32'd1 - exponent) : 32'd0;
    shift    = (shift > 32'd26) ? 32'd26 : shift;
    sticky   = sticky | (((top & ((32'd1 << shift) - 32'd1)) != 0) ? 32'd1 : 32'd0);
    top      = top >> shift;
    mantissa = top >> 2;
    round    = (top >> 1) & (top | sticky | mantissa) & 32'd1;
    // The hidden bit, or a carry into it, adds 1 to the exponent.
    exponent = (exponent <= FmaOffset || sum == 0) ? 32'd0 : (exponent - (FmaOffset + 32'd1));
    result   = (exponent << 23) + mantissa + round;
    result   = (exponent > 32'd253 || result > PlusInfinity) ? PlusInfinity : result;
    result   = infinite ? PlusInfinity : result;
    return nan ? CanonicalNan : (result | sign);
  endfunction

  // a * b + c, rounded once; with scaled a * 2^exponent + c of an int32, and b is 1. The other sums and products are
  // cases of it: c = -0 gives the bare product.
  function automatic fp32_t alu_fma(input fp32_t a, input fp32_t b, input fp32_t c, input logic scaled,
                                    input fp32_t exponent);
    logic [63:0] sum;
    logic [31:0] exp_sum, sign;
    logic infinite, nan;
    alu_fma_begin(a, b, c, scaled, exponent, sum, exp_sum, sign, infinite, nan);
    return alu_fma_end(sum, exp_sum, sign, infinite, nan);
  endfunction

  // A number whose unsigned order is the order of the floats, -0 below +0.
  function automatic logic [31:0] float_order(input fp32_t a);
    return a ^ (((a & SignBit) != 0) ? 32'hFFFF_FFFF : SignBit);
  endfunction

  function automatic logic is_nan(input fp32_t a);
    return (a & 32'h7FFF_FFFF) > PlusInfinity;
  endfunction

  // The lesser of a and b; NaN if either is.
  function automatic fp32_t alu_min(input fp32_t a, input fp32_t b);
    fp32_t lesser;
    lesser = (float_order(a) < float_order(b)) ? a : b;
    return (is_nan(a) || is_nan(b)) ? CanonicalNan : lesser;
  endfunction

  // The greater of a and b; NaN if either is.
  function automatic fp32_t alu_max(input fp32_t a, input fp32_t b);
    fp32_t greater;
    greater = (float_order(a) > float_order(b)) ? a : b;
    return (is_nan(a) || is_nan(b)) ? CanonicalNan : greater;
  endfunction

  // The mask of a comparison.
  function automatic logic [31:0] alu_compare(input logic [31:0] a, input logic [31:0] b, input compare_t kind);
    logic unordered, zeros, equal, less, int_equal, int_less, holds;
    unordered = is_nan(a) || is_nan(b);
    zeros     = ((a | b) & 32'h7FFF_FFFF) == 0;
    int_equal = a == b;
    int_less  = (a ^ SignBit) < (b ^ SignBit);
    equal     = !unordered && (int_equal || zeros);
    less      = !unordered && !zeros && float_order(a) < float_order(b);
    holds     = (kind == CompareEqual)     ? equal :
                (kind == CompareLess)      ? less :
                (kind == CompareLessEqual) ? (less || equal) :
                (kind == CompareUnordered) ? unordered :
                (kind == CompareIntEqual)  ? int_equal : int_less;
    return holds ? 32'hFFFF_FFFF : 32'd0;
  endfunction

  // Mask: a's class is one of `bits`. 0 -inf, 1 -normal, 2 -subnormal, 3 -0,
  // 4 +0, 5 +subnormal, 6 +normal, 7 +inf, 8 NaN.
  function automatic logic [31:0] alu_class(input fp32_t a, input logic [31:0] bits);
    logic [31:0] abs_a, size, index;
    abs_a = a & 32'h7FFF_FFFF;
    size  = ((abs_a != 0) ? 32'd1 : 32'd0) + ((abs_a >= 32'h0080_0000) ? 32'd1 : 32'd0) +
            ((abs_a >= PlusInfinity) ? 32'd1 : 32'd0);
    index = ((a & SignBit) != 0) ? (32'd3 - size) : (32'd4 + size);
    index = (abs_a > PlusInfinity) ? 32'd8 : index;
    return (((bits >> index) & 32'd1) != 0) ? 32'hFFFF_FFFF : 32'd0;
  endfunction

  // a scaled into [1, 2) or (-2, -1]; zeros and infinities themselves.
  function automatic fp32_t alu_getmant(input fp32_t a);
    logic [31:0] abs_a, mantissa, result;
    abs_a    = a & 32'h7FFF_FFFF;
    mantissa = 32'(normalize32(abs_a) >> 8);
    mantissa = (abs_a < 32'h0080_0000) ? mantissa : abs_a;
    result   = (a & SignBit) | 32'h3F80_0000 | (mantissa & 32'h007F_FFFF);
    result   = (abs_a == 0 || abs_a == PlusInfinity) ? a : result;
    return is_nan(a) ? CanonicalNan : result;
  endfunction

  // floor(log2(abs a)) as int32; zero: -512; infinity, NaN: 512.
  function automatic logic [31:0] alu_getexp(input fp32_t a);
    logic [31:0] abs_a, places, result;
    abs_a  = a & 32'h7FFF_FFFF;
    places = 32'(normalize32(abs_a) >> 32);
    // Bit 31 of a subnormal's integer stands for 2^(31 - 149).
    result = (abs_a < 32'h0080_0000) ? (32'd0 - 32'd118 - places) : ((abs_a >> 23) - 32'd127);
    result = (abs_a == 0) ? (32'd0 - 32'd512) : result;
    return (abs_a >= PlusInfinity) ? 32'd512 : result;
  endfunction

  // int32 of a, to nearest even or toward zero, saturating; NaN: 0.
  function automatic logic [31:0] alu_f2i(input fp32_t a, input logic truncate);
    logic [31:0] exponent, significand, left, right, lost, kept, round, magnitude, result, sign;
    exponent    = (a & 32'h7FFF_FFFF) >> 23;
    significand = ((a & 32'h007F_FFFF) | ((exponent != 0) ? 32'h0080_0000 : 32'h0)) << 1;  // a guard bit below
    left        = (exponent > 32'd150) ? (exponent - 32'd150) : 32'd0;
    left        = (left > 32'd7) ? 32'd7 : left;
    right       = (exponent < 32'd150) ? (32'd150 - exponent) : 32'd0;
    right       = (right > 32'd25) ? 32'd25 : right;
    lost        = significand & ((32'd1 << right) - 32'd1);
    kept        = significand >> right;
    round       = kept & ((lost != 0) ? 32'd1 : (kept >> 1)) & (truncate ? 32'd0 : 32'd1);
    magnitude   = ((kept >> 1) + round) << left;
    sign        = a & SignBit;
    result      = (sign != 0) ? (32'd0 - magnitude) : magnitude;
    result      = (exponent > 32'd157) ? ((sign != 0) ? SignBit : 32'h7FFF_FFFF) : result;
    return is_nan(a) ? 32'd0 : result;
  endfunction

  // float32 of an int32.
  function automatic fp32_t alu_i2f(input logic [31:0] a);
    logic [31:0] sign, magnitude, places, moved, round, result;
    logic [63:0] normalized;
    sign       = a & SignBit;
    magnitude  = (sign != 0) ? (32'd0 - a) : a;
    normalized = normalize32(magnitude);
    moved      = 32'(normalized);
    places     = 32'(normalized >> 32);
    round      = (moved >> 7) & (((moved[6:0] != 0) ? 32'd1 : 32'd0) | (moved >> 8)) & 32'd1;
    // The hidden bit, or a carry into it, adds 1 to the exponent.
    result     = ((32'd157 - places) << 23) + (moved >> 8) + round;
    return (magnitude == 0) ? 32'd0 : (result | sign);
  endfunction

  // Bits of the float16 of a; NaN: 0x7E00.
  function automatic logic [31:0] alu_f2h(input fp32_t a);
    logic [31:0] exponent, significand, shift, lost, kept, round, result;
    exponent    = (a & 32'h7FFF_FFFF) >> 23;
    significand = ((a & 32'h007F_FFFF) | ((exponent != 0) ? 32'h0080_0000 : 32'h0)) << 1;  // a guard bit below
    // 13 places in float16's normal range, more below it.
    shift    = (exponent < 32'd113) ? (32'd126 - exponent) : 32'd13;
    shift    = (shift > 32'd25) ? 32'd25 : shift;
    lost     = significand & ((32'd1 << shift) - 32'd1);
    kept     = significand >> shift;
    round    = kept & (((lost != 0) ? 32'd1 : 32'd0) | (kept >> 1)) & 32'd1;
    // The hidden bit, or a carry into it, adds 1 to the exponent.
    exponent = (exponent < 32'd113) ? 32'd0 : (exponent - 32'd113);
    result   = (exponent << 10) + (kept >> 1) + round;
    result   = (exponent > 32'd29) ? 32'h7C00 : result;
    result   = result | ((a >> 16) & 32'h8000);
    return is_nan(a) ? 32'h7E00 : result;
  endfunction

  // float32 of the float16 in bits 15:0.
  function automatic fp32_t alu_h2f(input logic [31:0] a);
    logic [31:0] abs_a, moved, places, result;
    logic [63:0] normalized;
    abs_a      = a & 32'h7FFF;
    normalized = normalize32(abs_a);
    moved      = 32'(normalized);
    places     = 32'(normalized >> 32);
    result     = (abs_a << 13) + 32'h3800_0000;
    // Bit 31 of a subnormal's integer stands for 2^(31 - 24).
    result = (abs_a < 32'h0400) ? (((32'd133 - places) << 23) + (moved >> 8)) : result;
    result = (abs_a == 0) ? 32'd0 : result;
    result = (abs_a >= 32'h7C00) ? PlusInfinity : result;
    result = result | ((a & 32'h8000) << 16);
    return (abs_a > 32'h7C00) ? CanonicalNan : result;
  endfunction

  // Bits of the bfloat16 of a; NaN: 0x7FC0.
  function automatic logic [31:0] alu_f2b(input fp32_t a);
    return is_nan(a) ? 32'h7FC0 : ((a + 32'h7FFF + ((a >> 16) & 32'd1)) >> 16);
  endfunction

  // Arithmetic modulo 2^32, bitwise operations, and signed order of int32.
  function automatic logic [31:0] alu_integer(input logic [31:0] a, input logic [31:0] b, input integer_op_t operation);
    logic [31:0] places, right, less_a, less_b, result;
    logic less;
    places = b & 32'd31;
    right  = a >> places;
    less   = (a ^ SignBit) < (b ^ SignBit);
    less_a = less ? a : b;
    less_b = less ? b : a;
    result = (operation == IntAdd) ? (a + b) :
             (operation == IntSub) ? (a - b) :
             (operation == IntAnd) ? (a & b) :
             (operation == IntOr)  ? (a | b) :
             (operation == IntXor) ? (a ^ b) :
             (operation == IntShl) ? (a << places) :
             (operation == IntShr) ? right :
             (operation == IntSar) ? (right | (((a & SignBit) != 0) ? ~(32'hFFFF_FFFF >> places) : 32'd0)) :
             (operation == IntMin) ? less_a : less_b;
    return result;
  endfunction
endpackage
