// The AXI rules of its writes, whose data follows the address, and of their responses.
bind dma_write axi_burst_checker #(
    .Channel  ("AW"),
    .Manager  ("channel"),
    .DataWidth(DataWidth)
) burst_rules (
    .clk_i,
    .check_i(rst_ni && aw_valid_o),
    .addr_i (aw_addr_o),
    .len_i  (aw_len_o),
    .size_i (3'($clog2(DataWidth / 8))),
    .burst_i(2'b01),
    .lock_i (1'b0),
    .cache_i('0)
);
bind dma_write axi_write_checker #(
    .Manager    ("channel"),
    .Subordinate("memory"),
    .DataWidth  (DataWidth),
    .IdWidth    (1),
    .MaxWrites  (64),
    .MaxEarly   (0)
) write_rules (
    .clk_i,
    .rst_ni,
    .aw_taken_i(aw_valid_o && aw_ready_i),
    .awid_i    (1'b0),
    .awaddr_i  (aw_addr_o[11:0]),
    .awlen_i   (aw_len_o),
    .awsize_i  (3'($clog2(DataWidth / 8))),
    .awburst_i (2'b01),
    .wvalid_i  (w_valid_o),
    .w_taken_i (w_valid_o && w_ready_i),
    .wstrb_i   (w_strb_o),
    .wlast_i   (w_last_o),
    .b_first_i (b_valid_i),
    .b_taken_i (b_valid_i),
    .bid_i     (1'b0),
    .bresp_i   (b_resp_i)
);
