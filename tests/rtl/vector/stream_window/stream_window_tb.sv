// stream_window with the names of stream_input's window, and a word and its last as one port.
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
    input  stream_t             stream_i,
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
  stream_window #(
      .Lanes      (Lanes),
      .RowElements(RowElements),
      .BeatBits   (BeatBits)
  ) dut (
      .word_i     (word_i[Lanes*32-1:0]),
      .word_last_i(word_i[Lanes*32]),
      .beat_i     (window_beat_i),
      .ready_o    (window_ready_o),
      .used_up_o  (window_used_up_o),
      .word_o     (window_word_o),
      .advance_i  (window_advance_i),
      .granules_i (window_granules_i),
      .*
  );
endmodule
