// round_robin: one winner among the requests, the same while nothing changes, and no request overtaken for ever.
`include "formal.svh"

module round_robin_formal #(
    parameter int unsigned Requests = 5
) (
    input logic                        clk_i,
    input logic                        rst_ni,
    input logic [Requests-1:0]         request_i,
    input logic                        advance_i,
    input logic [$clog2(Requests)-1:0] followed_i  // which request is followed: any one
);
  localparam int unsigned IndexBits = $clog2(Requests);
  typedef logic [IndexBits:0] count_t;

  logic [Requests-1:0]  grant;
  logic [IndexBits-1:0] index;

  round_robin #(
      .Requests(Requests)
  ) dut (
      .clk_i,
      .rst_ni,
      .request_i,
      .advance_i,
      .grant_o(grant),
      .index_o(index)
  );

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET
  // A grant is used only when there is one.
  always_comb assume (!(advance_i && request_i == '0));

  // The followed request is one that exists, and the same for the whole run.
  logic [IndexBits-1:0] followed_q;
  always_ff @(posedge clk_i) followed_q <= followed_i;
  always_comb assume (32'(followed_i) < Requests && (!started_q || followed_i == followed_q));

  // ---------------------------------------------------------------- observed
  logic                unused_q;   // the last grant was not used
  logic [Requests-1:0] request_q, grant_q;
  count_t              overtaken_q;  // grants used by others since the followed request is up
  count_t              distance;     // places of the followed request behind the first in turn

  always_ff @(posedge clk_i) begin
    unused_q  <= rst_ni && !advance_i;
    request_q <= request_i;
    grant_q   <= grant;
    if (!rst_ni || !request_i[followed_i] || (advance_i && grant[followed_i])) overtaken_q <= '0;
    else if (advance_i) overtaken_q <= overtaken_q + 1'b1;
  end

  assign distance = followed_i >= dut.next_q ? count_t'(followed_i) - count_t'(dut.next_q)
                                             : count_t'(followed_i) + count_t'(Requests) - count_t'(dut.next_q);

  // ---------------------------------------------------------------- proven
  always_comb begin
    if (rst_ni) begin
      GrantOneHot    : assert ((grant & (grant - 1'b1)) == '0);
      GrantRequested : assert ((grant & ~request_i) == '0);
      GrantAtOnce    : assert ((grant != '0) == (request_i != '0));
      IndexOfGrant   : assert (grant == '0 ? index == '0 : grant == Requests'(1) << index);
      GrantStable    : assert (!(unused_q && request_i == request_q) || grant == grant_q);
      // A request that stays up is served after at most all others, once each.
      ServedInTurn   : assert (overtaken_q < count_t'(Requests));
`ifndef PROPERTIES_ONLY
      // What the induction needs: each grant to another brings the followed request nearer.
      ComesNearer    : assert (32'(dut.next_q) < Requests && overtaken_q + distance < count_t'(Requests));
`endif
      WaitsForAll    : cover (overtaken_q == count_t'(Requests - 1) && advance_i && grant[followed_i]);
    end
  end
endmodule
