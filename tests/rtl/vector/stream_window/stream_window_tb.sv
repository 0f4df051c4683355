// stream_window with the fields of its stream as ports.
module stream_window_tb
  import vector_pkg::*;
#(
    parameter int unsigned Lanes       = 4,
    parameter int unsigned RowElements = 64,
    parameter int unsigned BeatBits    = 3
) (
    input  logic                clk_i,
    input  logic                rst_ni,
    input  logic                abort_i,
    input  logic                start_i,
    input  logic [31:0]         length_i,
    input  logic [24:0]         segments_i,
    input  logic [31:0]         row_granules_i,
    input  logic [3:0]          passes_i,
    input  logic                bcast_i,
    input  logic                resident_i,
    input  logic                constant_i,
    input  logic                drain_i,
    input  logic                word_valid_i,
    output logic                word_ready_o,
    input  logic [Lanes*32:0]   word_i,           // topped by whether it is the last of a segment
    input  logic [BeatBits-1:0] window_beat_i,
    output logic                window_ready_o,
    output logic                window_used_up_o,
    output logic [Lanes*32-1:0] window_word_o,
    input  logic                window_advance_i,
    input  logic [31:0]         window_granules_i,
    input  logic                row_end_i
);
  stream_t stream;
  always_comb begin
    stream              = '0;
    stream.length       = length_i;
    stream.segments     = segments_i;
    stream.row_granules = row_granules_i;
    stream.passes       = passes_i;
    stream.bcast        = bcast_i;
  end

  stream_window #(
      .Lanes      (Lanes),
      .RowElements(RowElements),
      .BeatBits   (BeatBits)
  ) dut (
      .clk_i,
      .rst_ni,
      .abort_i,
      .start_i,
      .stream_i   (stream),
      .resident_i,
      .constant_i,
      .drain_i,
      .word_valid_i,
      .word_ready_o,
      .word_i     (word_i[Lanes*32-1:0]),
      .word_last_i(word_i[Lanes*32]),
      .beat_i     (window_beat_i),
      .ready_o    (window_ready_o),
      .used_up_o  (window_used_up_o),
      .word_o     (window_word_o),
      .advance_i  (window_advance_i),
      .granules_i (window_granules_i),
      .row_end_i
  );
endmodule
