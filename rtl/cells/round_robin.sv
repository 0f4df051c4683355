// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// Round-robin arbiter: the search for the next winner begins behind the last
// one and wraps. Nothing is granted when nothing is requested.
// Reset state: request 0 is next.
module round_robin #(
    parameter int unsigned Requests = 4  // requesters, at least 2
) (
    input  logic                        clk_i,
    input  logic                        rst_ni,
    input  logic [Requests-1:0]         request_i,
    input  logic                        advance_i,  // the grant was used
    output logic [Requests-1:0]         grant_o,    // one-hot or zero
    output logic [$clog2(Requests)-1:0] index_o     // of the grant
);
  localparam int unsigned IndexBits = $clog2(Requests);

  logic [IndexBits-1:0] next_q;
  logic [Requests-1:0] masked, candidates;

  assign masked     = request_i & ({Requests{1'b1}} << next_q);
  assign candidates = (masked != '0) ? masked : request_i;
  assign grant_o    = candidates & (~candidates + 1'b1);

  always_comb begin
    index_o = '0;
    for (int unsigned i = 0; i < Requests; i++) begin
      if (grant_o[i]) index_o |= IndexBits'(i);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) next_q <= '0;
    else if (advance_i) next_q <= (32'(index_o) == Requests - 1) ? '0 : index_o + 1'b1;
  end

  if (Requests < 2) begin : g_bad_requests
    $fatal(1, "round_robin: Requests must be at least 2");
  end
endmodule
