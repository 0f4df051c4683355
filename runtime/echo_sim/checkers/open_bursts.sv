// Counts the bursts of an AXI4 port that are not over, in both directions. Passive.
module open_bursts (
    input  logic clk_i,
    input  logic rst_ni,
    input  logic aw_taken_i,
    input  logic w_last_taken_i,
    input  logic b_taken_i,
    input  logic ar_taken_i,
    input  logic r_last_taken_i,
    output logic none_o           // no burst is open, and no data waits for its address
);
  logic [15:0] writes, early, reads;  // early: bursts of data without an address, modulo 2^16

  always @(posedge clk_i) begin
    if (!rst_ni) begin
      writes <= '0;
      early  <= '0;
      reads  <= '0;
    end else begin
      writes <= writes + 16'(aw_taken_i) - 16'(b_taken_i);
      early  <= early + 16'(w_last_taken_i) - 16'(aw_taken_i);
      reads  <= reads + 16'(ar_taken_i) - 16'(r_last_taken_i);
    end
  end

  assign none_o = writes == '0 && early == '0 && reads == '0;
endmodule
