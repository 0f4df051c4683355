// The channels of a memory_controller that is proven, those of any_channels.sv, and its ports. A wrapper has in scope what
// the channels, the host and the memory want (read_wish, host_awvalid, m_arready, ...); what the block drives are fields of
// a structure.
`ifndef MEMORY_CONTROLLER_SVH
`define MEMORY_CONTROLLER_SVH

`define MEMORY_CONTROLLER_CHANNELS \
  logic rd_next [NumReads], rd_desc_valid [NumReads], rd_ready [NumReads]; \
  logic wr_desc_valid [NumWrites], wr_valid [NumWrites]; \
  dma_desc_t rd_desc [NumReads], wr_desc [NumWrites]; \
  logic [DataWidth-1:0] wr_data [NumWrites]; \
  for (genvar i = 0; i < NumReads; i++) begin : g_reads \
    assign rd_next[i]       = 1'b0; \
    assign rd_desc_valid[i] = read_wish[i]; \
    assign rd_ready[i]      = 1'b1; \
    assign rd_desc[i]       = '{addr: 32'(address), default: '0}; \
  end \
  for (genvar i = 0; i < NumWrites; i++) begin : g_writes \
    assign wr_desc_valid[i] = write_wish[i]; \
    assign wr_valid[i]      = write_last[i]; \
    assign wr_desc[i]       = '{addr: 32'(address), default: '0}; \
    assign wr_data[i]       = DataWidth'(address); \
  end

`define MEMORY_CONTROLLER_OUTPUTS \
  typedef struct packed { \
    logic host_awready, host_wready, host_bvalid, host_arready, host_rvalid; \
    logic [7:0] awid, arid, awlen, arlen; \
    logic [31:0] awaddr, araddr; \
    logic [2:0] awsize, arsize, awprot, arprot; \
    logic [1:0] awburst, arburst; \
    logic awvalid, wvalid, wlast, bready, arvalid, rready; \
    logic [DataWidth-1:0] wdata; \
    logic [DataWidth/8-1:0] wstrb; \
  } outputs_t;

// All but clock, reset and test_enable_i.
`define MEMORY_CONTROLLER_PORTS(Outputs) \
  .prot_i            (prot), \
  .abort_i           (1'b0), \
  .idle_o            (), \
  .write_idle_o      (), \
  .rd_next_i         (rd_next), \
  .error_o           (), \
  .error_write_o     (), \
  .error_addr_o      (), \
  .fetch_error_o     (), \
  .fetch_error_addr_o(), \
  .rd_desc_valid_i   (rd_desc_valid), \
  .rd_desc_ready_o   (), \
  .rd_desc_i         (rd_desc), \
  .rd_valid_o        (), \
  .rd_ready_i        (rd_ready), \
  .rd_data_o         (), \
  .rd_row_last_o     (), \
  .wr_desc_valid_i   (wr_desc_valid), \
  .wr_desc_ready_o   (), \
  .wr_desc_i         (wr_desc), \
  .wr_valid_i        (wr_valid), \
  .wr_ready_o        (), \
  .wr_data_i         (wr_data), \
  .host_aw_i         ('{id: host_awid, addr: 32'(address), default: '0}), \
  .host_awvalid_i    (host_awvalid), \
  .host_awready_o    (Outputs.host_awready), \
  .host_w_i          ('{data: DataWidth'(host_wdata), strb: '1, last: host_wlast}), \
  .host_wvalid_i     (host_wvalid), \
  .host_wready_o     (Outputs.host_wready), \
  .host_b_o          (), \
  .host_bvalid_o     (Outputs.host_bvalid), \
  .host_ar_i         ('{id: host_awid, addr: 32'(address), default: '0}), \
  .host_arvalid_i    (host_arvalid), \
  .host_arready_o    (Outputs.host_arready), \
  .host_r_o          (), \
  .host_rvalid_o     (Outputs.host_rvalid), \
  .m_axi_awid        (Outputs.awid), \
  .m_axi_awaddr      (Outputs.awaddr), \
  .m_axi_awlen       (Outputs.awlen), \
  .m_axi_awsize      (Outputs.awsize), \
  .m_axi_awburst     (Outputs.awburst), \
  .m_axi_awprot      (Outputs.awprot), \
  .m_axi_awvalid     (Outputs.awvalid), \
  .m_axi_awready     (m_awready), \
  .m_axi_wdata       (Outputs.wdata), \
  .m_axi_wstrb       (Outputs.wstrb), \
  .m_axi_wlast       (Outputs.wlast), \
  .m_axi_wvalid      (Outputs.wvalid), \
  .m_axi_wready      (m_wready), \
  .m_axi_bid         (m_bid), \
  .m_axi_bresp       ('0), \
  .m_axi_bvalid      (m_bvalid), \
  .m_axi_bready      (Outputs.bready), \
  .m_axi_arid        (Outputs.arid), \
  .m_axi_araddr      (Outputs.araddr), \
  .m_axi_arlen       (Outputs.arlen), \
  .m_axi_arsize      (Outputs.arsize), \
  .m_axi_arburst     (Outputs.arburst), \
  .m_axi_arprot      (Outputs.arprot), \
  .m_axi_arvalid     (Outputs.arvalid), \
  .m_axi_arready     (m_arready), \
  .m_axi_rid         (m_rid), \
  .m_axi_rdata       ('0), \
  .m_axi_rresp       ('0), \
  .m_axi_rlast       (1'b1), \
  .m_axi_rvalid      (m_rvalid), \
  .m_axi_rready      (Outputs.rready)

`endif
