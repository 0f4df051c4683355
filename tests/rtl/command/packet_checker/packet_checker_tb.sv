// packet_checker with the four packets of a command as one list of words, and its results as another.
module packet_checker_tb
  import npu_pkg::*;
  import vector_pkg::*;
#(
    parameter int unsigned ProgramWords = 4096,
    localparam int unsigned HeadWords    = 13,
    localparam int unsigned OperandWords = 17
) (
    input  logic          clk_i,
    input  logic          rst_ni,
    input  logic [2047:0] words_i,           // the packet, then its extensions
    input  logic [31:0]   program_words_i,
    input  logic [63:0]   guard_base_i,
    input  logic [31:0]   guard_size_i,
    input  logic          start_i,
    input  logic          taken_i,
    output logic [7:0]    head_error_o,
    output logic [7:0]    extension_error_o,
    output logic          done_o,
    output logic [7:0]    error_o,
    output logic [63:0]   error_addr_o,
    output logic [HeadWords+Operands*OperandWords-1:0][31:0] results_o  // what an engine gets, as oracle.py names it
);
  packet_words_t extensions [VectorExtensions];
  for (genvar i = 0; i < VectorExtensions; i++) begin : g_extensions
    assign extensions[i] = words_i[512*(i+1)+:512];
  end

  error_e head_error, extension_error, error;
  extent_t [Operands-1:0] extents;
  matrix_command_t matrix;
  vector_command_t command;
  logic turned;
  logic [1:0] halves;  // which of the packet's operands are float16 beside float32

  packet_checker #(
      .ProgramWords(ProgramWords)
  ) dut (
      .abort_i          (1'b0),
      .packet_i         (packet_t'(words_i[511:0])),
      .extension_i      (extensions),
      .guard_base_i     (address_t'(guard_base_i)),
      .head_error_o     (head_error),
      .extension_error_o(extension_error),
      .error_o          (error),
      .extents_o        (extents),
      .turned_o         (turned),
      .matrix_o         (matrix),
      .vector_o         (command),
      .*
  );

  assign head_error_o      = head_error;
  assign extension_error_o = extension_error;
  assign error_o           = error;

  assign halves = turned ? {matrix.src1_half, matrix.src2_half} : {matrix.src2_half, matrix.src1_half};

  function automatic logic [31:0] high(input address_t address);
    return 32'(64'(address) >> 32);
  endfunction

  // The first word is the lowest.
  assign results_o[HeadWords-1:0] = {command.table_rows, 32'(turned), 32'(halves), 32'(matrix.blocks), 32'(matrix.n), 32'(matrix.k),
                                     32'(matrix.m), 32'(command.batch1), 32'(command.batch0), command.entry,
                                     32'(command.repeats), command.cols, 32'(command.rows)};
  for (genvar i = 0; i < Operands; i++) begin : g_operands
    stream_t stream;
    assign stream = command.streams[i];
    assign results_o[HeadWords+i*OperandWords+:OperandWords] = {
      high(stream.addr), high(extents[i].last), high(extents[i].first), stream.row_granules, 32'(stream.segments), stream.length, 32'(stream.segs), stream.seg_len, stream.seg_bytes,
      stream.seg_stride, stream.batch1_stride, stream.batch0_stride, stream.row_stride, 32'(stream.addr),
      32'(extents[i].last), 32'(extents[i].first), 32'(extents[i].used)
    };
  end
endmodule
