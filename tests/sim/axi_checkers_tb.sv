`include "axi4_ports.svh"

// Plays a file of vectors into an AXI4 and an AXI4-Lite checker: one line for each clock, hexadecimal, with the scenario's
// number and all signals. What the checkers say follows the line that names the scenario.
module axi_checkers_tb #(
    parameter int unsigned DataWidth = 64,
    parameter int unsigned IdWidth   = 2
) (
    input logic clk
);
  // As axi_scenarios.py packs them, the first member in the highest bits.
  typedef struct packed {
    logic [15:0]            scenario;
    logic                   rst_n;
    logic                   axi_awvalid, axi_awready;
    logic [IdWidth-1:0]     axi_awid;
    logic [31:0]            axi_awaddr;
    logic [7:0]             axi_awlen;
    logic [2:0]             axi_awsize;
    logic [1:0]             axi_awburst;
    logic                   axi_awlock;
    logic [3:0]             axi_awcache;
    logic [2:0]             axi_awprot;
    logic [3:0]             axi_awqos;
    logic                   axi_wvalid, axi_wready;
    logic [DataWidth-1:0]   axi_wdata;
    logic [DataWidth/8-1:0] axi_wstrb;
    logic                   axi_wlast;
    logic                   axi_bvalid, axi_bready;
    logic [IdWidth-1:0]     axi_bid;
    logic [1:0]             axi_bresp;
    logic                   axi_arvalid, axi_arready;
    logic [IdWidth-1:0]     axi_arid;
    logic [31:0]            axi_araddr;
    logic [7:0]             axi_arlen;
    logic [2:0]             axi_arsize;
    logic [1:0]             axi_arburst;
    logic                   axi_arlock;
    logic [3:0]             axi_arcache;
    logic [2:0]             axi_arprot;
    logic [3:0]             axi_arqos;
    logic                   axi_rvalid, axi_rready;
    logic [IdWidth-1:0]     axi_rid;
    logic [DataWidth-1:0]   axi_rdata;
    logic [1:0]             axi_rresp;
    logic                   axi_rlast;
    logic                   lite_awvalid, lite_awready;
    logic [15:0]            lite_awaddr;
    logic                   lite_wvalid, lite_wready;
    logic [31:0]            lite_wdata;
    logic                   lite_bvalid, lite_bready;
    logic [1:0]             lite_bresp;
    logic                   lite_arvalid, lite_arready;
    logic [15:0]            lite_araddr;
    logic                   lite_rvalid, lite_rready;
    logic [31:0]            lite_rdata;
    logic [1:0]             lite_rresp;
  } vector_t;

  vector_t v;
  int file;
  string name;

  initial begin
    v = '0;
    if (!$value$plusargs("vectors=%s", name)) $fatal(1, "+vectors=FILE is missing");
    file = $fopen(name, "r");
    if (file == 0) $fatal(1, "%s cannot be read", name);
  end

  always @(posedge clk) begin
    automatic vector_t next;
    if ($fscanf(file, "%h", next) != 1) $finish;
    else begin
      if (next.scenario != v.scenario) $display("scenario %0d", next.scenario);
      v <= next;
    end
  end

  axi4_checker #(
      .DataWidth         (DataWidth),
      .IdWidth           (IdWidth),
      .MaxWrites         (4),
      .MaxReads          (2),
      .MaxEarly          (4),
      .ManagerMaxWait    (3),
      .SubordinateMaxWait(3),
      .DataMaxWait       (40)
  ) axi4 (
      .clk_i (clk),
      .rst_ni(v.rst_n),
      `AXI4_PORTS(v.axi, v.axi),
      `AXI4_ATTRIBUTES(v.axi)
  );

  axil_checker #(
      .AddrWidth         (16),
      .ManagerMaxWait    (3),
      .SubordinateMaxWait(3),
      .ResponseMaxWait   (5)
  ) axil (
      .clk_i    (clk),
      .rst_ni   (v.rst_n),
      .awvalid_i(v.lite_awvalid),
      .awready_i(v.lite_awready),
      .awaddr_i (v.lite_awaddr),
      .awprot_i (3'b000),
      .wvalid_i (v.lite_wvalid),
      .wready_i (v.lite_wready),
      .wdata_i  (v.lite_wdata),
      .wstrb_i  (4'hF),
      .bvalid_i (v.lite_bvalid),
      .bready_i (v.lite_bready),
      .bresp_i  (v.lite_bresp),
      .arvalid_i(v.lite_arvalid),
      .arready_i(v.lite_arready),
      .araddr_i (v.lite_araddr),
      .arprot_i (3'b000),
      .rvalid_i (v.lite_rvalid),
      .rready_i (v.lite_rready),
      .rdata_i  (v.lite_rdata),
      .rresp_i  (v.lite_rresp)
  );
endmodule
