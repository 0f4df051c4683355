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

  // The cubic of a segment at x, 24 fraction bits, by Horner's rule with
  // truncated products: 2^32 to 2^33, in units of 2^-32.
  function automatic logic [63:0] special_cubic(input logic [7:0] segment, input logic [63:0] x);
    logic [63:0] value;
    value = 64'(Coefficient3[segment]);
    value = 64'(Coefficient2[segment]) + ((value * x) >> 24);
    value = 64'(Coefficient1[segment]) + ((value * x) >> 24);
    value = 64'(Coefficient0[segment]) + ((value * x) >> 24);
    return value + 64'h1_0000_0000;
  endfunction

  // The float32 nearest to a value of special_cubic, ties to even, whose bit 32
  // has this exponent; exponents carry the offset on top of float32's own.
  localparam logic [31:0] Offset = 32'd64;
  function automatic fp32_t special_round(input logic [63:0] value, input logic [31:0] exponent);
    logic [31:0] below, places, base, kept, round, result;
    logic [63:0] half;
    // Below the normal range the value moves right; 27 places more leave nothing.
    below  = (exponent <= Offset) ? (Offset + 32'd1 - exponent) : 32'd0;
    below  = (below > 32'd27) ? 32'd27 : below;
    places = below + 32'd9;
    half   = value >> (places - 32'd1);
    kept   = 32'(half >> 1);
    round  = (((half << (places - 32'd1)) != value) ? 32'd1 : 32'd0) | kept;
    round  = round & 32'(half) & 32'd1;
    // The hidden bit, or a carry into it, adds 1 to the exponent.
    base   = (exponent <= Offset) ? 32'd0 : (exponent - (Offset + 32'd1));
    result = (base << 23) + kept + round;
    return (base > 32'd253 || result > PlusInfinity) ? PlusInfinity : result;
  endfunction

  function automatic fp32_t alu_special(input fp32_t a, input special_t kind);
    logic [31:0] abs_a, sign, mantissa, power, exponent, places, odd, rest, beyond, result;
    logic [63:0] normalized, product, x;
    logic [7:0] segment;
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

    // a * log2(e) = n + fraction, 30 fraction bits, and 256 more to be positive.
    places  = Offset + 32'd157 - power;
    places  = (power > Offset + 32'd133) ? 32'd24 : ((places > 32'd63) ? 32'd63 : places);
    product = (64'(mantissa | 32'h0080_0000) * Log2E) >> places;
    product = 64'h40_0000_0000 + (negative ? (64'd0 - product) : product);

    // 1/sqrt(a) has the exponent of an even power of two below or at a.
    odd      = ~power & 32'd1;
    segment  = is_exp ? 8'(32'(product >> 24) & 32'd63) :
               is_rcp ? 8'(32'(Segments) + (mantissa >> 17)) :
                        8'(32'(2 * Segments) + ((odd << 5) | (mantissa >> 18)));
    rest     = is_rcp ? ((~mantissa & 32'h0001_FFFF) << 7) : ((~mantissa & 32'h0003_FFFF) << 6);
    x        = is_exp ? (product & 64'hFF_FFFF) : 64'(rest);
    exponent = is_exp ? (32'(product >> 30) - 32'd129 + Offset) :
               is_rcp ? (32'd253 + 2 * Offset - power) :
                        (32'd190 + 2 * Offset - ((power + Offset + 32'd1) >> 1));
    result   = special_round(special_cubic(segment, x), exponent);

    // What has no finite nonzero result: e^a from 128 on, zero, infinity.
    beyond = is_exp ? (negative ? 32'd0 : PlusInfinity) : ((abs_a == 0) ? PlusInfinity : 32'd0);
    result = ((is_exp ? (abs_a >= 32'h4300_0000) : (abs_a == 0 || abs_a == PlusInfinity))) ? beyond : result;
    nan    = abs_a > PlusInfinity || (!is_exp && !is_rcp && negative && abs_a != 0);
    return nan ? CanonicalNan : (result | (is_exp ? 32'd0 : sign));
  endfunction
endpackage
