// vector_core with ports for the command's fields that it reads and for the words of its windows.
module vector_core_tb
  import vector_pkg::*;
#(
    parameter int unsigned Lanes        = 4,
    parameter int unsigned VectorLength = 32,
    parameter int unsigned RowElements  = 64,
    parameter bit          Pipeline     = 1'b0,
    parameter int unsigned BeatBits     = $clog2(VectorLength / Lanes)  // not to be set
) (
    input  logic                       clk_i,
    input  logic                       rst_ni,
    input  logic                       abort_i,
    input  logic                       start_i,
    input  logic [24:0]                rows_i,
    input  logic [31:0]                cols_i,
    input  logic [24:0]                repeats_i,
    input  logic [15:0]                batch0_i,
    input  logic [15:0]                batch1_i,
    input  logic [31:0]                entry_i,
    input  logic [8*32-1:0]            params_i,
    input  logic [Inputs-1:0]          enable_i,
    input  logic [31:0]                out_length_i,
    input  logic [24:0]                out_segments_i,
    output logic                       busy_o,
    output logic                       fault_o,
    output logic [31:0]                fault_address_o,
    output logic                       fetch_o,
    output logic [31:0]                fetch_address_o,
    input  logic [63:0]                instruction_i,
    input  logic                       executable_i,
    output logic [BeatBits-1:0]        window_beat_o,
    input  logic [Inputs-1:0]          window_ready_i,
    input  logic [Inputs-1:0]          window_used_up_i,
    input  logic [Inputs*Lanes*32-1:0] window_words_i,
    output logic [Inputs-1:0]          window_advance_o,
    output logic [31:0]                window_granules_o,
    output logic                       row_end_o,
    output logic                       out_valid_o,
    output logic [Lanes*32-1:0]        out_word_o,
    output logic [$clog2(Lanes):0]     out_count_o,
    input  logic                       out_room_i,
    output logic                       stall_read_o,
    output logic                       stall_write_o
);
  vector_command_t command;
  always_comb begin
    command         = '0;
    command.rows    = rows_i;
    command.cols    = cols_i;
    command.repeats = repeats_i;
    command.batch0  = batch0_i;
    command.batch1  = batch1_i;
    command.entry   = entry_i;
    command.params  = params_i;
    for (int unsigned s = 0; s < Inputs; s++) command.streams[s].enable = enable_i[s];
    command.streams[Output].enable   = 1'b1;
    command.streams[Output].length   = out_length_i;
    command.streams[Output].segments = out_segments_i;
  end

  logic [Lanes*32-1:0] window_word [Inputs];
  for (genvar s = 0; s < Inputs; s++) begin : g_windows
    assign window_word[s] = window_words_i[s*Lanes*32+:Lanes*32];
  end

  vector_core #(
      .Lanes       (Lanes),
      .VectorLength(VectorLength),
      .RowElements (RowElements),
      .Pipeline    (Pipeline)
  ) dut (
      .command_i    (command),
      .instruction_i(instruction_t'(instruction_i)),
      .window_word_i(window_word),
      .*
  );
endmodule
