// The ports of axi4_checker but for clock and reset: Manager and Subordinate are the prefixes of the signals that either
// side drives. AXI4_ATTRIBUTES has the rest of the manager's, AXI4_NO_ATTRIBUTES serves a bus without them.
`ifndef AXI4_PORTS_SVH
`define AXI4_PORTS_SVH

`define AXI4_PORTS(Manager, Subordinate) \
  .awvalid_i (Manager``_awvalid), \
  .awready_i (Subordinate``_awready), \
  .awid_i    (Manager``_awid), \
  .awaddr_i  (Manager``_awaddr), \
  .awlen_i   (Manager``_awlen), \
  .awsize_i  (Manager``_awsize), \
  .awburst_i (Manager``_awburst), \
  .awprot_i  (Manager``_awprot), \
  .wvalid_i  (Manager``_wvalid), \
  .wready_i  (Subordinate``_wready), \
  .wdata_i   (Manager``_wdata), \
  .wstrb_i   (Manager``_wstrb), \
  .wlast_i   (Manager``_wlast), \
  .bvalid_i  (Subordinate``_bvalid), \
  .bready_i  (Manager``_bready), \
  .bid_i     (Subordinate``_bid), \
  .bresp_i   (Subordinate``_bresp), \
  .arvalid_i (Manager``_arvalid), \
  .arready_i (Subordinate``_arready), \
  .arid_i    (Manager``_arid), \
  .araddr_i  (Manager``_araddr), \
  .arlen_i   (Manager``_arlen), \
  .arsize_i  (Manager``_arsize), \
  .arburst_i (Manager``_arburst), \
  .arprot_i  (Manager``_arprot), \
  .rvalid_i  (Subordinate``_rvalid), \
  .rready_i  (Manager``_rready), \
  .rid_i     (Subordinate``_rid), \
  .rdata_i   (Subordinate``_rdata), \
  .rresp_i   (Subordinate``_rresp), \
  .rlast_i   (Subordinate``_rlast)

`define AXI4_ATTRIBUTES(Manager) \
  .awlock_i  (Manager``_awlock), \
  .awcache_i (Manager``_awcache), \
  .awqos_i   (Manager``_awqos), \
  .arlock_i  (Manager``_arlock), \
  .arcache_i (Manager``_arcache), \
  .arqos_i   (Manager``_arqos)

`define AXI4_NO_ATTRIBUTES \
  .awlock_i  ('0), \
  .awcache_i ('0), \
  .awqos_i   ('0), \
  .arlock_i  ('0), \
  .arcache_i ('0), \
  .arqos_i   ('0)

`endif
