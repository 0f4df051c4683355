// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// The special functions of one lane of the vector engine: e^a, 1/a, 1/sqrt(a)
// (docs/numerics.md, spec/special_functions.py).
//
// All three are one cubic on a segment of a table, with its own argument and
// exponent for each function, and one rounding to float32. As in vector_alu_pkg
// there are no branches, so a simulator can evaluate all lanes with vector
// instructions.
package special_function_pkg;
  import fp32_pkg::fp32_t;
  import fp32_pkg::CanonicalNan;
  import fp32_pkg::PlusInfinity;
  import vector_alu_pkg::SignBit;
  import vector_alu_pkg::normalize32;

  `include "special_function_table.svh"

  // The order of the functions in the tables.
  typedef enum logic [1:0] {
    SpecialExp,
    SpecialRcp,
    SpecialRsqrt
  } special_t;

  // The three steps of the cubic of a segment at x, 24 fraction bits, by Horner's rule with truncated sums. The shift
  // follows the sum, so that a product and its coefficient are one addition. The last step gives 2^32 to 2^33, in units
  // of 2^-32.
  function automatic logic [63:0] special_step1(input logic [31:0] cubic, input logic [7:0] segment, input logic [63:0] x);
    return ((64'(Coefficient2[segment]) << 24) + 64'(cubic) * x) >> 24;
  endfunction
  function automatic logic [63:0] special_step2(input logic [63:0] value, input logic [7:0] segment, input logic [63:0] x);
    return ((64'(Coefficient1[segment]) << 24) + value * x) >> 24;
  endfunction
  function automatic logic [63:0] special_step3(input logic [63:0] value, input logic [7:0] segment, input logic [63:0] x);
    return (((64'(Coefficient0[segment]) | 64'h1_0000_0000) << 24) + value * x) >> 24;
  endfunction

  // The float32 nearest to a value of special_step3, ties to even, whose bit 32
  // has this exponent; exponents carry the offset on top of float32's own.
  localparam logic [31:0] Offset = 32'd64;
  function automatic fp32_t special_round(input logic [63:0] value, input logic [31:0] exponent);
    logic [31:0] below, places, base, kept, round, result;
    logic [63:0] half, lost;
    // Below the normal range the value moves right; 27 places more leave nothing.
    below  = (exponent <= Offset) ? (Offset + 32'd1 - exponent) : 32'd0;
    below  = (below > 32'd27) ? 32'd27 : below;
    places = below + 32'd8;
    half   = value >> places;
    lost   = value << (32'd64 - places);
    kept   = 32'(half >> 1);
    round  = ((lost != 0) ? 32'd1 : 32'd0) | kept;
    round  = round & 32'(half) & 32'd1;
    // The hidden bit, or a carry into it, adds 1 to the exponent.
    base   = (exponent <= Offset) ? 32'd0 : (exponent - (Offset + 32'd1));
    result = (base << 23) + kept + round;
    return (base > 32'd253 || result > PlusInfinity) ? PlusInfinity : result;
  endfunction

  // What a special function's cubic needs: segment, coefficient of x^3, x. `known` is the result where `special` says so;
  // else it is the result's sign.
  function automatic void special_argument(input fp32_t a, input special_t kind, output logic [7:0] segment,
                                           output logic [31:0] cubic, output logic [63:0] x,
                                           output logic [31:0] exponent, output logic special, output fp32_t known);
    logic [31:0] abs_a, sign, mantissa, significand, power, places, odd, rest, beyond;
    logic [63:0] normalized, product;
    logic subnormal, is_exp, is_rcp, negative, nan;

    is_exp    = kind == SpecialExp;
    is_rcp    = kind == SpecialRcp;
    abs_a     = a & 32'h7FFF_FFFF;
    sign      = a & SignBit;
    negative  = sign != 0;
    // The bits behind the leading one, and its exponent with the offset.
    subnormal  = abs_a < 32'h0080_0000;
    normalized = normalize32(abs_a);
    mantissa   = (subnormal ? 32'(normalized >> 8) : abs_a) & 32'h007F_FFFF;
    // Bit 31 of a subnormal's integer stands for 2^(31 - 149): the exponent 9.
    power = subnormal ? (Offset + 32'd9 - 32'(normalized >> 32)) : (Offset + (abs_a >> 23));

    // a * log2(e) = n + fraction, 30 fraction bits, and 256 more to be positive. Of a subnormal number nothing is left.
    significand = (abs_a & 32'h007F_FFFF) | 32'h0080_0000;
    places  = 32'd157 - (abs_a >> 23);
    places  = (abs_a >= 32'h4300_0000) ? 32'd24 : ((places > 32'd63) ? 32'd63 : places);
    product = (64'(significand) * Log2E) >> places;
    product = negative ? (64'h40_0000_0000 - product) : (64'h40_0000_0000 + product);

    // 1/sqrt(a) has the exponent of an even power of two below or at a.
    odd      = ~power & 32'd1;
    segment  = is_exp ? 8'(32'(product >> 24) & 32'd63) :
               is_rcp ? 8'(32'(Segments) + (mantissa >> 17)) :
                        8'(32'(2 * Segments) + ((odd << 5) | (mantissa >> 18)));
    rest     = is_rcp ? ((~mantissa & 32'h0001_FFFF) << 7) : ((~mantissa & 32'h0003_FFFF) << 6);
    cubic    = 32'(Coefficient3[segment]);
    x        = is_exp ? (product & 64'hFF_FFFF) : 64'(rest);
    exponent = is_exp ? (32'(product >> 30) - 32'd129 + Offset) :
               is_rcp ? (32'd253 + 2 * Offset - power) :
                        (32'd190 + 2 * Offset - ((power + Offset + 32'd1) >> 1));

    // What has no finite nonzero result: e^a from 128 on, zero, infinity.
    beyond  = is_exp ? (negative ? 32'd0 : PlusInfinity) : ((abs_a == 0) ? PlusInfinity : 32'd0);
    nan     = abs_a > PlusInfinity || (!is_exp && !is_rcp && negative && abs_a != 0);
    special = nan || (is_exp ? (abs_a >= 32'h4300_0000) : (abs_a == 0 || abs_a == PlusInfinity));
    known   = is_exp ? 32'd0 : sign;
    known   = nan ? CanonicalNan : (special ? (beyond | known) : known);
  endfunction

  // The result, from the second step of the cubic.
  function automatic fp32_t special_end(input logic [63:0] value, input logic [7:0] segment, input logic [63:0] x,
                                        input logic [31:0] exponent, input logic special, input fp32_t known);
    logic [31:0] result;
    result = special_round(special_step3(value, segment, x), exponent);
    return (special ? 32'd0 : result) | known;
  endfunction

  // e^a, 1/a or 1/sqrt(a).
  function automatic fp32_t alu_special(input fp32_t a, input special_t kind);
    logic [63:0] x;
    logic [31:0] cubic, exponent;
    logic [7:0] segment;
    logic special;
    fp32_t known;
    special_argument(a, kind, segment, cubic, x, exponent, special, known);
    return special_end(special_step2(special_step1(cubic, segment, x), segment, x), segment, x, exponent, special, known);
  endfunction
endpackage
