// The ports of axi_slave but for clock, reset and busy_o, one half for each direction. A wrapper has the signals in scope:
// s_<channel>, s_<channel>valid and s_<channel>ready towards the host, m_<channel> towards the memory. The half that a
// proof is not about is idle.
`ifndef AXI_SLAVE_SVH
`define AXI_SLAVE_SVH

`define AXI_SLAVE_WRITES \
  .s_axi_awid   (s_aw.id), \
  .s_axi_awaddr (s_aw.addr), \
  .s_axi_awlen  (s_aw.len), \
  .s_axi_awsize (s_aw.size), \
  .s_axi_awburst(s_aw.burst), \
  .s_axi_awprot (s_aw.prot), \
  .s_axi_awvalid(s_awvalid), \
  .s_axi_awready(s_awready), \
  .s_axi_wdata  (s_w.data), \
  .s_axi_wstrb  (s_w.strb), \
  .s_axi_wlast  (s_w.last), \
  .s_axi_wvalid (s_wvalid), \
  .s_axi_wready (s_wready), \
  .s_axi_bid    (s_b.id), \
  .s_axi_bresp  (s_b.resp), \
  .s_axi_bvalid (s_bvalid), \
  .s_axi_bready (s_bready), \
  .m_aw_o       (m_aw), \
  .m_awvalid_o  (m_awvalid), \
  .m_awready_i  (m_awready), \
  .m_w_o        (m_w), \
  .m_wvalid_o   (m_wvalid), \
  .m_wready_i   (m_wready), \
  .m_b_i        (m_b), \
  .m_bvalid_i   (m_bvalid), \
  .m_bready_o   (m_bready)

`define AXI_SLAVE_NO_WRITES \
  .s_axi_awid   ('0), \
  .s_axi_awaddr ('0), \
  .s_axi_awlen  ('0), \
  .s_axi_awsize ('0), \
  .s_axi_awburst('0), \
  .s_axi_awprot ('0), \
  .s_axi_awvalid('0), \
  .s_axi_awready(), \
  .s_axi_wdata  ('0), \
  .s_axi_wstrb  ('0), \
  .s_axi_wlast  ('0), \
  .s_axi_wvalid ('0), \
  .s_axi_wready (), \
  .s_axi_bid    (), \
  .s_axi_bresp  (), \
  .s_axi_bvalid (), \
  .s_axi_bready ('0), \
  .m_aw_o       (), \
  .m_awvalid_o  (), \
  .m_awready_i  ('0), \
  .m_w_o        (), \
  .m_wvalid_o   (), \
  .m_wready_i   ('0), \
  .m_b_i        ('0), \
  .m_bvalid_i   ('0), \
  .m_bready_o   ()

`define AXI_SLAVE_READS \
  .s_axi_arid   (s_ar.id), \
  .s_axi_araddr (s_ar.addr), \
  .s_axi_arlen  (s_ar.len), \
  .s_axi_arsize (s_ar.size), \
  .s_axi_arburst(s_ar.burst), \
  .s_axi_arprot (s_ar.prot), \
  .s_axi_arvalid(s_arvalid), \
  .s_axi_arready(s_arready), \
  .s_axi_rid    (s_r.id), \
  .s_axi_rdata  (s_r.data), \
  .s_axi_rresp  (s_r.resp), \
  .s_axi_rlast  (s_r.last), \
  .s_axi_rvalid (s_rvalid), \
  .s_axi_rready (s_rready), \
  .m_ar_o       (m_ar), \
  .m_arvalid_o  (m_arvalid), \
  .m_arready_i  (m_arready), \
  .m_r_i        (m_r), \
  .m_rvalid_i   (m_rvalid), \
  .m_rready_o   (m_rready)

`define AXI_SLAVE_NO_READS \
  .s_axi_arid   ('0), \
  .s_axi_araddr ('0), \
  .s_axi_arlen  ('0), \
  .s_axi_arsize ('0), \
  .s_axi_arburst('0), \
  .s_axi_arprot ('0), \
  .s_axi_arvalid('0), \
  .s_axi_arready(), \
  .s_axi_rid    (), \
  .s_axi_rdata  (), \
  .s_axi_rresp  (), \
  .s_axi_rlast  (), \
  .s_axi_rvalid (), \
  .s_axi_rready ('0), \
  .m_ar_o       (), \
  .m_arvalid_o  (), \
  .m_arready_i  ('0), \
  .m_r_i        ('0), \
  .m_rvalid_i   ('0), \
  .m_rready_o   ()

`endif
