// A second device without clock gating beside npu_tb's `dut`: same inputs, and every output is the same in every clock.
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
    parameter int unsigned QueueDepth,
    parameter int unsigned Pipeline
) (
    input logic clk_i,
    input logic rst_ni
);
`define SAME(Input) .Input(npu_tb.dut.Input)

  // The outputs are read by name, below.
  // verilator lint_off PINMISSING
  npu_top #(
      .ArrayRows   (ArrayRows),
      .ArrayCols   (ArrayCols),
      .VectorLanes (VectorLanes),
      .VectorLength(VectorLength),
      .RowElements (RowElements),
      .ProgramWords(ProgramWords),
      .DataWidth   (DataWidth),
      .BlockM      (BlockM),
      .BlockKTiles (BlockKTiles),
      .BlockNTiles (BlockNTiles),
      .AccEntries  (AccEntries),
      .QueueDepth  (QueueDepth),
      .ClockGating (0),
      .Pipeline    (Pipeline)
  ) ungated (
      .clk        (clk_i),
      .rst_n      (rst_ni),
      .test_enable(1'b0),
      `SAME(s_axil_awaddr),
      `SAME(s_axil_awprot),
      `SAME(s_axil_awvalid),
      `SAME(s_axil_wdata),
      `SAME(s_axil_wstrb),
      `SAME(s_axil_wvalid),
      `SAME(s_axil_bready),
      `SAME(s_axil_araddr),
      `SAME(s_axil_arprot),
      `SAME(s_axil_arvalid),
      `SAME(s_axil_rready),
      `SAME(s_axi_awid),
      `SAME(s_axi_awaddr),
      `SAME(s_axi_awlen),
      `SAME(s_axi_awsize),
      `SAME(s_axi_awburst),
      `SAME(s_axi_awlock),
      `SAME(s_axi_awcache),
      `SAME(s_axi_awprot),
      `SAME(s_axi_awqos),
      `SAME(s_axi_awvalid),
      `SAME(s_axi_wdata),
      `SAME(s_axi_wstrb),
      `SAME(s_axi_wlast),
      `SAME(s_axi_wvalid),
      `SAME(s_axi_bready),
      `SAME(s_axi_arid),
      `SAME(s_axi_araddr),
      `SAME(s_axi_arlen),
      `SAME(s_axi_arsize),
      `SAME(s_axi_arburst),
      `SAME(s_axi_arlock),
      `SAME(s_axi_arcache),
      `SAME(s_axi_arprot),
      `SAME(s_axi_arqos),
      `SAME(s_axi_arvalid),
      `SAME(s_axi_rready),
      `SAME(m_axi_awready),
      `SAME(m_axi_wready),
      `SAME(m_axi_bid),
      `SAME(m_axi_bresp),
      `SAME(m_axi_bvalid),
      `SAME(m_axi_arready),
      `SAME(m_axi_rid),
      `SAME(m_axi_rdata),
      `SAME(m_axi_rresp),
      `SAME(m_axi_rlast),
      `SAME(m_axi_rvalid)
  );
  // verilator lint_on PINMISSING

`undef SAME

  // Payload counts only while it is valid, and write data where it has a strobe: the rest is what the device powered up
  // with, or data of the past.
  logic [DataWidth-1:0] strobes;
  for (genvar i = 0; i < DataWidth / 8; i++) begin : g_strobes
    assign strobes[8*i+:8] = {8{npu_tb.dut.m_axi_wstrb[i]}};
  end

`define AGREE(Output, Valid = rst_n, Mask = '1) \
  always @(posedge clk_i) begin \
    if (rst_ni && npu_tb.dut.Valid && ((npu_tb.dut.Output ^ ungated.Output) & Mask) != '0) begin \
      Output``Agrees : assert (1'b0) \
      else $error("%m: it is %0h, and %0h without clock gating", npu_tb.dut.Output, ungated.Output); \
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
