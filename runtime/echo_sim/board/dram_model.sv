// The memory behind m_axi. The AXI4 slave lives in dram.cpp; this shell samples the channels at the clock edge,
// calls the model only while there is something to do, and registers what it answers.
module dram_model #(
    parameter int DataWidth = 256,
    parameter int AddrWidth = 32,
    parameter int IdWidth   = 8
) (
    input logic        clk,
    input logic        rst_n,
    input logic [63:0] cycle,  // free running, the model's only notion of time

    input  logic                   awvalid,
    output logic                   awready,
    input  logic [    IdWidth-1:0] awid,
    input  logic [  AddrWidth-1:0] awaddr,
    input  logic [            7:0] awlen,
    input  logic [            2:0] awsize,
    input  logic [            1:0] awburst,
    input  logic                   wvalid,
    output logic                   wready,
    input  logic [  DataWidth-1:0] wdata,
    input  logic [DataWidth/8-1:0] wstrb,
    input  logic                   wlast,
    output logic                   bvalid,
    input  logic                   bready,
    output logic [    IdWidth-1:0] bid,
    output logic [            1:0] bresp,
    input  logic                   arvalid,
    output logic                   arready,
    input  logic [    IdWidth-1:0] arid,
    input  logic [  AddrWidth-1:0] araddr,
    input  logic [            7:0] arlen,
    input  logic [            2:0] arsize,
    input  logic [            1:0] arburst,
    output logic                   rvalid,
    input  logic                   rready,
    output logic [    IdWidth-1:0] rid,
    output logic [  DataWidth-1:0] rdata,
    output logic [            1:0] rresp,
    output logic                   rlast
);

  import "DPI-C" function void echo_dram_init(input int unsigned bus_bytes);
  import "DPI-C" function void echo_dram_reset();
  import "DPI-C" function int unsigned echo_dram_tick(
    input  longint unsigned    cycle,
    input  int unsigned        valids,
    input  int unsigned        aw_addr,
    input  int unsigned        aw_attr,
    input  int unsigned        ar_addr,
    input  int unsigned        ar_attr,
    input  bit [DataWidth-1:0] wdata,
    input  longint unsigned    wstrb,
    output bit [19:0]          resp,  // rresp, rid, bresp, bid
    inout  bit [DataWidth-1:0] rdata  // kept while a beat waits for rready
  );

  initial begin
    if (IdWidth != 8 || AddrWidth != 32) $fatal(1, "dram_model: IdWidth must be 8 and AddrWidth 32");
    echo_dram_init(DataWidth / 8);
  end

  // The model has its clock while it has work, or is offered some.
  logic busy_q, model_clk;
  clock_gate gate (
      .clk_i        (clk),
      .enable_i     (busy_q || awvalid || wvalid || arvalid || !rst_n),
      .test_enable_i(1'b0),
      .clk_o        (model_clk)
  );

  always_ff @(posedge model_clk) begin
    if (!rst_n) begin
      echo_dram_reset();
      {awready, wready, bvalid, arready, rvalid, rlast} <= '0;
      {bid, bresp, rid, rresp, rdata} <= '0;
      busy_q <= 1'b1;  // one call after reset offers the first readies
    end else if (busy_q || awvalid || wvalid || arvalid) begin
      automatic bit [6:0] flags;
      automatic bit [19:0] resp;
      automatic bit [DataWidth-1:0] data = rdata;
      flags = 7'(echo_dram_tick(
          cycle,
          {26'b0, wlast, rready, arvalid, bready, wvalid, awvalid},
          awaddr,
          {11'b0, awburst, awsize, awlen, awid},
          araddr,
          {11'b0, arburst, arsize, arlen, arid},
          wdata,
          64'(wstrb),
          resp,
          data
      ));
      {busy_q, rlast, rvalid, arready, bvalid, wready, awready} <= flags;
      {rresp, rid, bresp, bid} <= resp;
      rdata <= data;
    end
  end

endmodule
