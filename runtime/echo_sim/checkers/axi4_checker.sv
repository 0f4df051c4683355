// Protocol checker of an AXI4 port. It is passive and samples at the clock edge. A broken rule is an error with the
// rule's name, as in Arm's protocol assertions: AXI4_ERRM_... is a rule of the manager, AXI4_ERRS_... one of the
// subordinate, AXI4_REC... a response time that the port promises, AXI4_AUX... a bound on outstanding transfers.
//
// Nothing is checked before the first reset.
`include "axi_channel.svh"

module axi4_checker #(
    parameter string       Manager            = "manager",      // names of both sides in messages
    parameter string       Subordinate        = "subordinate",
    parameter int unsigned AddrWidth          = 32,             // at least 12
    parameter int unsigned DataWidth          = 64,             // bits
    parameter int unsigned IdWidth            = 4,
    parameter int unsigned MaxWrites          = 16,             // bursts without a response
    parameter int unsigned MaxReads           = 16,             // unfinished bursts of one ID; a power of two
    parameter int unsigned MaxEarly           = 256,            // beats of write data before their address
    parameter int          ManagerMaxWait     = -1,             // clocks a response waits; negative: no bound
    parameter int          SubordinateMaxWait = -1,             // clocks an address or write data waits
    parameter int          DataMaxWait        = -1,             // clocks without write data whose address was taken
    parameter bit          CheckBursts        = 1'b1            // 0: the manager may ask for bursts that AXI4 forbids
) (
    input logic                   clk_i,
    input logic                   rst_ni,
    input logic                   awvalid_i,
    input logic                   awready_i,
    input logic [    IdWidth-1:0] awid_i,
    input logic [  AddrWidth-1:0] awaddr_i,
    input logic [            7:0] awlen_i,
    input logic [            2:0] awsize_i,
    input logic [            1:0] awburst_i,
    input logic                   awlock_i,
    input logic [            3:0] awcache_i,
    input logic [            2:0] awprot_i,
    input logic [            3:0] awqos_i,
    input logic                   wvalid_i,
    input logic                   wready_i,
    input logic [  DataWidth-1:0] wdata_i,
    input logic [DataWidth/8-1:0] wstrb_i,
    input logic                   wlast_i,
    input logic                   bvalid_i,
    input logic                   bready_i,
    input logic [    IdWidth-1:0] bid_i,
    input logic [            1:0] bresp_i,
    input logic                   arvalid_i,
    input logic                   arready_i,
    input logic [    IdWidth-1:0] arid_i,
    input logic [  AddrWidth-1:0] araddr_i,
    input logic [            7:0] arlen_i,
    input logic [            2:0] arsize_i,
    input logic [            1:0] arburst_i,
    input logic                   arlock_i,
    input logic [            3:0] arcache_i,
    input logic [            2:0] arprot_i,
    input logic [            3:0] arqos_i,
    input logic                   rvalid_i,
    input logic                   rready_i,
    input logic [    IdWidth-1:0] rid_i,
    input logic [  DataWidth-1:0] rdata_i,
    input logic [            1:0] rresp_i,
    input logic                   rlast_i
);
  localparam string Protocol = "AXI4";

  logic aw_first, w_first, b_first, ar_first, r_first;

  `AXI_CHANNEL(aw, "AW", 1'b1, SubordinateMaxWait,
               {awid_i, awlen_i, awsize_i, awburst_i, awlock_i, awcache_i, awprot_i, awqos_i}, awaddr_i, 1'b0)
  `AXI_CHANNEL(w, "W", 1'b1, SubordinateMaxWait, {wstrb_i, wlast_i}, wdata_i, 1'b0)
  `AXI_CHANNEL(b, "B", 1'b0, ManagerMaxWait, bid_i, bresp_i, 1'b0)
  `AXI_CHANNEL(ar, "AR", 1'b1, SubordinateMaxWait,
               {arid_i, arlen_i, arsize_i, arburst_i, arlock_i, arcache_i, arprot_i, arqos_i}, araddr_i, 1'b0)
  `AXI_CHANNEL(r, "R", 1'b0, ManagerMaxWait, {rid_i, rresp_i, rlast_i}, rdata_i, 1'b0)

  // Before the first reset everything is random.
  logic active_q;
  initial active_q = 1'b0;
  always @(posedge clk_i) if (!rst_ni) active_q <= 1'b1;

  if (CheckBursts) begin : g_bursts
    axi_burst_checker #(
        .Channel  ("AW"),
        .Manager  (Manager),
        .AddrWidth(AddrWidth),
        .DataWidth(DataWidth)
    ) aw_burst (
        .clk_i,
        .check_i(aw_first && rst_ni && active_q),
        .addr_i (awaddr_i),
        .len_i  (awlen_i),
        .size_i (awsize_i),
        .burst_i(awburst_i),
        .lock_i (awlock_i),
        .cache_i(awcache_i)
    );
    axi_burst_checker #(
        .Channel  ("AR"),
        .Manager  (Manager),
        .AddrWidth(AddrWidth),
        .DataWidth(DataWidth)
    ) ar_burst (
        .clk_i,
        .check_i(ar_first && rst_ni && active_q),
        .addr_i (araddr_i),
        .len_i  (arlen_i),
        .size_i (arsize_i),
        .burst_i(arburst_i),
        .lock_i (arlock_i),
        .cache_i(arcache_i)
    );
  end

  axi_write_checker #(
      .Manager    (Manager),
      .Subordinate(Subordinate),
      .DataWidth  (DataWidth),
      .IdWidth    (IdWidth),
      .MaxWrites  (MaxWrites),
      .MaxEarly   (MaxEarly),
      .DataMaxWait(DataMaxWait),
      .CheckLanes (CheckBursts)
  ) write (
      .clk_i,
      .rst_ni    (rst_ni && active_q),
      .aw_taken_i(awvalid_i && awready_i),
      .awid_i,
      .awaddr_i  (awaddr_i[11:0]),
      .awlen_i,
      .awsize_i,
      .awburst_i,
      .wvalid_i,
      .w_taken_i (wvalid_i && wready_i),
      .wstrb_i,
      .wlast_i,
      .b_first_i (b_first),
      .b_taken_i (bvalid_i && bready_i),
      .bid_i,
      .bresp_i
  );

  axi_read_checker #(
      .Subordinate(Subordinate),
      .IdWidth    (IdWidth),
      .MaxReads   (MaxReads)
  ) read (
      .clk_i,
      .rst_ni    (rst_ni && active_q),
      .ar_taken_i(arvalid_i && arready_i),
      .arid_i,
      .arlen_i,
      .r_first_i (r_first),
      .r_taken_i (rvalid_i && rready_i),
      .rid_i,
      .rresp_i,
      .rlast_i
  );

  logic unused;
  assign unused = w_first;
endmodule
