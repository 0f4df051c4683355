// The rules of AXI4-Lite on the register block's port. The waits are the longest that the formal proof allows.
bind register_block axil_checker #(
    .Manager           ("host"),
    .Subordinate       ("block"),
    .AddrWidth         (16),
    .SubordinateMaxWait(2),
    .ResponseMaxWait   (4)
) rules (
    .clk_i,
    .rst_ni,
    .awvalid_i(s_axil_awvalid),
    .awready_i(s_axil_awready),
    .awaddr_i (s_axil_awaddr),
    .awprot_i (s_axil_awprot),
    .wvalid_i (s_axil_wvalid),
    .wready_i (s_axil_wready),
    .wdata_i  (s_axil_wdata),
    .wstrb_i  (s_axil_wstrb),
    .bvalid_i (s_axil_bvalid),
    .bready_i (s_axil_bready),
    .bresp_i  (s_axil_bresp),
    .arvalid_i(s_axil_arvalid),
    .arready_i(s_axil_arready),
    .araddr_i (s_axil_araddr),
    .arprot_i (s_axil_arprot),
    .rvalid_i (s_axil_rvalid),
    .rready_i (s_axil_rready),
    .rdata_i  (s_axil_rdata),
    .rresp_i  (s_axil_rresp)
);
