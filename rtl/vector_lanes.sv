// The float32 lanes: src1 + alpha * src2, a product stage and a sum stage.
// Memory beats are gathered into one vector of all lanes, and given back as
// beats; a row need not fill the last vector.
// Reset and abort state: empty.
module vector_lanes
  import fp32_pkg::*;
#(
    parameter int unsigned DataWidth = 256,
    parameter int unsigned Lanes     = 16
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,
    input  fp32_t                alpha_i,
    input  logic                 in_valid_i,
    output logic                 in_ready_o,
    input  logic                 in_last_i,   // last beat of a row
    input  logic [DataWidth-1:0] src1_i,
    input  logic [DataWidth-1:0] src2_i,
    output logic                 out_valid_o,
    input  logic                 out_ready_i,
    output logic [DataWidth-1:0] out_o
);
  localparam int unsigned VectorBits = Lanes * 32;
  localparam int unsigned Beats      = VectorBits / DataWidth;

  typedef fp32_t vector_t [Lanes];

  // ---- gather -------------------------------------------------------------------------
  logic [VectorBits-1:0] gather1_q, gather2_q;
  logic [3:0] fill_q, gathered_q;  // beats in the vector being filled / complete vector
  logic full_q;                    // a complete vector waits
  logic advance, sum_ready;

  assign in_ready_o = !full_q || advance;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      fill_q <= '0;
      full_q <= 1'b0;
    end else begin
      if (advance) full_q <= 1'b0;
      if (in_valid_i && in_ready_o) begin
        fill_q <= fill_q + 4'd1;
        if (in_last_i || fill_q == 4'(Beats - 1)) begin
          fill_q     <= '0;
          full_q     <= 1'b1;
          gathered_q <= fill_q + 4'd1;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (in_valid_i && in_ready_o) begin
      for (int unsigned b = 0; b < Beats; b++) begin
        if (fill_q == 4'(b)) begin
          gather1_q[b*DataWidth+:DataWidth] <= src1_i;
          gather2_q[b*DataWidth+:DataWidth] <= src2_i;
        end
      end
    end
  end

  // ---- product, sum ----------------------------------------------------------------------
  vector_t vector1, vector2, addend_q, product_q, sum_q;
  logic product_valid_q, sum_valid_q, product_ready, vector_sent;
  logic [VectorBits-1:0] sums;
  logic [3:0] product_beats_q, sum_beats_q;

  for (genvar l = 0; l < Lanes; l++) begin : g_lanes
    assign vector1[l] = gather1_q[l*32+:32];
    assign vector2[l] = gather2_q[l*32+:32];
    assign sums[l*32+:32] = sum_q[l];
  end

  function automatic vector_t multiply(input vector_t values, input fp32_t factor);
    for (int unsigned l = 0; l < Lanes; l++) multiply[l] = fp32_mul(values[l], factor);
  endfunction

  function automatic vector_t add(input vector_t a, input vector_t b);
    for (int unsigned l = 0; l < Lanes; l++) add[l] = fp32_add(a[l], b[l]);
  endfunction

  assign product_ready = !product_valid_q || sum_ready;
  assign sum_ready     = !sum_valid_q || vector_sent;
  assign advance       = full_q && product_ready;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      product_valid_q <= 1'b0;
      sum_valid_q     <= 1'b0;
    end else begin
      if (product_ready) product_valid_q <= full_q;
      if (sum_ready) sum_valid_q <= product_valid_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (advance) begin
      addend_q        <= vector1;
      product_q       <= multiply(vector2, alpha_i);
      product_beats_q <= gathered_q;
    end
    if (product_valid_q && sum_ready) begin
      sum_q       <= add(addend_q, product_q);
      sum_beats_q <= product_beats_q;
    end
  end

  // ---- beats --------------------------------------------------------------------------------
  logic [3:0] beat_q;

  assign out_valid_o = sum_valid_q;
  assign vector_sent = out_valid_o && out_ready_i && beat_q + 4'd1 == sum_beats_q;

  always_comb begin
    out_o = '0;
    if (sum_valid_q) begin
      for (int unsigned b = 0; b < Beats; b++) begin
        if (beat_q == 4'(b)) out_o = sums[b*DataWidth+:DataWidth];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) beat_q <= '0;
    else if (out_valid_o && out_ready_i) beat_q <= vector_sent ? '0 : beat_q + 4'd1;
  end

  if (VectorBits % DataWidth != 0 || Beats > 8) begin : g_bad_width
    $fatal(1, "vector_lanes: the lanes must be one to eight memory beats wide");
  end
endmodule
