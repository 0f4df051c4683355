`include "axi4_ports.svh"
`include "axi_types.svh"

// Bus names for the memory side of axi_slave, so that AXI models bind to it by prefix.
module axi_slave_tb #(
    parameter int unsigned DataWidth      = 64,
    parameter int unsigned MaxOutstanding = 16
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic [            3:0] s_axi_awid,
    input  logic [           31:0] s_axi_awaddr,
    input  logic [            7:0] s_axi_awlen,
    input  logic [            2:0] s_axi_awsize,
    input  logic [            1:0] s_axi_awburst,
    input  logic [            2:0] s_axi_awprot,
    input  logic                   s_axi_awvalid,
    output logic                   s_axi_awready,
    input  logic [  DataWidth-1:0] s_axi_wdata,
    input  logic [DataWidth/8-1:0] s_axi_wstrb,
    input  logic                   s_axi_wlast,
    input  logic                   s_axi_wvalid,
    output logic                   s_axi_wready,
    output logic [            3:0] s_axi_bid,
    output logic [            1:0] s_axi_bresp,
    output logic                   s_axi_bvalid,
    input  logic                   s_axi_bready,
    input  logic [            3:0] s_axi_arid,
    input  logic [           31:0] s_axi_araddr,
    input  logic [            7:0] s_axi_arlen,
    input  logic [            2:0] s_axi_arsize,
    input  logic [            1:0] s_axi_arburst,
    input  logic [            2:0] s_axi_arprot,
    input  logic                   s_axi_arvalid,
    output logic                   s_axi_arready,
    output logic [            3:0] s_axi_rid,
    output logic [  DataWidth-1:0] s_axi_rdata,
    output logic [            1:0] s_axi_rresp,
    output logic                   s_axi_rlast,
    output logic                   s_axi_rvalid,
    input  logic                   s_axi_rready,
    output logic [            3:0] m_axi_awid,
    output logic [           31:0] m_axi_awaddr,
    output logic [            7:0] m_axi_awlen,
    output logic [            2:0] m_axi_awsize,
    output logic [            1:0] m_axi_awburst,
    output logic [            2:0] m_axi_awprot,
    output logic                   m_axi_awvalid,
    input  logic                   m_axi_awready,
    output logic [  DataWidth-1:0] m_axi_wdata,
    output logic [DataWidth/8-1:0] m_axi_wstrb,
    output logic                   m_axi_wlast,
    output logic                   m_axi_wvalid,
    input  logic                   m_axi_wready,
    input  logic [            3:0] m_axi_bid,
    input  logic [            1:0] m_axi_bresp,
    input  logic                   m_axi_bvalid,
    output logic                   m_axi_bready,
    output logic [            3:0] m_axi_arid,
    output logic [           31:0] m_axi_araddr,
    output logic [            7:0] m_axi_arlen,
    output logic [            2:0] m_axi_arsize,
    output logic [            1:0] m_axi_arburst,
    output logic [            2:0] m_axi_arprot,
    output logic                   m_axi_arvalid,
    input  logic                   m_axi_arready,
    input  logic [            3:0] m_axi_rid,
    input  logic [  DataWidth-1:0] m_axi_rdata,
    input  logic [            1:0] m_axi_rresp,
    input  logic                   m_axi_rlast,
    input  logic                   m_axi_rvalid,
    output logic                   m_axi_rready
);

  `AXI_TYPES(4, DataWidth)
  axi_address_t aw, ar;
  axi_write_data_t w;
  assign {m_axi_awid, m_axi_awaddr, m_axi_awlen, m_axi_awsize, m_axi_awburst, m_axi_awprot} = aw;
  assign {m_axi_arid, m_axi_araddr, m_axi_arlen, m_axi_arsize, m_axi_arburst, m_axi_arprot} = ar;
  assign {m_axi_wdata, m_axi_wstrb, m_axi_wlast} = w;

  // The unit's clock rests as in npu_top.
  logic busy, unit_clk;
  clock_gate gate (
      .clk_i,
      .enable_i     (s_axi_awvalid || s_axi_wvalid || s_axi_arvalid || busy || !rst_ni),
      .test_enable_i(1'b0),
      .clk_o        (unit_clk)
  );

  axi_slave #(
      .DataWidth       (DataWidth),
      .MaxOutstanding  (MaxOutstanding),
      .axi_address_t   (axi_address_t),
      .axi_write_data_t(axi_write_data_t),
      .axi_response_t  (axi_response_t),
      .axi_read_data_t (axi_read_data_t)
  ) dut (
      .clk_i      (unit_clk),
      .busy_o     (busy),
      .m_aw_o     (aw),
      .m_awvalid_o(m_axi_awvalid),
      .m_awready_i(m_axi_awready),
      .m_w_o      (w),
      .m_wvalid_o (m_axi_wvalid),
      .m_wready_i (m_axi_wready),
      .m_b_i      ({m_axi_bid, m_axi_bresp}),
      .m_bvalid_i (m_axi_bvalid),
      .m_bready_o (m_axi_bready),
      .m_ar_o     (ar),
      .m_arvalid_o(m_axi_arvalid),
      .m_arready_i(m_axi_arready),
      .m_r_i      ({m_axi_rid, m_axi_rdata, m_axi_rresp, m_axi_rlast}),
      .m_rvalid_i (m_axi_rvalid),
      .m_rready_o (m_axi_rready),
      .*
  );

  // The host may ask for bursts that AXI4 forbids: they are what the window refuses. Two addresses and two responses
  // stand in its registers.
  axi4_checker #(
      .Manager      ("host"),
      .Subordinate  ("window"),
      .DataWidth    (DataWidth),
      .MaxWrites    (MaxOutstanding + 4),
      .MaxReads     (2 * MaxOutstanding),
      .CheckBursts  (1'b0)
  ) s_axi_rules (
      .clk_i,
      .rst_ni,
      `AXI4_PORTS(s_axi, s_axi),
      `AXI4_NO_ATTRIBUTES
  );

  axi4_checker #(
      .Manager      ("window"),
      .Subordinate  ("memory"),
      .DataWidth    (DataWidth),
      .MaxWrites    (MaxOutstanding),
      .MaxReads     (MaxOutstanding),
      .MaxEarly     (1024)
  ) m_axi_rules (
      .clk_i,
      .rst_ni,
      `AXI4_PORTS(m_axi, m_axi),
      `AXI4_NO_ATTRIBUTES
  );

endmodule
