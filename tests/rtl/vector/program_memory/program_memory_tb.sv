// program_memory with the instruction as one word.
module program_memory_tb
  import vector_pkg::*;
#(
    parameter int unsigned Words = 64
) (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        abort_i,
    output logic        ready_o,
    input  logic        begin_i,
    input  logic [31:0] begin_first_i,
    input  logic [31:0] begin_end_i,
    output logic        writable_o,
    input  logic        write_i,
    input  logic [31:0] write_address_i,
    input  logic [63:0] write_data_i,
    input  logic        complete_i,
    output logic [31:0] loaded_o,
    input  logic        read_i,
    input  logic [31:0] read_address_i,
    output logic [63:0] instruction_o,
    output logic        executable_o
);
  instruction_t instruction;
  assign instruction_o = instruction;

  program_memory #(
      .Words(Words)
  ) dut (
      .instruction_o(instruction),
      .*
  );
endmodule
