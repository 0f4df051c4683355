// vector_engine with a port for each channel of a stream, a view of program memory, and a retire pulse that can
// come in the clock of done_o.
module vector_engine_tb
  import npu_pkg::*;
  import vector_pkg::*;
#(
    parameter int unsigned DataWidth    = 64,
    parameter int unsigned Lanes        = 4,
    parameter int unsigned VectorLength = 32,
    parameter int unsigned RowElements  = 64,
    parameter int unsigned ProgramWords = 512,
    parameter bit          Pipeline     = 1'b0
) (
    input  logic                       clk_i,
    input  logic                       rst_ni,
    input  logic                       test_enable_i,
    input  logic                       abort_i,
    input  logic                       start_i,
    input  logic                       retire_i,
    input  logic                       at_once_i,  // a command retires in the clock in which it is done
    input  vector_command_t            command_i,
    output logic                       busy_o,
    output logic                       done_o,
    output logic                       fault_o,
    output logic                       fault_index_o,
    output logic [31:0]                fault_address_o,
    output logic [31:0]                program_words_o,
    output logic                       program_ready_o,
    output logic                       stall_read_o,
    output logic                       stall_write_o,
    output logic                       s0_desc_valid_o,
    input  logic                       s0_desc_ready_i,
    output dma_desc_t                  s0_desc_o,
    input  logic                       s0_valid_i,
    output logic                       s0_ready_o,
    input  logic [DataWidth-1:0]       s0_data_i,
    output logic                       s1_desc_valid_o,
    input  logic                       s1_desc_ready_i,
    output dma_desc_t                  s1_desc_o,
    input  logic                       s1_valid_i,
    output logic                       s1_ready_o,
    input  logic [DataWidth-1:0]       s1_data_i,
    output logic                       s2_desc_valid_o,
    input  logic                       s2_desc_ready_i,
    output dma_desc_t                  s2_desc_o,
    input  logic                       s2_valid_i,
    output logic                       s2_ready_o,
    input  logic [DataWidth-1:0]       s2_data_i,
    output logic                       s3_desc_valid_o,
    input  logic                       s3_desc_ready_i,
    output dma_desc_t                  s3_desc_o,
    input  logic                       s3_valid_i,
    output logic                       s3_ready_o,
    input  logic [DataWidth-1:0]       s3_data_i,
    output logic                       dst_desc_valid_o,
    input  logic                       dst_desc_ready_i,
    output dma_desc_t                  dst_desc_o,
    output logic                       dst_valid_o,
    input  logic                       dst_ready_i,
    output logic [DataWidth-1:0]       dst_data_o,
    input  logic                       dst_idle_i,
    output logic [ProgramWords*64-1:0] programs_o
);
  logic src_desc_valid [Inputs], src_desc_ready [Inputs], src_valid [Inputs], src_ready [Inputs];
  dma_desc_t src_desc [Inputs];
  logic [DataWidth-1:0] src_data [Inputs];

  assign src_desc_ready = '{s0_desc_ready_i, s1_desc_ready_i, s2_desc_ready_i, s3_desc_ready_i};
  assign src_valid      = '{s0_valid_i, s1_valid_i, s2_valid_i, s3_valid_i};
  assign src_data       = '{s0_data_i, s1_data_i, s2_data_i, s3_data_i};
  assign {s0_desc_valid_o, s0_desc_o, s0_ready_o} = {src_desc_valid[0], src_desc[0], src_ready[0]};
  assign {s1_desc_valid_o, s1_desc_o, s1_ready_o} = {src_desc_valid[1], src_desc[1], src_ready[1]};
  assign {s2_desc_valid_o, s2_desc_o, s2_ready_o} = {src_desc_valid[2], src_desc[2], src_ready[2]};
  assign {s3_desc_valid_o, s3_desc_o, s3_ready_o} = {src_desc_valid[3], src_desc[3], src_ready[3]};

  for (genvar w = 0; w < ProgramWords; w++) begin : g_programs
    assign programs_o[w*64+:64] = dut.u_programs.u_memory.storage_q[w];
  end

  vector_engine #(
      .DataWidth   (DataWidth),
      .Lanes       (Lanes),
      .VectorLength(VectorLength),
      .RowElements (RowElements),
      .ProgramWords(ProgramWords),
      .Pipeline    (Pipeline)
  ) dut (
      .retire_i        (retire_i || (at_once_i && done_o && !abort_i)),
      .src_desc_valid_o(src_desc_valid),
      .src_desc_ready_i(src_desc_ready),
      .src_desc_o      (src_desc),
      .src_valid_i     (src_valid),
      .src_ready_o     (src_ready),
      .src_data_i      (src_data),
      .*
  );
endmodule
