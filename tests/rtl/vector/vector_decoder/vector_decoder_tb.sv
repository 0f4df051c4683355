// Decodes one opcode with all pairs of operand codes: dst and a, with b and c
// as given, then b and c, with dst and a as given.
module vector_decoder_tb
  import vector_pkg::*;
(
    output logic          done,
    output logic [4095:0] illegal_dst_a,  // bit 64 * dst + a
    output logic [4095:0] illegal_b_c,    // bit 64 * b + c
    output logic          control,
    output logic          fold,
    output logic          special,
    output logic [3:0]    uses            // with the given operands: {accumulates, c, b, a}
);
  // Set by the test. Not ports: those begin with random bits, and one of them would be a start.
  logic start = 1'b0;
  instruction_t given;

  instruction_t instruction;
  logic illegal;

  vector_decoder u_decoder (
      .instruction_i(instruction),
      .uses_a_o     (uses[0]),
      .uses_b_o     (uses[1]),
      .uses_c_o     (uses[2]),
      .control_o    (control),
      .fold_o       (fold),
      .accumulate_o (uses[3]),
      .special_o    (special),
      .illegal_o    (illegal)
  );

  initial done = 1'b0;

  always @(posedge start) begin
    done <= 1'b0;
    for (int i = 0; i < 4096; i++) begin
      instruction <= given;
      {instruction.dst, instruction.a} <= 12'(i);
      #1;
      illegal_dst_a[i] <= illegal;
      instruction <= given;
      {instruction.b, instruction.c} <= 12'(i);
      #1;
      illegal_b_c[i] <= illegal;
    end
    instruction <= given;
    #1;
    done <= 1'b1;
  end
endmodule
