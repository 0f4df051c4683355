// The AXI rules of its requests and their data.
bind dma_read axi_burst_checker #(
    .Channel  ("AR"),
    .Manager  ("channel"),
    .DataWidth(DataWidth)
) burst_rules (
    .clk_i,
    .check_i(rst_ni && ar_valid_o),
    .addr_i (ar_addr_o),
    .len_i  (ar_len_o),
    .size_i (3'($clog2(DataWidth / 8))),
    .burst_i(2'b01),
    .lock_i (1'b0),
    .cache_i('0)
);
bind dma_read axi_read_checker #(
    .Subordinate("memory"),
    .IdWidth    (1),
    .MaxReads   (64)
) read_rules (
    .clk_i,
    .rst_ni,
    .ar_taken_i(ar_valid_o && ar_ready_i),
    .arid_i    (1'b0),
    .arlen_i   (ar_len_o),
    .r_first_i (r_valid_i),
    .r_taken_i (r_valid_i),
    .rid_i     (1'b0),
    .rresp_i   (r_resp_i),
    .rlast_i   (r_last_i)
);
