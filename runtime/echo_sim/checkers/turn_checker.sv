// Fairness of an arbiter: each other client is served at most once before a client that requests is served. Passive.
module turn_checker #(
    parameter int unsigned Clients = 2,
    parameter string       Name    = "bus"
) (
    input logic               clk_i,
    input logic               rst_ni,
    input logic [Clients-1:0] request_i,
    input logic [Clients-1:0] served_i   // the client that is served in this clock, if any
);
  logic [Clients-1:0] overtakers[Clients];  // served since the client began to wait

  // A module alone on a testbench may see a clock edge before its first reset.
  initial overtakers = '{default: '0};

  always @(posedge clk_i) begin
    if (!rst_ni) begin
      overtakers <= '{default: '0};
    end else if (served_i != '0) begin
      for (int unsigned i = 0; i < Clients; i++) begin
        overtakers[i] <= request_i[i] && !served_i[i] ? overtakers[i] | served_i : '0;
        // The condition is tested first, because Verilator tests at each assertion whether assertions are on.
        if (request_i[i] && !served_i[i] && (overtakers[i] & served_i) != '0) begin
          ServedInTurn : assert (1'b0)
          else $error("%m: client %0d of %s is overtaken more than once by another one", i, Name);
        end
      end
    end
  end
endmodule
