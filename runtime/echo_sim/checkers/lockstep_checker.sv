// A second device without clock gating beside the first: same inputs, and every output is the same in every clock.
module lockstep_checker #(
    parameter int unsigned ArrayRows,
    parameter int unsigned ArrayCols,
    parameter int unsigned VectorLanes,
    parameter int unsigned VectorLength,
    parameter int unsigned RowElements,
    parameter int unsigned ProgramWords,
    parameter int unsigned DataWidth,
    parameter int unsigned BlockM,
    parameter int unsigned BlockKTiles,
    parameter int unsigned BlockNTiles,
    parameter int unsigned AccEntries,
    parameter int unsigned QueueDepth
) (
    input logic clk,
    input logic rst_n,
    // inputs of the device
    input logic [15:0]             s_axil_awaddr,
    input logic [2:0]              s_axil_awprot,
    input logic                    s_axil_awvalid,
    input logic [31:0]             s_axil_wdata,
    input logic [3:0]              s_axil_wstrb,
    input logic                    s_axil_wvalid,
    input logic                    s_axil_bready,
    input logic [15:0]             s_axil_araddr,
    input logic [2:0]              s_axil_arprot,
    input logic                    s_axil_arvalid,
    input logic                    s_axil_rready,
    input logic [3:0]              s_axi_awid,
    input logic [31:0]             s_axi_awaddr,
    input logic [7:0]              s_axi_awlen,
    input logic [2:0]              s_axi_awsize,
    input logic [1:0]              s_axi_awburst,
    input logic                    s_axi_awlock,
    input logic [3:0]              s_axi_awcache,
    input logic [2:0]              s_axi_awprot,
    input logic [3:0]              s_axi_awqos,
    input logic                    s_axi_awvalid,
    input logic [DataWidth-1:0]    s_axi_wdata,
    input logic [DataWidth/8-1:0]  s_axi_wstrb,
    input logic                    s_axi_wlast,
    input logic                    s_axi_wvalid,
    input logic                    s_axi_bready,
    input logic [3:0]              s_axi_arid,
    input logic [31:0]             s_axi_araddr,
    input logic [7:0]              s_axi_arlen,
    input logic [2:0]              s_axi_arsize,
    input logic [1:0]              s_axi_arburst,
    input logic                    s_axi_arlock,
    input logic [3:0]              s_axi_arcache,
    input logic [2:0]              s_axi_arprot,
    input logic [3:0]              s_axi_arqos,
    input logic                    s_axi_arvalid,
    input logic                    s_axi_rready,
    input logic                    m_axi_awready,
    input logic                    m_axi_wready,
    input logic [7:0]              m_axi_bid,
    input logic [1:0]              m_axi_bresp,
    input logic                    m_axi_bvalid,
    input logic                    m_axi_arready,
    input logic [7:0]              m_axi_rid,
    input logic [DataWidth-1:0]    m_axi_rdata,
    input logic [1:0]              m_axi_rresp,
    input logic                    m_axi_rlast,
    input logic                    m_axi_rvalid,
    // its outputs
    input logic                    irq,
    input logic                    s_axil_awready,
    input logic                    s_axil_wready,
    input logic [1:0]              s_axil_bresp,
    input logic                    s_axil_bvalid,
    input logic                    s_axil_arready,
    input logic [31:0]             s_axil_rdata,
    input logic [1:0]              s_axil_rresp,
    input logic                    s_axil_rvalid,
    input logic                    s_axi_awready,
    input logic                    s_axi_wready,
    input logic [3:0]              s_axi_bid,
    input logic [1:0]              s_axi_bresp,
    input logic                    s_axi_bvalid,
    input logic                    s_axi_arready,
    input logic [3:0]              s_axi_rid,
    input logic [DataWidth-1:0]    s_axi_rdata,
    input logic [1:0]              s_axi_rresp,
    input logic                    s_axi_rlast,
    input logic                    s_axi_rvalid,
    input logic [7:0]              m_axi_awid,
    input logic [31:0]             m_axi_awaddr,
    input logic [7:0]              m_axi_awlen,
    input logic [2:0]              m_axi_awsize,
    input logic [1:0]              m_axi_awburst,
    input logic                    m_axi_awlock,
    input logic [3:0]              m_axi_awcache,
    input logic [2:0]              m_axi_awprot,
    input logic [3:0]              m_axi_awqos,
    input logic                    m_axi_awvalid,
    input logic [DataWidth-1:0]    m_axi_wdata,
    input logic [DataWidth/8-1:0]  m_axi_wstrb,
    input logic                    m_axi_wlast,
    input logic                    m_axi_wvalid,
    input logic                    m_axi_bready,
    input logic [7:0]              m_axi_arid,
    input logic [31:0]             m_axi_araddr,
    input logic [7:0]              m_axi_arlen,
    input logic [2:0]              m_axi_arsize,
    input logic [1:0]              m_axi_arburst,
    input logic                    m_axi_arlock,
    input logic [3:0]              m_axi_arcache,
    input logic [2:0]              m_axi_arprot,
    input logic [3:0]              m_axi_arqos,
    input logic                    m_axi_arvalid,
    input logic                    m_axi_rready
);
  logic open_irq;
  logic open_s_axil_awready;
  logic open_s_axil_wready;
  logic [1:0] open_s_axil_bresp;
  logic open_s_axil_bvalid;
  logic open_s_axil_arready;
  logic [31:0] open_s_axil_rdata;
  logic [1:0] open_s_axil_rresp;
  logic open_s_axil_rvalid;
  logic open_s_axi_awready;
  logic open_s_axi_wready;
  logic [3:0] open_s_axi_bid;
  logic [1:0] open_s_axi_bresp;
  logic open_s_axi_bvalid;
  logic open_s_axi_arready;
  logic [3:0] open_s_axi_rid;
  logic [DataWidth-1:0] open_s_axi_rdata;
  logic [1:0] open_s_axi_rresp;
  logic open_s_axi_rlast;
  logic open_s_axi_rvalid;
  logic [7:0] open_m_axi_awid;
  logic [31:0] open_m_axi_awaddr;
  logic [7:0] open_m_axi_awlen;
  logic [2:0] open_m_axi_awsize;
  logic [1:0] open_m_axi_awburst;
  logic open_m_axi_awlock;
  logic [3:0] open_m_axi_awcache;
  logic [2:0] open_m_axi_awprot;
  logic [3:0] open_m_axi_awqos;
  logic open_m_axi_awvalid;
  logic [DataWidth-1:0] open_m_axi_wdata;
  logic [DataWidth/8-1:0] open_m_axi_wstrb;
  logic open_m_axi_wlast;
  logic open_m_axi_wvalid;
  logic open_m_axi_bready;
  logic [7:0] open_m_axi_arid;
  logic [31:0] open_m_axi_araddr;
  logic [7:0] open_m_axi_arlen;
  logic [2:0] open_m_axi_arsize;
  logic [1:0] open_m_axi_arburst;
  logic open_m_axi_arlock;
  logic [3:0] open_m_axi_arcache;
  logic [2:0] open_m_axi_arprot;
  logic [3:0] open_m_axi_arqos;
  logic open_m_axi_arvalid;
  logic open_m_axi_rready;

  npu_top #(
      .ArrayRows(ArrayRows),
      .ArrayCols(ArrayCols),
      .VectorLanes(VectorLanes),
      .VectorLength(VectorLength),
      .RowElements(RowElements),
      .ProgramWords(ProgramWords),
      .DataWidth(DataWidth),
      .BlockM(BlockM),
      .BlockKTiles(BlockKTiles),
      .BlockNTiles(BlockNTiles),
      .AccEntries(AccEntries),
      .QueueDepth(QueueDepth),
      .ClockGating(0)
  ) ungated (
      .clk,
      .rst_n,
      .test_enable(1'b0),
      .s_axil_awaddr,
      .s_axil_awprot,
      .s_axil_awvalid,
      .s_axil_wdata,
      .s_axil_wstrb,
      .s_axil_wvalid,
      .s_axil_bready,
      .s_axil_araddr,
      .s_axil_arprot,
      .s_axil_arvalid,
      .s_axil_rready,
      .s_axi_awid,
      .s_axi_awaddr,
      .s_axi_awlen,
      .s_axi_awsize,
      .s_axi_awburst,
      .s_axi_awlock,
      .s_axi_awcache,
      .s_axi_awprot,
      .s_axi_awqos,
      .s_axi_awvalid,
      .s_axi_wdata,
      .s_axi_wstrb,
      .s_axi_wlast,
      .s_axi_wvalid,
      .s_axi_bready,
      .s_axi_arid,
      .s_axi_araddr,
      .s_axi_arlen,
      .s_axi_arsize,
      .s_axi_arburst,
      .s_axi_arlock,
      .s_axi_arcache,
      .s_axi_arprot,
      .s_axi_arqos,
      .s_axi_arvalid,
      .s_axi_rready,
      .m_axi_awready,
      .m_axi_wready,
      .m_axi_bid,
      .m_axi_bresp,
      .m_axi_bvalid,
      .m_axi_arready,
      .m_axi_rid,
      .m_axi_rdata,
      .m_axi_rresp,
      .m_axi_rlast,
      .m_axi_rvalid,
      .irq(open_irq),
      .s_axil_awready(open_s_axil_awready),
      .s_axil_wready(open_s_axil_wready),
      .s_axil_bresp(open_s_axil_bresp),
      .s_axil_bvalid(open_s_axil_bvalid),
      .s_axil_arready(open_s_axil_arready),
      .s_axil_rdata(open_s_axil_rdata),
      .s_axil_rresp(open_s_axil_rresp),
      .s_axil_rvalid(open_s_axil_rvalid),
      .s_axi_awready(open_s_axi_awready),
      .s_axi_wready(open_s_axi_wready),
      .s_axi_bid(open_s_axi_bid),
      .s_axi_bresp(open_s_axi_bresp),
      .s_axi_bvalid(open_s_axi_bvalid),
      .s_axi_arready(open_s_axi_arready),
      .s_axi_rid(open_s_axi_rid),
      .s_axi_rdata(open_s_axi_rdata),
      .s_axi_rresp(open_s_axi_rresp),
      .s_axi_rlast(open_s_axi_rlast),
      .s_axi_rvalid(open_s_axi_rvalid),
      .m_axi_awid(open_m_axi_awid),
      .m_axi_awaddr(open_m_axi_awaddr),
      .m_axi_awlen(open_m_axi_awlen),
      .m_axi_awsize(open_m_axi_awsize),
      .m_axi_awburst(open_m_axi_awburst),
      .m_axi_awlock(open_m_axi_awlock),
      .m_axi_awcache(open_m_axi_awcache),
      .m_axi_awprot(open_m_axi_awprot),
      .m_axi_awqos(open_m_axi_awqos),
      .m_axi_awvalid(open_m_axi_awvalid),
      .m_axi_wdata(open_m_axi_wdata),
      .m_axi_wstrb(open_m_axi_wstrb),
      .m_axi_wlast(open_m_axi_wlast),
      .m_axi_wvalid(open_m_axi_wvalid),
      .m_axi_bready(open_m_axi_bready),
      .m_axi_arid(open_m_axi_arid),
      .m_axi_araddr(open_m_axi_araddr),
      .m_axi_arlen(open_m_axi_arlen),
      .m_axi_arsize(open_m_axi_arsize),
      .m_axi_arburst(open_m_axi_arburst),
      .m_axi_arlock(open_m_axi_arlock),
      .m_axi_arcache(open_m_axi_arcache),
      .m_axi_arprot(open_m_axi_arprot),
      .m_axi_arqos(open_m_axi_arqos),
      .m_axi_arvalid(open_m_axi_arvalid),
      .m_axi_rready(open_m_axi_rready)
  );

  // Payload counts only while it is valid, and write data where it has a strobe: the rest is what the device powered up
  // with, or data of the past.
  logic [DataWidth-1:0] strobes;
  for (genvar i = 0; i < DataWidth / 8; i++) begin : g_strobes
    assign strobes[8*i+:8] = {8{m_axi_wstrb[i]}};
  end

`define AGREE(Signal, Valid = 1'b1, Mask = '1) \
  always @(posedge clk) begin \
    if (rst_n && (Valid) && ((Signal ^ open_``Signal) & Mask) != '0) begin \
      Signal``Agrees : assert (1'b0) \
      else $error("%m: it is %0h, and %0h without clock gating", Signal, open_``Signal); \
    end \
  end

  `AGREE(irq)
  `AGREE(s_axil_awready)
  `AGREE(s_axil_wready)
  `AGREE(s_axil_bresp, s_axil_bvalid)
  `AGREE(s_axil_bvalid)
  `AGREE(s_axil_arready)
  `AGREE(s_axil_rdata, s_axil_rvalid)
  `AGREE(s_axil_rresp, s_axil_rvalid)
  `AGREE(s_axil_rvalid)
  `AGREE(s_axi_awready)
  `AGREE(s_axi_wready)
  `AGREE(s_axi_bid, s_axi_bvalid)
  `AGREE(s_axi_bresp, s_axi_bvalid)
  `AGREE(s_axi_bvalid)
  `AGREE(s_axi_arready)
  `AGREE(s_axi_rid, s_axi_rvalid)
  `AGREE(s_axi_rdata, s_axi_rvalid)
  `AGREE(s_axi_rresp, s_axi_rvalid)
  `AGREE(s_axi_rlast, s_axi_rvalid)
  `AGREE(s_axi_rvalid)
  `AGREE(m_axi_awid, m_axi_awvalid)
  `AGREE(m_axi_awaddr, m_axi_awvalid)
  `AGREE(m_axi_awlen, m_axi_awvalid)
  `AGREE(m_axi_awsize, m_axi_awvalid)
  `AGREE(m_axi_awburst, m_axi_awvalid)
  `AGREE(m_axi_awlock, m_axi_awvalid)
  `AGREE(m_axi_awcache, m_axi_awvalid)
  `AGREE(m_axi_awprot, m_axi_awvalid)
  `AGREE(m_axi_awqos, m_axi_awvalid)
  `AGREE(m_axi_awvalid)
  `AGREE(m_axi_wdata, m_axi_wvalid, strobes)
  `AGREE(m_axi_wstrb, m_axi_wvalid)
  `AGREE(m_axi_wlast, m_axi_wvalid)
  `AGREE(m_axi_wvalid)
  `AGREE(m_axi_bready)
  `AGREE(m_axi_arid, m_axi_arvalid)
  `AGREE(m_axi_araddr, m_axi_arvalid)
  `AGREE(m_axi_arlen, m_axi_arvalid)
  `AGREE(m_axi_arsize, m_axi_arvalid)
  `AGREE(m_axi_arburst, m_axi_arvalid)
  `AGREE(m_axi_arlock, m_axi_arvalid)
  `AGREE(m_axi_arcache, m_axi_arvalid)
  `AGREE(m_axi_arprot, m_axi_arvalid)
  `AGREE(m_axi_arqos, m_axi_arvalid)
  `AGREE(m_axi_arvalid)
  `AGREE(m_axi_rready)

`undef AGREE
endmodule
