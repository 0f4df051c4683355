// row_gatherer with the fields of its transfers as ports.
module row_gatherer_tb
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth = 64
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,
    input  logic                 start_i,
    input  logic [31:0]          table_address_i,
    input  logic [31:0]          table_rows_i,
    input  logic [31:0]          row_bytes_i,
    input  logic [31:0]          index_address_i,
    input  logic [24:0]          count_i,
    input  logic                 beat_valid_i,
    output logic                 beat_ready_o,
    input  logic [DataWidth-1:0] beat_i,
    output logic                 busy_o,
    output logic                 desc_valid_o,
    input  logic                 desc_ready_i,
    output logic [31:0]          desc_addr_o,
    output logic [31:0]          desc_row_bytes_o,
    output logic [31:0]          desc_rows_o,
    output logic                 fault_o,
    output logic [31:0]          fault_address_o
);
  dma_desc_t desc;
  assign desc_addr_o      = desc.addr;
  assign desc_row_bytes_o = desc.row_bytes;
  assign desc_rows_o      = desc.rows;

  row_gatherer #(
      .DataWidth(DataWidth)
  ) dut (
      .desc_o(desc),
      .*
  );
endmodule
