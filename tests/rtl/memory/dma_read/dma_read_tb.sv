// dma_read with the fields of a transfer as ports.
module dma_read_tb
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth   = 64,
    parameter int unsigned BufferBeats = 32
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,
    input  logic                 desc_valid_i,
    output logic                 desc_ready_o,
    input  logic [31:0]          desc_addr_i,
    input  logic [31:0]          desc_row_bytes_i,
    input  logic [31:0]          desc_rows_i,
    input  logic [31:0]          desc_stride_i,
    output logic                 data_valid_o,
    input  logic                 data_ready_i,
    output logic [DataWidth-1:0] data_o,
    output logic                 data_row_last_o,
    output logic                 ar_valid_o,
    input  logic                 ar_ready_i,
    output logic [31:0]          ar_addr_o,
    output logic [7:0]           ar_len_o,
    input  logic                 r_valid_i,
    input  logic [DataWidth-1:0] r_data_i,
    input  logic [1:0]           r_resp_i,
    input  logic                 r_last_i,
    output logic                 idle_o,
    output logic                 error_o,
    output logic [31:0]          error_addr_o
);
  dma_desc_t desc;
  assign desc = '{addr: desc_addr_i, row_bytes: desc_row_bytes_i, rows: desc_rows_i, stride: desc_stride_i};

  dma_read #(
      .DataWidth  (DataWidth),
      .BufferBeats(BufferBeats)
  ) dut (
      .desc_i(desc),
      .*
  );

  // What it asks for, and what it is sent.
  axi_burst_checker #(
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
  axi_read_checker #(
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
endmodule
