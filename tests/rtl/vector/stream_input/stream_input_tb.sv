// stream_input with the fields of its stream and its transfers as ports.
module stream_input_tb
  import npu_pkg::*;
  import vector_pkg::*;
#(
    parameter int unsigned DataWidth   = 64,
    parameter int unsigned Lanes       = 4,
    parameter int unsigned RowElements = 64,
    parameter int unsigned BeatBits    = 3
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,
    input  logic                 start_i,
    input  logic                 program_i,
    input  logic [31:0]          addr_i,
    input  logic [31:0]          row_stride_i,
    input  logic [31:0]          batch0_stride_i,
    input  logic [31:0]          batch1_stride_i,
    input  logic [31:0]          seg_stride_i,
    input  logic [31:0]          seg_bytes_i,
    input  logic [31:0]          seg_len_i,
    input  logic [24:0]          segs_i,
    input  logic [31:0]          length_i,
    input  logic [24:0]          segments_i,
    input  logic [31:0]          row_granules_i,
    input  logic [3:0]           passes_i,
    input  logic [1:0]           size_i,
    input  logic                 bcast_i,
    input  logic [24:0]          rows_i,
    input  logic [15:0]          batch0_i,
    input  logic [15:0]          batch1_i,
    input  logic                 drain_i,
    output logic                 idle_o,
    output logic                 desc_valid_o,
    input  logic                 desc_ready_i,
    output logic [31:0]          desc_addr_o,
    output logic [31:0]          desc_row_bytes_o,
    output logic [31:0]          desc_rows_o,
    output logic [31:0]          desc_stride_o,
    input  logic                 beat_valid_i,
    output logic                 beat_ready_o,
    input  logic [DataWidth-1:0] beat_i,
    input  logic [BeatBits-1:0]  window_beat_i,
    output logic                 window_ready_o,
    output logic                 window_used_up_o,
    output logic [Lanes*32-1:0]  window_word_o,
    input  logic                 window_advance_i,
    input  logic [31:0]          window_granules_i,
    input  logic                 row_end_i
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
    stream.seg_len       = seg_len_i;
    stream.segs          = segs_i;
    stream.length        = length_i;
    stream.segments      = segments_i;
    stream.row_granules  = row_granules_i;
    stream.passes        = passes_i;
    stream.size          = size_i;
    stream.bcast         = bcast_i;
    stream.enable        = 1'b1;
  end
  assign desc_addr_o      = desc.addr;
  assign desc_row_bytes_o = desc.row_bytes;
  assign desc_rows_o      = desc.rows;
  assign desc_stride_o    = desc.stride;

  stream_input #(
      .DataWidth  (DataWidth),
      .Lanes      (Lanes),
      .RowElements(RowElements),
      .BeatBits   (BeatBits)
  ) dut (
      .stream_i(stream),
      .desc_o  (desc),
      .*
  );
endmodule
