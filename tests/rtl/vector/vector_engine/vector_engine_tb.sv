// vector_engine with LOAD_PROGRAM or a copy of one row as its only commands: the
// other streams are silent, and the program memory can be looked at.
module vector_engine_tb
  import npu_pkg::*;
  import vector_pkg::*;
#(
    parameter int unsigned DataWidth    = 128,
    parameter int unsigned ProgramWords = 64
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,
    input  logic                 start_i,
    input  logic                 retire_i,
    input  logic                 copy_i,      // the command is a copy
    input  logic [31:0]          address_i,   // of the words in memory
    input  logic [31:0]          bytes_i,
    input  logic [31:0]          entry_i,
    output logic                 busy_o,
    output logic                 done_o,
    output logic                 fault_o,
    output logic [31:0]          program_words_o,
    output logic                 program_ready_o,
    output logic                 desc_valid_o,
    input  logic                 desc_ready_i,
    output dma_desc_t            desc_o,
    input  logic                 beat_valid_i,
    output logic                 beat_ready_o,
    input  logic [DataWidth-1:0] beat_i,
    output logic                 dst_desc_valid_o,
    input  logic                 dst_desc_ready_i,
    output dma_desc_t            dst_desc_o,
    output logic                 dst_valid_o,
    input  logic                 dst_ready_i,
    output logic [DataWidth-1:0] dst_data_o,
    input  logic                 dst_idle_i,
    input  logic [31:0]          look_i,      // a word of program memory
    output logic [63:0]          word_o
);
  vector_command_t command;
  always_comb begin
    command      = '0;
    command.kind = copy_i ? KindCopy : KindLoad;
    command.entry = entry_i;
    command.rows = 25'd1;
    command.batch0 = 16'd1;
    command.batch1 = 16'd1;
    command.streams[0].enable    = 1'b1;
    command.streams[0].addr      = address_i;
    command.streams[0].seg_bytes = bytes_i;
    command.streams[0].segs      = 25'd1;
    if (copy_i) begin
      command.streams[Output]      = command.streams[0];
      command.streams[Output].addr = ~address_i;
    end
  end

  logic desc_valid [Inputs], desc_ready [Inputs], beat_valid [Inputs], beat_ready [Inputs];
  dma_desc_t desc [Inputs];
  logic [DataWidth-1:0] beat [Inputs];
  for (genvar s = 0; s < Inputs; s++) begin : g_streams
    assign desc_ready[s] = s == 0 && desc_ready_i;
    assign beat_valid[s] = s == 0 && beat_valid_i;
    assign beat[s]       = beat_i;
  end
  assign desc_valid_o = desc_valid[0];
  assign desc_o       = desc[0];
  assign beat_ready_o = beat_ready[0];
  assign word_o       = dut.u_programs.memory_q[look_i[$clog2(ProgramWords)-1:0]];

  vector_engine #(
      .DataWidth   (DataWidth),
      .Lanes       (4),
      .VectorLength(32),
      .RowElements (64),
      .ProgramWords(ProgramWords)
  ) dut (
      .test_enable_i   (1'b0),
      .command_i       (command),
      .fault_index_o   (),
      .fault_address_o (),
      .src_desc_valid_o(desc_valid),
      .src_desc_ready_i(desc_ready),
      .src_desc_o      (desc),
      .src_valid_i     (beat_valid),
      .src_ready_o     (beat_ready),
      .src_data_i      (beat),
      .stall_read_o    (),
      .stall_write_o   (),
      .*
  );
endmodule
