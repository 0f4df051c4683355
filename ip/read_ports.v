// SPDX-License-Identifier: Apache-2.0
// Yosys' techmap of a memory with more than MOST_READ_PORTS read ports into copies with at most so many, which hold the
// same words: all have all write ports. An FPGA's RAM has one or two, and memory_libmap ends with an exception on 16.
(* techmap_celltype = "$mem_v2" *)
module memory_with_copies (
    RD_CLK, RD_EN, RD_ARST, RD_SRST, RD_ADDR, RD_DATA, WR_CLK, WR_EN, WR_ADDR, WR_DATA
);
  parameter MEMID = "";
  parameter signed SIZE = 1;
  parameter signed OFFSET = 0;
  parameter signed ABITS = 1;
  parameter signed WIDTH = 1;
  parameter signed INIT = 1'bx;
  parameter signed RD_PORTS = 1;
  parameter RD_CLK_ENABLE = 1'b1;
  parameter RD_CLK_POLARITY = 1'b1;
  parameter RD_TRANSPARENCY_MASK = 1'b0;
  parameter RD_COLLISION_X_MASK = 1'b0;
  parameter RD_WIDE_CONTINUATION = 1'b0;
  parameter RD_CE_OVER_SRST = 1'b0;
  parameter RD_ARST_VALUE = 1'b0;
  parameter RD_SRST_VALUE = 1'b0;
  parameter RD_INIT_VALUE = 1'b0;
  parameter signed WR_PORTS = 1;
  parameter WR_CLK_ENABLE = 1'b1;
  parameter WR_CLK_POLARITY = 1'b1;
  parameter WR_PRIORITY_MASK = 1'b0;
  parameter WR_WIDE_CONTINUATION = 1'b0;
  input [RD_PORTS-1:0] RD_CLK, RD_EN, RD_ARST, RD_SRST;
  input [RD_PORTS*ABITS-1:0] RD_ADDR;
  output [RD_PORTS*WIDTH-1:0] RD_DATA;
  input [WR_PORTS-1:0] WR_CLK;
  input [WR_PORTS*WIDTH-1:0] WR_EN, WR_DATA;
  input [WR_PORTS*ABITS-1:0] WR_ADDR;

  localparam Most = `MOST_READ_PORTS;
  // A wide port is several that must stay together.
  wire _TECHMAP_FAIL_ = RD_PORTS <= Most || RD_WIDE_CONTINUATION != 0;

  genvar first;
  generate
    for (first = 0; first < RD_PORTS; first = first + Most) begin : copies
      localparam [7:0] Tens = "0" + first / Most / 10;
      localparam [7:0] Ones = "0" + first / Most % 10;
      localparam Ports = RD_PORTS - first < Most ? RD_PORTS - first : Most;
      \$mem_v2 #(
          .MEMID({MEMID, "_copy", Tens, Ones}),  // no two memories may have one name
          .SIZE(SIZE),
          .OFFSET(OFFSET),
          .ABITS(ABITS),
          .WIDTH(WIDTH),
          .INIT(INIT),
          .RD_PORTS(Ports),
          .RD_CLK_ENABLE(RD_CLK_ENABLE[first+:Ports]),
          .RD_CLK_POLARITY(RD_CLK_POLARITY[first+:Ports]),
          .RD_TRANSPARENCY_MASK(RD_TRANSPARENCY_MASK[first*WR_PORTS+:Ports*WR_PORTS]),
          .RD_COLLISION_X_MASK(RD_COLLISION_X_MASK[first*WR_PORTS+:Ports*WR_PORTS]),
          .RD_WIDE_CONTINUATION(RD_WIDE_CONTINUATION[first+:Ports]),
          .RD_CE_OVER_SRST(RD_CE_OVER_SRST[first+:Ports]),
          .RD_ARST_VALUE(RD_ARST_VALUE[first*WIDTH+:Ports*WIDTH]),
          .RD_SRST_VALUE(RD_SRST_VALUE[first*WIDTH+:Ports*WIDTH]),
          .RD_INIT_VALUE(RD_INIT_VALUE[first*WIDTH+:Ports*WIDTH]),
          .WR_PORTS(WR_PORTS),
          .WR_CLK_ENABLE(WR_CLK_ENABLE),
          .WR_CLK_POLARITY(WR_CLK_POLARITY),
          .WR_PRIORITY_MASK(WR_PRIORITY_MASK),
          .WR_WIDE_CONTINUATION(WR_WIDE_CONTINUATION)
      ) memory (
          .RD_CLK(RD_CLK[first+:Ports]),
          .RD_EN(RD_EN[first+:Ports]),
          .RD_ARST(RD_ARST[first+:Ports]),
          .RD_SRST(RD_SRST[first+:Ports]),
          .RD_ADDR(RD_ADDR[first*ABITS+:Ports*ABITS]),
          .RD_DATA(RD_DATA[first*WIDTH+:Ports*WIDTH]),
          .WR_CLK(WR_CLK),
          .WR_EN(WR_EN),
          .WR_ADDR(WR_ADDR),
          .WR_DATA(WR_DATA)
      );
    end
  endgenerate
endmodule
