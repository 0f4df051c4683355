// The vector engine's programs: a memory that LOAD_PROGRAM fills, and the
// built-in program of ADD_TENSOR behind it. One word a clock, one clock late.
// What a load that was not completed has written is no program.
// Reset state: nothing is loaded.
module program_memory
  import vector_pkg::*;
#(
    parameter int unsigned Words = 4096
) (
    input  logic         clk_i,
    input  logic         rst_ni,

    input  logic         write_i,
    input  logic [31:0]  write_address_i,
    input  logic [63:0]  write_data_i,
    input  logic         complete_i,      // pulse, after the last write: words below write_address_i are loaded
    output logic [31:0]  loaded_o,        // words from 0 to the highest one ever loaded

    input  logic         read_i,
    input  logic [31:0]  read_address_i,
    output instruction_t instruction_o,   // after read_i
    output logic         executable_o     // with instruction_o: it has been loaded, or is built in
);
  localparam int unsigned AddressBits = $clog2(Words);

  logic [63:0] memory_q [Words];
  logic [31:0] loaded_q;

  assign loaded_o = loaded_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) loaded_q <= '0;
    else if (complete_i && write_address_i > loaded_q) loaded_q <= write_address_i;
  end

  always_ff @(posedge clk_i) begin
    if (write_i) memory_q[write_address_i[AddressBits-1:0]] <= write_data_i;
  end

  // dst = s0 + p0 * s1
  function automatic instruction_t builtin(input logic [2:0] number);
    builtin = '0;
    unique case (number)
      3'd0: builtin.opcode = VopChunks;
      3'd1: builtin = '{opcode: VopMul, one: 1'b0, dst: OperandVector, a: OperandStream + 6'd1, b: OperandParam,
                        c: '0, imm: '0};
      3'd2: builtin = '{opcode: VopAdd, one: 1'b0, dst: OperandOut, a: OperandStream, b: OperandVector,
                        c: '0, imm: '0};
      3'd3: builtin = '{opcode: VopNext, one: 1'b0, dst: '0, a: '0, b: '0, c: '0, imm: 32'b0011};
      default: builtin.opcode = VopEnd;
    endcase
  endfunction

  logic built_in;
  assign built_in = read_address_i[31];

  always_ff @(posedge clk_i) begin
    if (read_i) begin
      executable_o <= built_in || read_address_i < loaded_q;
      if (built_in) instruction_o <= builtin(read_address_i[2:0]);
      else instruction_o <= instruction_t'(memory_q[read_address_i[AddressBits-1:0]]);
    end
  end

  if (Words < 16 || (Words & (Words - 1)) != 0) begin : g_bad_words
    $fatal(1, "program_memory: Words must be a power of two of at least 16");
  end
endmodule
