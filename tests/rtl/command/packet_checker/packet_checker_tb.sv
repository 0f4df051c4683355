// packet_checker with the four packets of a command as one list of words, and
// what it finds about one operand at a time.
module packet_checker_tb
  import npu_pkg::*;
  import vector_pkg::*;
#(
    parameter int unsigned ProgramWords = 4096
) (
    input  logic          clk_i,
    input  logic          rst_ni,
    input  logic [2047:0] words_i,           // the packet, then its extensions
    input  logic [31:0]   program_words_i,
    input  logic [31:0]   guard_base_i,
    input  logic [31:0]   guard_size_i,
    input  logic          start_i,
    input  logic          taken_i,
    output logic [7:0]    head_error_o,
    output logic [7:0]    extension_error_o,
    output logic          done_o,
    output logic [7:0]    error_o,
    output logic [63:0]   error_addr_o,

    // what an engine gets
    output logic [31:0]   rows_o,
    output logic [31:0]   cols_o,
    output logic [31:0]   repeats_o,
    output logic [31:0]   entry_o,
    output logic [15:0]   batch0_o,
    output logic [15:0]   batch1_o,
    output logic [24:0]   m_o,
    output logic [24:0]   k_o,
    output logic [24:0]   n_o,

    input  logic [2:0]    operand_i,         // the operand to show
    output logic          used_o,
    output logic [31:0]   first_o,
    output logic [31:0]   last_o,
    output logic [31:0]   addr_o,
    output logic [31:0]   row_stride_o,
    output logic [31:0]   batch0_stride_o,
    output logic [31:0]   batch1_stride_o,
    output logic [31:0]   seg_stride_o,
    output logic [31:0]   seg_bytes_o,
    output logic [31:0]   seg_len_o,
    output logic [31:0]   segs_o,
    output logic [31:0]   length_o,
    output logic [31:0]   segments_o,
    output logic [31:0]   row_granules_o
);
  packet_words_t extensions [VectorExtensions];
  for (genvar i = 0; i < VectorExtensions; i++) begin : g_extensions
    assign extensions[i] = words_i[512*(i+1)+:512];
  end

  error_e head_error, extension_error, error;
  extent_t [Operands-1:0] extents;
  matrix_command_t matrix;
  vector_command_t command;
  stream_t stream;

  packet_checker #(
      .ProgramWords(ProgramWords)
  ) dut (
      .clk_i,
      .rst_ni,
      .abort_i          (1'b0),
      .packet_i         (packet_t'(words_i[511:0])),
      .extension_i      (extensions),
      .program_words_i,
      .guard_base_i,
      .guard_size_i,
      .head_error_o     (head_error),
      .extension_error_o(extension_error),
      .start_i,
      .done_o,
      .error_o          (error),
      .error_addr_o,
      .taken_i,
      .extents_o        (extents),
      .matrix_o         (matrix),
      .vector_o         (command)
  );

  assign head_error_o      = head_error;
  assign extension_error_o = extension_error;
  assign error_o           = error;

  assign rows_o    = 32'(command.rows);
  assign cols_o    = command.cols;
  assign repeats_o = 32'(command.repeats);
  assign entry_o   = command.entry;
  assign batch0_o  = command.batch0;
  assign batch1_o  = command.batch1;
  assign m_o       = matrix.m;
  assign k_o       = matrix.k;
  assign n_o       = matrix.n;

  assign stream          = command.streams[operand_i];
  assign used_o          = extents[operand_i].used;
  assign first_o         = extents[operand_i].first;
  assign last_o          = extents[operand_i].last;
  assign addr_o          = stream.addr;
  assign row_stride_o    = stream.row_stride;
  assign batch0_stride_o = stream.batch0_stride;
  assign batch1_stride_o = stream.batch1_stride;
  assign seg_stride_o    = stream.seg_stride;
  assign seg_bytes_o     = stream.seg_bytes;
  assign seg_len_o       = stream.seg_len;
  assign segs_o          = 32'(stream.segs);
  assign length_o        = stream.length;
  assign segments_o      = 32'(stream.segments);
  assign row_granules_o  = stream.row_granules;

  logic unused;
  assign unused = &{1'b0, matrix, command, stream};
endmodule
