// stream_walker with the fields of its stream and its transfers as ports.
module stream_walker_tb
  import npu_pkg::*;
  import vector_pkg::*;
(
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        abort_i,
    input  logic        start_i,
    input  logic [31:0] addr_i,
    input  logic [31:0] row_stride_i,
    input  logic [31:0] batch0_stride_i,
    input  logic [31:0] batch1_stride_i,
    input  logic [31:0] seg_stride_i,
    input  logic [31:0] seg_bytes_i,
    input  logic [24:0] segs_i,
    input  logic [3:0]  passes_i,
    input  logic        resident_i,
    input  logic        constant_i,
    input  logic [24:0] rows_i,
    input  logic [15:0] batch0_i,
    input  logic [15:0] batch1_i,
    output logic        desc_valid_o,
    input  logic        desc_ready_i,
    output logic [31:0] desc_addr_o,
    output logic [31:0] desc_row_bytes_o,
    output logic [31:0] desc_rows_o,
    output logic [31:0] desc_stride_o
);
  stream_t stream;
  dma_desc_t desc;
  always_comb begin
    stream               = '0;
    stream.addr          = addr_i;
    stream.row_stride    = row_stride_i;
    stream.batch0_stride = batch0_stride_i;
    stream.batch1_stride = batch1_stride_i;
    stream.seg_stride    = seg_stride_i;
    stream.seg_bytes     = seg_bytes_i;
    stream.segs          = segs_i;
    stream.passes        = passes_i;
  end

  assign desc_addr_o      = desc.addr;
  assign desc_row_bytes_o = desc.row_bytes;
  assign desc_rows_o      = desc.rows;
  assign desc_stride_o    = desc.stride;

  stream_walker u_walker (
      .stream_i(stream),
      .desc_o  (desc),
      .*
  );
endmodule
