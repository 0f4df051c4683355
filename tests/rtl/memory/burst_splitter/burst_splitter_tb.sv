// burst_splitter with the fields of a transfer as ports.
module burst_splitter_tb
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth = 64
) (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        abort_i,
    input  logic        desc_valid_i,
    output logic        desc_ready_o,
    input  logic [31:0] desc_addr_i,
    input  logic [31:0] desc_row_bytes_i,
    input  logic [31:0] desc_rows_i,
    input  logic [31:0] desc_stride_i,
    output logic        burst_valid_o,
    input  logic        burst_ready_i,
    output logic [31:0] burst_addr_o,
    output logic [7:0]  burst_len_o
);
  dma_desc_t desc;
  assign desc = '{addr: desc_addr_i, row_bytes: desc_row_bytes_i, rows: desc_rows_i, stride: desc_stride_i};

  burst_splitter #(
      .DataWidth(DataWidth)
  ) dut (
      .desc_i(desc),
      .*
  );
endmodule
