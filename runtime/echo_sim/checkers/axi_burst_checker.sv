// The bursts that AXI4 allows: rules of an address channel, AW or AR, checked when the address is offered.
`include "axi_rule.svh"

module axi_burst_checker #(
    parameter string       Protocol  = "AXI4",
    parameter string       Channel   = "AW",
    parameter string       Manager   = "manager",  // its name in messages
    parameter int unsigned AddrWidth = 32,
    parameter int unsigned DataWidth = 64          // bits
) (
    input logic                 clk_i,
    input logic                 check_i,  // a new address is offered
    input logic [AddrWidth-1:0] addr_i,
    input logic [          7:0] len_i,
    input logic [          2:0] size_i,
    input logic [          1:0] burst_i,
    input logic                 lock_i,
    input logic [          3:0] cache_i
);
  localparam string      Rule       = {"ERRM_", Channel};
  localparam logic [2:0] SizeMax    = 3'($clog2(DataWidth / 8));
  localparam logic [1:0] BurstFixed = 2'b00;
  localparam logic [1:0] BurstIncr  = 2'b01;
  localparam logic [1:0] BurstWrap  = 2'b10;

  always_ff @(posedge clk_i) begin
    if (check_i) begin
      automatic logic [11:0] size_mask = (12'd1 << size_i) - 12'd1;
      automatic logic [15:0] burst_end = {4'b0, addr_i[11:0] & ~size_mask} + ((16'(len_i) + 16'd1) << size_i);
      `AXI_RULE(Rule, BURST, Manager, burst_i != 2'b11, "burst type 3 is reserved")
      `AXI_RULE(Rule, SIZE, Manager, size_i <= SizeMax, "a beat must not be wider than the bus")
      `AXI_RULE(Rule, ADDR_BOUNDARY, Manager, burst_i != BurstIncr || burst_end <= 16'd4096,
                "a burst must not cross a 4 KiB boundary")
      `AXI_RULE(Rule, LEN_FIXED, Manager, burst_i != BurstFixed || len_i < 8'd16,
                "a FIXED burst has at most 16 beats")
      `AXI_RULE(Rule, LEN_WRAP, Manager,
                burst_i != BurstWrap || len_i inside {8'd1, 8'd3, 8'd7, 8'd15},
                "a WRAP burst has 2, 4, 8 or 16 beats")
      `AXI_RULE(Rule, ADDR_WRAP_ALIGN, Manager,
                burst_i != BurstWrap || (addr_i[11:0] & size_mask) == '0,
                "a WRAP burst starts at a multiple of its beat")
      `AXI_RULE(Rule, LEN_LOCK, Manager, !lock_i || len_i < 8'd16,
                "an exclusive access has at most 16 beats")
      `AXI_RULE(Rule, CACHE, Manager, cache_i[1] || cache_i[3:2] == '0,
                "what is not modifiable must not be allocated")
    end
  end

  logic unused;
  assign unused = &{1'b0, addr_i, cache_i[0]};
endmodule
