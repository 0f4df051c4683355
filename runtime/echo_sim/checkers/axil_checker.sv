// Protocol checker of an AXI4-Lite port, in the manner of axi4_checker: AXI4LITE_ERRM_... is a rule of the manager,
// AXI4LITE_ERRS_... one of the subordinate, AXI4LITE_REC... a bounded response.
//
// The subordinate's bounds do not count clocks in which the manager delays it: while a response is not taken and, for a
// write, while its address or its data is missing.
`include "axi_channel.svh"
`include "axi_rule.svh"

module axil_checker #(
    parameter string       Manager            = "manager",      // names of both sides in messages
    parameter string       Subordinate        = "subordinate",
    parameter int unsigned AddrWidth          = 32,
    parameter int unsigned DataWidth          = 32,
    parameter int          ManagerMaxWait     = -1,             // clocks a response waits; negative: no bound
    parameter int          SubordinateMaxWait = -1,             // clocks an address or write data waits
    parameter int          ResponseMaxWait    = -1              // clocks in which an access is under way, not answered
) (
    input logic                   clk_i,
    input logic                   rst_ni,
    input logic                   awvalid_i,
    input logic                   awready_i,
    input logic [  AddrWidth-1:0] awaddr_i,
    input logic [            2:0] awprot_i,
    input logic                   wvalid_i,
    input logic                   wready_i,
    input logic [  DataWidth-1:0] wdata_i,
    input logic [DataWidth/8-1:0] wstrb_i,
    input logic                   bvalid_i,
    input logic                   bready_i,
    input logic [            1:0] bresp_i,
    input logic                   arvalid_i,
    input logic                   arready_i,
    input logic [  AddrWidth-1:0] araddr_i,
    input logic [            2:0] arprot_i,
    input logic                   rvalid_i,
    input logic                   rready_i,
    input logic [  DataWidth-1:0] rdata_i,
    input logic [            1:0] rresp_i
);
  localparam string      Protocol   = "AXI4LITE";
  localparam logic [1:0] RespExOkay = 2'b01;

  typedef logic [15:0] count_t;

  // What was taken and is not answered yet.
  count_t aw_count_q, w_count_q, ar_count_q;
  logic   aw_first, w_first, b_first, ar_first, r_first;
  logic   held;  // the manager does not take a response
  logic   active_q;  // there was a reset: before it everything is random

  assign held = (bvalid_i && !bready_i) || (rvalid_i && !rready_i);

  `AXI_CHANNEL(aw, "AW", 1'b1, SubordinateMaxWait, awprot_i, awaddr_i, held || (aw_count_q > w_count_q && !wvalid_i))
  `AXI_CHANNEL(w, "W", 1'b1, SubordinateMaxWait, wstrb_i, wdata_i, held || (w_count_q > aw_count_q && !awvalid_i))
  `AXI_CHANNEL(b, "B", 1'b0, ManagerMaxWait, 1'b0, bresp_i, 1'b0)
  `AXI_CHANNEL(ar, "AR", 1'b1, SubordinateMaxWait, arprot_i, araddr_i, held)
  `AXI_CHANNEL(r, "R", 1'b0, ManagerMaxWait, rresp_i, rdata_i, 1'b0)

  logic [31:0] b_waited_q, r_waited_q;  // clocks since the last response or since there was nothing to answer

  initial active_q = 1'b0;

  always @(posedge clk_i) begin
    if (!rst_ni) begin
      active_q   <= 1'b1;
      aw_count_q <= '0;
      w_count_q  <= '0;
      ar_count_q <= '0;
      b_waited_q <= '0;
      r_waited_q <= '0;
    end else if (active_q) begin
      if (b_first) begin
        `AXI_RULE("ERRS_", BRESP_AW, Subordinate, aw_count_q != '0,
                  "a response must answer a write whose address was taken")
        `AXI_RULE("ERRS_", BRESP_W, Subordinate, aw_count_q == '0 || w_count_q != '0,
                  "a response must come after the data of its write")
        `AXI_RULE("ERRS_", BRESP_EXOKAY, Subordinate, bresp_i != RespExOkay, "AXI4-Lite has no EXOKAY")
      end
      if (r_first) begin
        `AXI_RULE("ERRS_", RDATA_NUM, Subordinate, ar_count_q != '0,
                  "data must answer a read whose address was taken")
        `AXI_RULE("ERRS_", RRESP_EXOKAY, Subordinate, rresp_i != RespExOkay, "AXI4-Lite has no EXOKAY")
      end
      if (awvalid_i || wvalid_i || bvalid_i) begin
        aw_count_q <= aw_count_q + count_t'(awvalid_i && awready_i) - count_t'(bvalid_i && bready_i);
        w_count_q  <= w_count_q + count_t'(wvalid_i && wready_i) - count_t'(bvalid_i && bready_i);
      end
      if (arvalid_i || rvalid_i) begin
        ar_count_q <= ar_count_q + count_t'(arvalid_i && arready_i) - count_t'(rvalid_i && rready_i);
      end
      if (ResponseMaxWait >= 0) begin
        if (bvalid_i || aw_count_q == '0 || w_count_q == '0) begin
          b_waited_q <= '0;
        end else if (!held) begin
          `AXI_RULE("RECS_", BVALID_MAX_WAIT, Subordinate, b_waited_q < 32'(ResponseMaxWait),
                    "a write must not take longer than was promised")
          b_waited_q <= b_waited_q + 32'd1;
        end
        if (rvalid_i || ar_count_q == '0) begin
          r_waited_q <= '0;
        end else if (!held) begin
          `AXI_RULE("RECS_", RVALID_MAX_WAIT, Subordinate, r_waited_q < 32'(ResponseMaxWait),
                    "a read must not take longer than was promised")
          r_waited_q <= r_waited_q + 32'd1;
        end
      end
    end
  end

  logic unused;
  assign unused = &{1'b0, aw_first, w_first, ar_first, b_waited_q, r_waited_q};
endmodule
