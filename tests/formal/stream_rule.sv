// The handshake rule of a valid/ready stream, to be assumed of a neighbour or asserted of a block.
module stream_rule #(
    parameter int unsigned Width = 8
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic             valid_i,
    input  logic             ready_i,
    input  logic [Width-1:0] payload_i,
    output logic             kept_o      // what was offered and not taken is still offered, unchanged
);
  logic             waiting_q;
  logic [Width-1:0] payload_q;

  always_ff @(posedge clk_i) begin
    waiting_q <= rst_ni && valid_i && !ready_i;
    payload_q <= payload_i;
  end

  assign kept_o = !waiting_q || (valid_i && payload_i == payload_q);
endmodule
