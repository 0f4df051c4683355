// The memory model alone, under the names that an AXI library binds to.
module dram_tb #(
    parameter int DataWidth = 64
) (
    input  logic                   clk,
    input  logic                   rst_n,
    input  logic                   m_axi_awvalid,
    output logic                   m_axi_awready,
    input  logic [            7:0] m_axi_awid,
    input  logic [           31:0] m_axi_awaddr,
    input  logic [            7:0] m_axi_awlen,
    input  logic [            2:0] m_axi_awsize,
    input  logic [            1:0] m_axi_awburst,
    input  logic                   m_axi_wvalid,
    output logic                   m_axi_wready,
    input  logic [  DataWidth-1:0] m_axi_wdata,
    input  logic [DataWidth/8-1:0] m_axi_wstrb,
    input  logic                   m_axi_wlast,
    output logic                   m_axi_bvalid,
    input  logic                   m_axi_bready,
    output logic [            7:0] m_axi_bid,
    output logic [            1:0] m_axi_bresp,
    input  logic                   m_axi_arvalid,
    output logic                   m_axi_arready,
    input  logic [            7:0] m_axi_arid,
    input  logic [           31:0] m_axi_araddr,
    input  logic [            7:0] m_axi_arlen,
    input  logic [            2:0] m_axi_arsize,
    input  logic [            1:0] m_axi_arburst,
    output logic                   m_axi_rvalid,
    input  logic                   m_axi_rready,
    output logic [            7:0] m_axi_rid,
    output logic [  DataWidth-1:0] m_axi_rdata,
    output logic [            1:0] m_axi_rresp,
    output logic                   m_axi_rlast
);

  logic [63:0] cycle;
  initial cycle = '0;
  always @(posedge clk) cycle <= cycle + 1;

  dram_model #(
      .DataWidth(DataWidth)
  ) dram (.*);

endmodule
