// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// An input stream of a program: requests its rows, packs the data into words of
// all lanes, and gives the program a window onto them.
// Reset and abort state: idle.
module stream_input
  import npu_pkg::*;
  import vector_pkg::*;
#(
    parameter int unsigned DataWidth   = 256,   // bits of a memory beat: 64, 128, 256 or 512
    parameter int unsigned Lanes       = 16,    // float32 lanes, a power of two from 2 to 16: one to eight beats
    parameter int unsigned RowElements = 8192,  // most elements of a row that stays on chip, a power of two from 16
    parameter int unsigned BeatBits    = 4      // bits of a word's number within a chunk, at least 1
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,
    input  logic                 start_i,      // pulse: fetch the stream's memory
    input  logic                 program_i,    // for a program; else another module takes the beats
    input  stream_t              stream_i,     // stable from start_i to idle_o
    input  logic [24:0]          rows_i,
    input  logic [15:0]          batch0_i,
    input  logic [15:0]          batch1_i,
    input  logic                 drain_i,      // the program has ended
    output logic                 idle_o,       // all requested data has arrived

    // memory channel; beats only while program_i is high
    output logic                 desc_valid_o,
    input  logic                 desc_ready_i,
    output dma_desc_t            desc_o,
    input  logic                 beat_valid_i,
    output logic                 beat_ready_o,
    input  logic [DataWidth-1:0] beat_i,

    // window
    input  logic [BeatBits-1:0]  window_beat_i,
    output logic                 window_ready_o,
    output logic                 window_used_up_o,
    output logic [Lanes*32-1:0]  window_word_o,
    input  logic                 window_advance_i,
    input  logic [31:0]          window_granules_i,
    input  logic                 row_end_i
);
  logic resident, constant, word_valid, word_ready, word_last, row_taken;
  logic [Lanes*32-1:0] word;
  logic [31:0] awaited_q;  // rows requested for a program that have not arrived

  assign resident = stream_i.row_granules <= 32'(RowElements / Partials);
  assign constant = program_i && resident && stream_i.row_stride == '0 && stream_i.batch0_stride == '0
                    && stream_i.batch1_stride == '0;

  stream_walker u_walker (
      .clk_i,
      .rst_ni,
      .abort_i,
      .start_i,
      .stream_i,
      .resident_i(resident),
      .constant_i(constant),
      .rows_i,
      .batch0_i,
      .batch1_i,
      .desc_valid_o,
      .desc_ready_i,
      .desc_o
  );

  element_packer #(
      .DataWidth(DataWidth),
      .Lanes    (Lanes)
  ) u_packer (
      .clk_i,
      .rst_ni,
      .abort_i,
      .start_i,
      .stream_i,
      .beat_valid_i(beat_valid_i && program_i),
      .beat_ready_o,
      .beat_i,
      .word_valid_o(word_valid),
      .word_ready_i(word_ready),
      .word_o      (word),
      .word_last_o (word_last),
      .row_taken_o (row_taken)
  );

  stream_window #(
      .Lanes      (Lanes),
      .RowElements(RowElements),
      .BeatBits   (BeatBits)
  ) u_window (
      .clk_i,
      .rst_ni,
      .abort_i,
      .start_i,
      .stream_i,
      .resident_i  (resident),
      .constant_i  (constant),
      .drain_i,
      .word_valid_i(word_valid),
      .word_ready_o(word_ready),
      .word_i      (word),
      .word_last_i (word_last),
      .beat_i      (window_beat_i),
      .ready_o     (window_ready_o),
      .used_up_o   (window_used_up_o),
      .word_o      (window_word_o),
      .advance_i   (window_advance_i),
      .granules_i  (window_granules_i),
      .row_end_i
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i || start_i) awaited_q <= '0;
    else if (program_i)
      awaited_q <= awaited_q + ((desc_valid_o && desc_ready_i) ? desc_o.rows : 32'd0) - 32'(row_taken);
  end
  assign idle_o = !desc_valid_o && awaited_q == '0 && !word_valid;
endmodule
