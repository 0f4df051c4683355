// Plays a file of vectors into an AXI4 and an AXI4-Lite checker: one line for each clock, hexadecimal, with the scenario's
// number and all signals. What the checkers say follows the line that names the scenario.
module axi_checkers_tb #(
    parameter int unsigned DataWidth = 64,
    parameter int unsigned IdWidth   = 2
) (
    input logic clk
);
  // As test_axi_checkers.py packs them, the first member in the highest bits.
  typedef struct packed {
    logic [IdWidth-1:0] id;
    logic [31:0]        addr;
    logic [7:0]         len;
    logic [2:0]         size;
    logic [1:0]         burst;
    logic               lock;
    logic [3:0]         cache;
    logic [2:0]         prot;
    logic [3:0]         qos;
  } address_t;

  typedef struct packed {
    logic [15:0]            scenario;
    logic                   rst_n;
    logic                   awvalid, awready;
    address_t               aw;
    logic                   wvalid, wready;
    logic [DataWidth-1:0]   wdata;
    logic [DataWidth/8-1:0] wstrb;
    logic                   wlast;
    logic                   bvalid, bready;
    logic [IdWidth-1:0]     bid;
    logic [1:0]             bresp;
    logic                   arvalid, arready;
    address_t               ar;
    logic                   rvalid, rready;
    logic [IdWidth-1:0]     rid;
    logic [DataWidth-1:0]   rdata;
    logic [1:0]             rresp;
    logic                   rlast;
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
      .clk_i            (clk),
      .rst_ni           (v.rst_n),
      .awvalid_i        (v.awvalid),
      .awready_i        (v.awready),
      .awid_i           (v.aw.id),
      .awaddr_i         (v.aw.addr),
      .awlen_i          (v.aw.len),
      .awsize_i         (v.aw.size),
      .awburst_i        (v.aw.burst),
      .awlock_i         (v.aw.lock),
      .awcache_i        (v.aw.cache),
      .awprot_i         (v.aw.prot),
      .awqos_i          (v.aw.qos),
      .wvalid_i         (v.wvalid),
      .wready_i         (v.wready),
      .wdata_i          (v.wdata),
      .wstrb_i          (v.wstrb),
      .wlast_i          (v.wlast),
      .bvalid_i         (v.bvalid),
      .bready_i         (v.bready),
      .bid_i            (v.bid),
      .bresp_i          (v.bresp),
      .arvalid_i        (v.arvalid),
      .arready_i        (v.arready),
      .arid_i           (v.ar.id),
      .araddr_i         (v.ar.addr),
      .arlen_i          (v.ar.len),
      .arsize_i         (v.ar.size),
      .arburst_i        (v.ar.burst),
      .arlock_i         (v.ar.lock),
      .arcache_i        (v.ar.cache),
      .arprot_i         (v.ar.prot),
      .arqos_i          (v.ar.qos),
      .rvalid_i         (v.rvalid),
      .rready_i         (v.rready),
      .rid_i            (v.rid),
      .rdata_i          (v.rdata),
      .rresp_i          (v.rresp),
      .rlast_i          (v.rlast)
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
