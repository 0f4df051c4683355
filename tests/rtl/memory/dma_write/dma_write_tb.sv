// dma_write with the fields of a transfer as ports.
module dma_write_tb
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth   = 64,
    parameter int unsigned BufferBeats = 32
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic                   abort_i,
    input  logic                   desc_valid_i,
    output logic                   desc_ready_o,
    input  logic [31:0]            desc_addr_i,
    input  logic [31:0]            desc_row_bytes_i,
    input  logic [31:0]            desc_rows_i,
    input  logic [31:0]            desc_stride_i,
    input  logic                   data_valid_i,
    output logic                   data_ready_o,
    input  logic [DataWidth-1:0]   data_i,
    output logic                   aw_valid_o,
    input  logic                   aw_ready_i,
    output logic [31:0]            aw_addr_o,
    output logic [7:0]             aw_len_o,
    output logic                   w_valid_o,
    input  logic                   w_ready_i,
    output logic [DataWidth-1:0]   w_data_o,
    output logic [DataWidth/8-1:0] w_strb_o,
    output logic                   w_last_o,
    input  logic                   b_valid_i,
    input  logic [1:0]             b_resp_i,
    output logic                   idle_o,
    output logic                   error_o,
    output logic [31:0]            error_addr_o
);
  dma_desc_t desc;
  assign desc = '{addr: desc_addr_i, row_bytes: desc_row_bytes_i, rows: desc_rows_i, stride: desc_stride_i};

  dma_write #(
      .DataWidth  (DataWidth),
      .BufferBeats(BufferBeats)
  ) dut (
      .desc_i(desc),
      .*
  );

  // What it writes, with its data behind the address, and how it is answered.
  axi_burst_checker #(
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
  axi_write_checker #(
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
endmodule
