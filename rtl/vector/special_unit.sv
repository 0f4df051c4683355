// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// The special functions of all lanes: e^a, 1/a or 1/sqrt(a) of a word in two
// clocks, with Pipeline in three. One may begin in each clock. A word of another unit
// may pass through the last clock, so that words leave in their order.
// Nothing is reset: result_o counts from the clock behind late_o or pass_i.
module special_unit
  import special_function_pkg::*;
#(
    parameter int unsigned Lanes    = 16,   // a power of two from 2 to 16
    parameter bit          Pipeline = 1'b0  // three clocks
) (
    input  logic                clk_i,
    input  logic                begin_i,
    input  special_t            kind_i,
    input  logic [Lanes*32-1:0] a_i,
    output logic                late_o,   // the last clock of a word
    input  logic                pass_i,   // another word passes; not with late_o
    input  logic [Lanes*32-1:0] passing_i,
    output logic [Lanes*32-1:0] result_o  // from the clock behind late_o or pass_i on, until the next of these
);
  typedef logic [31:0] vector_t [Lanes];
  typedef logic [63:0] wide_t [Lanes];
  typedef logic [7:0] segments_t [Lanes];
  typedef logic flags_t [Lanes];

  // ---- maps over the lanes ----------------------------------------------------------------
  function automatic void map_argument(input vector_t a, input special_t kind, output segments_t segment,
                                       output vector_t cubic, output wide_t x, output vector_t exponent,
                                       output flags_t special, output vector_t known);
    for (int unsigned l = 0; l < Lanes; l++)
      special_argument(a[l], kind, segment[l], cubic[l], x[l], exponent[l], special[l], known[l]);
  endfunction
  function automatic wide_t map_step1(input vector_t cubic, input segments_t segment, input wide_t x);
    for (int unsigned l = 0; l < Lanes; l++) map_step1[l] = special_step1(cubic[l], segment[l], x[l]);
  endfunction
  function automatic wide_t map_step2(input wide_t value, input segments_t segment, input wide_t x);
    for (int unsigned l = 0; l < Lanes; l++) map_step2[l] = special_step2(value[l], segment[l], x[l]);
  endfunction
  function automatic vector_t map_end(input wide_t value, input segments_t segment, input wide_t x,
                                      input vector_t exponent, input flags_t special, input vector_t known);
    for (int unsigned l = 0; l < Lanes; l++)
      map_end[l] = special_end(value[l], segment[l], x[l], exponent[l], special[l], known[l]);
  endfunction

  vector_t lanes_a, passing;
  for (genvar l = 0; l < Lanes; l++) begin : g_lanes
    assign lanes_a[l] = a_i[l*32+:32];
    assign passing[l] = passing_i[l*32+:32];
  end

  // ---- up to the last clock ---------------------------------------------------------------
  // Without Pipeline the first clock ends behind the first step of the cubic. With it the first one ends before that
  // step, and the second one behind the second step.
  logic late_q;
  segments_t segment_q;
  wide_t value_q, x_q;
  vector_t exponent_q, known_q, result_q;
  flags_t special_q;

  if (Pipeline) begin : g_three
    logic begun_q;
    segments_t argument_segment_q;
    wide_t argument_x_q;
    vector_t argument_cubic_q, argument_exponent_q, argument_known_q;
    flags_t argument_special_q;

    always_ff @(posedge clk_i) begin
      begun_q <= begin_i;
      late_q  <= begun_q;
      if (begin_i) begin
        segments_t segment;
        wide_t x;
        vector_t cubic, exponent, known;
        flags_t special;
        map_argument(lanes_a, kind_i, segment, cubic, x, exponent, special, known);
        argument_segment_q  <= segment;
        argument_cubic_q    <= cubic;
        argument_x_q        <= x;
        argument_exponent_q <= exponent;
        argument_special_q  <= special;
        argument_known_q    <= known;
      end
      if (begun_q) begin
        value_q    <= map_step2(map_step1(argument_cubic_q, argument_segment_q, argument_x_q), argument_segment_q,
                                argument_x_q);
        segment_q  <= argument_segment_q;
        x_q        <= argument_x_q;
        exponent_q <= argument_exponent_q;
        special_q  <= argument_special_q;
        known_q    <= argument_known_q;
      end
    end
  end else begin : g_two
    always_ff @(posedge clk_i) begin
      late_q <= begin_i;
      if (begin_i) begin
        segments_t segment;
        wide_t x;
        vector_t cubic, exponent, known;
        flags_t special;
        map_argument(lanes_a, kind_i, segment, cubic, x, exponent, special, known);
        value_q    <= map_step1(cubic, segment, x);
        segment_q  <= segment;
        x_q        <= x;
        exponent_q <= exponent;
        special_q  <= special;
        known_q    <= known;
      end
    end
  end

  // ---- the last clock ---------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (late_q)
      result_q <= map_end(Pipeline ? value_q : map_step2(value_q, segment_q, x_q), segment_q, x_q, exponent_q, special_q,
                          known_q);
    else if (pass_i) result_q <= passing;
  end

  assign late_o = late_q;
  for (genvar l = 0; l < Lanes; l++) begin : g_result
    assign result_o[l*32+:32] = result_q[l];
  end
endmodule
