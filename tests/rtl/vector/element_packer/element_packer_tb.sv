// element_packer with the fields of its stream as ports.
module element_packer_tb
  import vector_pkg::*;
#(
    parameter int unsigned DataWidth = 64,
    parameter int unsigned Lanes     = 4
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,
    input  logic                 start_i,
    input  logic [31:0]          seg_len_i,
    input  logic [31:0]          length_i,
    input  logic [1:0]           size_i,
    input  logic                 beat_valid_i,
    output logic                 beat_ready_o,
    input  logic [DataWidth-1:0] beat_i,
    output logic                 word_valid_o,
    input  logic                 word_ready_i,
    output logic [Lanes*32-1:0]  word_o,
    output logic                 word_last_o,
    output logic                 row_taken_o
);
  stream_t stream;
  always_comb begin
    stream         = '0;
    stream.seg_len = seg_len_i;
    stream.length  = length_i;
    stream.size    = size_i;
  end

  element_packer #(
      .DataWidth(DataWidth),
      .Lanes    (Lanes)
  ) u_packer (
      .stream_i(stream),
      .*
  );
endmodule
