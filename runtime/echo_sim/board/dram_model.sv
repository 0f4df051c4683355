// The memory behind m_axi. The AXI4 slave lives in dram.cpp; this shell samples the channels at the clock edge,
// calls the model only while there is something to do, and registers what it answers.
module dram_model #(
    parameter int DataWidth = 256,
    parameter int AddrWidth = 32,
    parameter int IdWidth   = 8,
    // First and last address of weight and of activation memory.
    parameter longint unsigned WeightFirst     = 64'h0000_0000,
    parameter longint unsigned WeightEnd       = 64'h0FFF_FFFF,
    parameter longint unsigned ActivationFirst = 64'h1000_0000,
    parameter longint unsigned ActivationEnd   = 64'h1FFF_FFFF
) (
    input logic        clk,
    input logic        rst_n,
    input logic [63:0] cycle,  // free running, the model's only notion of time

    input  logic                   m_axi_awvalid,
    output logic                   m_axi_awready,
    input  logic [    IdWidth-1:0] m_axi_awid,
    input  logic [  AddrWidth-1:0] m_axi_awaddr,
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
    output logic [    IdWidth-1:0] m_axi_bid,
    output logic [            1:0] m_axi_bresp,
    input  logic                   m_axi_arvalid,
    output logic                   m_axi_arready,
    input  logic [    IdWidth-1:0] m_axi_arid,
    input  logic [  AddrWidth-1:0] m_axi_araddr,
    input  logic [            7:0] m_axi_arlen,
    input  logic [            2:0] m_axi_arsize,
    input  logic [            1:0] m_axi_arburst,
    output logic                   m_axi_rvalid,
    input  logic                   m_axi_rready,
    output logic [    IdWidth-1:0] m_axi_rid,
    output logic [  DataWidth-1:0] m_axi_rdata,
    output logic [            1:0] m_axi_rresp,
    output logic                   m_axi_rlast
);

  import "DPI-C" function void echo_dram_init(
    input int unsigned     bus_bytes,
    input longint unsigned weight_first,
    input longint unsigned weight_end,
    input longint unsigned activation_first,
    input longint unsigned activation_end
  );
  import "DPI-C" function void echo_dram_reset();
  import "DPI-C" function int unsigned echo_dram_tick(
    input  longint unsigned    cycle,
    input  int unsigned        valids,
    input  longint unsigned    aw_addr,
    input  int unsigned        aw_attr,
    input  longint unsigned    ar_addr,
    input  int unsigned        ar_attr,
    input  bit [DataWidth-1:0] wdata,
    input  longint unsigned    wstrb,
    output bit [19:0]          resp,  // rresp, rid, bresp, bid
    inout  bit [DataWidth-1:0] rdata  // kept while a beat waits for rready
  );

  initial begin
    if (IdWidth != 8 || AddrWidth > 64) $fatal(1, "dram_model: IdWidth must be 8 and AddrWidth at most 64");
    echo_dram_init(DataWidth / 8, WeightFirst, WeightEnd, ActivationFirst, ActivationEnd);
  end

  // The model has its clock while it has work, or is offered some.
  logic busy_q, model_clk;
  clock_gate gate (
      .clk_i        (clk),
      .enable_i     (busy_q || m_axi_awvalid || m_axi_wvalid || m_axi_arvalid || !rst_n),
      .test_enable_i(1'b0),
      .clk_o        (model_clk)
  );

  always_ff @(posedge model_clk) begin
    if (!rst_n) begin
      echo_dram_reset();
      {m_axi_awready, m_axi_wready, m_axi_bvalid, m_axi_arready, m_axi_rvalid, m_axi_rlast} <= '0;
      {m_axi_bid, m_axi_bresp, m_axi_rid, m_axi_rresp, m_axi_rdata} <= '0;
      busy_q <= 1'b1;  // one call after reset offers the first readies
    end else if (busy_q || m_axi_awvalid || m_axi_wvalid || m_axi_arvalid) begin
      automatic bit [6:0] flags;
      automatic bit [19:0] resp;
      automatic bit [DataWidth-1:0] data = m_axi_rdata;
      flags = 7'(echo_dram_tick(
          cycle,
          {26'b0, m_axi_wlast, m_axi_rready, m_axi_arvalid, m_axi_bready, m_axi_wvalid, m_axi_awvalid},
          64'(m_axi_awaddr),
          {11'b0, m_axi_awburst, m_axi_awsize, m_axi_awlen, m_axi_awid},
          64'(m_axi_araddr),
          {11'b0, m_axi_arburst, m_axi_arsize, m_axi_arlen, m_axi_arid},
          m_axi_wdata,
          64'(m_axi_wstrb),
          resp,
          data
      ));
      {busy_q, m_axi_rlast, m_axi_rvalid, m_axi_arready, m_axi_bvalid, m_axi_wready, m_axi_awready} <= flags;
      {m_axi_rresp, m_axi_rid, m_axi_bresp, m_axi_bid} <= resp;
      m_axi_rdata <= data;
    end
  end

endmodule
