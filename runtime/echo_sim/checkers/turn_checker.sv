// Fairness of an arbiter: a client that asks is overtaken by each other one once at most before it is served. Passive.
module turn_checker #(
    parameter int unsigned Clients = 2,
    parameter string       Name    = "bus"
) (
    input logic               clk_i,
    input logic               rst_ni,
    input logic [Clients-1:0] request_i,
    input logic [Clients-1:0] served_i   // who is served in this clock, or nobody
);
  int unsigned overtaken[Clients];

  always @(posedge clk_i) begin
    if (!rst_ni) begin
      overtaken <= '{default: 0};
    end else if (served_i != '0) begin
      for (int unsigned i = 0; i < Clients; i++) begin
        overtaken[i] <= request_i[i] && !served_i[i] ? overtaken[i] + 1 : 0;
        // The condition stands in front: to evaluate an assertion, Verilator first asks whether they are on.
        if (request_i[i] && !served_i[i] && overtaken[i] + 1 >= Clients) begin
          ServedInTurn : assert (1'b0)
          else $error("%m: client %0d of %s is overtaken more than once by another one", i, Name);
        end
      end
    end
  end
endmodule
