`include "axi4_ports.svh"
`include "axi_types.svh"

// memory_controller with one port for each channel of the bus and of the host, and one bit for each DMA channel's
// handshakes; between it and the rules of AXI.
module memory_controller_tb
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth   = 64,
    parameter int unsigned WritesAhead = 4
) (
    input  logic                             clk_i,
    input  logic                             rst_ni,
    input  logic [2:0]                       prot_i,
    input  logic                             abort_i,
    output logic                             idle_o,
    output logic [NumWrites-1:0]             write_idle_o,
    input  logic [NumReads-1:0]              rd_next_i,
    output logic [ErrorOwners-1:0]           error_o,
    output logic [ErrorOwners-1:0]           error_write_o,
    output logic [31:0]                      error_addr_o [ErrorOwners],
    output logic                             fetch_error_o,
    output logic [31:0]                      fetch_error_addr_o,
    input  logic [NumReads-1:0]              rd_desc_valid_i,
    output logic [NumReads-1:0]              rd_desc_ready_o,
    input  logic [127:0]                     rd_desc_i [NumReads],
    output logic [NumReads-1:0]              rd_valid_o,
    input  logic [NumReads-1:0]              rd_ready_i,
    output logic [DataWidth-1:0]             rd_data_o [NumReads],
    output logic [NumReads-1:0]              rd_row_last_o,
    input  logic [NumWrites-1:0]             wr_desc_valid_i,
    output logic [NumWrites-1:0]             wr_desc_ready_o,
    input  logic [127:0]                     wr_desc_i [NumWrites],
    input  logic [NumWrites-1:0]             wr_valid_i,
    output logic [NumWrites-1:0]             wr_ready_o,
    input  logic [DataWidth-1:0]             wr_data_i [NumWrites],
    input  logic [51:0]                      host_aw_i,        // ID, address, length, size, kind of burst, protection
    input  logic                             host_awvalid_i,
    output logic                             host_awready_o,
    input  logic [DataWidth+DataWidth/8:0]   host_w_i,         // data, strobes, last
    input  logic                             host_wvalid_i,
    output logic                             host_wready_o,
    output logic [5:0]                       host_b_o,         // ID, response
    output logic                             host_bvalid_o,
    input  logic [51:0]                      host_ar_i,
    input  logic                             host_arvalid_i,
    output logic                             host_arready_o,
    output logic [DataWidth+6:0]             host_r_o,         // ID, data, response, last
    output logic                             host_rvalid_o,
    output logic [55:0]                      m_axi_aw,
    output logic                             m_axi_awvalid,
    input  logic                             m_axi_awready,
    output logic [DataWidth+DataWidth/8:0]   m_axi_w,
    output logic                             m_axi_wvalid,
    input  logic                             m_axi_wready,
    input  logic [9:0]                       m_axi_b,
    input  logic                             m_axi_bvalid,
    output logic                             m_axi_bready,
    output logic [55:0]                      m_axi_ar,
    output logic                             m_axi_arvalid,
    input  logic                             m_axi_arready,
    input  logic [DataWidth+10:0]            m_axi_r,
    input  logic                             m_axi_rvalid,
    output logic                             m_axi_rready
);
  // ---- DMA channels ----
  logic rd_next [NumReads], rd_desc_valid [NumReads], rd_desc_ready [NumReads];
  logic rd_valid [NumReads], rd_ready [NumReads], rd_row_last [NumReads];
  logic wr_desc_valid [NumWrites], wr_desc_ready [NumWrites], wr_valid [NumWrites], wr_ready [NumWrites];
  logic write_idle [NumWrites];
  dma_desc_t rd_desc [NumReads], wr_desc [NumWrites];
  for (genvar i = 0; i < NumReads; i++) begin : g_read
    assign rd_next[i]         = rd_next_i[i];
    assign rd_desc_valid[i]   = rd_desc_valid_i[i];
    assign rd_desc_ready_o[i] = rd_desc_ready[i];
    assign rd_desc[i]         = rd_desc_i[i];
    assign rd_valid_o[i]      = rd_valid[i];
    assign rd_ready[i]        = rd_ready_i[i];
    assign rd_row_last_o[i]   = rd_row_last[i];
  end
  for (genvar i = 0; i < NumWrites; i++) begin : g_write
    assign write_idle_o[i]    = write_idle[i];
    assign wr_desc_valid[i]   = wr_desc_valid_i[i];
    assign wr_desc_ready_o[i] = wr_desc_ready[i];
    assign wr_desc[i]         = wr_desc_i[i];
    assign wr_valid[i]        = wr_valid_i[i];
    assign wr_ready_o[i]      = wr_ready[i];
  end

  // ---- the host and the bus ----
  logic [31:0] m_axi_awaddr, m_axi_araddr;
  logic [7:0] m_axi_awlen, m_axi_arlen, m_axi_awid, m_axi_arid, m_axi_bid, m_axi_rid;
  logic [2:0] m_axi_awsize, m_axi_arsize;
  logic [1:0] m_axi_awburst, m_axi_arburst;
  logic [2:0] m_axi_awprot, m_axi_arprot;
  logic [DataWidth-1:0] m_axi_wdata, m_axi_rdata;
  logic [DataWidth/8-1:0] m_axi_wstrb;
  logic m_axi_wlast, m_axi_rlast;
  logic [1:0] m_axi_bresp, m_axi_rresp;
  assign m_axi_aw = {m_axi_awid, m_axi_awaddr, m_axi_awlen, m_axi_awsize, m_axi_awburst, m_axi_awprot};
  assign m_axi_ar = {m_axi_arid, m_axi_araddr, m_axi_arlen, m_axi_arsize, m_axi_arburst, m_axi_arprot};
  assign m_axi_w  = {m_axi_wdata, m_axi_wstrb, m_axi_wlast};
  assign {m_axi_bid, m_axi_bresp} = m_axi_b;
  assign {m_axi_rid, m_axi_rdata, m_axi_rresp, m_axi_rlast} = m_axi_r;

  `AXI_TYPES(4, DataWidth)
  memory_controller #(
      .DataWidth       (DataWidth),
      .WritesAhead     (WritesAhead),
      .axi_address_t   (axi_address_t),
      .axi_write_data_t(axi_write_data_t),
      .axi_response_t  (axi_response_t),
      .axi_read_data_t (axi_read_data_t)
  ) dut (
      .test_enable_i  (1'b0),
      .write_idle_o   (write_idle),
      .rd_next_i      (rd_next),
      .rd_desc_valid_i(rd_desc_valid),
      .rd_desc_ready_o(rd_desc_ready),
      .rd_desc_i      (rd_desc),
      .rd_valid_o     (rd_valid),
      .rd_ready_i     (rd_ready),
      .rd_row_last_o  (rd_row_last),
      .wr_desc_valid_i(wr_desc_valid),
      .wr_desc_ready_o(wr_desc_ready),
      .wr_desc_i      (wr_desc),
      .wr_valid_i     (wr_valid),
      .wr_ready_o     (wr_ready),
      .*
  );

  // The same bounds as for the whole NPU's port to memory (npu_tb).
  axi4_checker #(
      .Manager       ("device"),
      .Subordinate   ("memory"),
      .DataWidth     (DataWidth),
      .IdWidth       (8),
      .MaxWrites     (144),
      .MaxReads      (64),
      .ManagerMaxWait(0),
      .DataMaxWait   (0)
  ) m_axi_rules (
      .clk_i,
      .rst_ni,
      `AXI4_PORTS(m_axi, m_axi),
      `AXI4_NO_ATTRIBUTES
  );

  // The ports do not show a channel's request for an address.
  turn_checker #(
      .Clients(NumReads + 1),
      .Name   ("read addresses")
  ) read_turns (
      .clk_i,
      .rst_ni,
      .request_i(dut.ar_request),
      .served_i (dut.ar_free ? dut.ar_grant : '0)
  );
  turn_checker #(
      .Clients(NumWrites + 1),
      .Name   ("write addresses")
  ) write_turns (
      .clk_i,
      .rst_ni,
      .request_i(dut.aw_request),
      .served_i (dut.order_push ? dut.aw_grant : '0)
  );
endmodule
