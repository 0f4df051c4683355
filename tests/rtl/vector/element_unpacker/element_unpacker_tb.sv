// element_unpacker with the fields of its stream as ports.
module element_unpacker_tb
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
    input  logic [1:0]           size_i,
    output logic                 idle_o,
    input  logic                 word_valid_i,
    output logic                 word_ready_o,
    input  logic [Lanes*32-1:0]  word_i,
    input  logic [$clog2(Lanes):0] count_i,
    output logic                 beat_valid_o,
    input  logic                 beat_ready_i,
    output logic [DataWidth-1:0] beat_o
);
  stream_t stream;
  always_comb begin
    stream         = '0;
    stream.seg_len = seg_len_i;
    stream.size    = size_i;
  end

  element_unpacker #(
      .DataWidth(DataWidth),
      .Lanes    (Lanes)
  ) u_unpacker (
      .stream_i(stream),
      .*
  );
endmodule
