// Runs every opcode of the vector engine's arithmetic on operands from the
// native checker, as many random ones as `rounds` says, when `start` rises. No
// simulated time passes meanwhile. Opcodes are the numbers of the instruction
// set; ScaledFma is alu_fma of a scaled operand and an addend, which no opcode has.
module vector_alu_tb
  import vector_alu_pkg::*;
(
    output logic        done,
    output logic [31:0] checked,   // operations compared
    output logic [31:0] failures
);
  import "DPI-C" function int vector_alu_begin(input int random_rounds, input int first_seed);
  import "DPI-C" function void vector_alu_operands(output int a, output int b, output int c, output int exponent);
  import "DPI-C" function void vector_alu_check(input int opcode, input int result);
  import "DPI-C" function void vector_alu_end(output int operations, output int wrong);

  localparam int ScaledFma = 127;
  localparam logic [31:0] One = 32'h3F80_0000, MinusZero = 32'h8000_0000, Sign = 32'h8000_0000;

  // Set by the test. Not ports: those begin with random bits, and one of them would be a start.
  logic start = 1'b0;
  logic [31:0] rounds, seed;

  initial begin
    done     = 1'b0;
    checked  = '0;
    failures = '0;
  end

  always @(posedge start) begin
    int total, a, b, c, exponent, operations, wrong;
    total = vector_alu_begin(int'(rounds), int'(seed));
    for (int i = 0; i < total; i++) begin
      vector_alu_operands(a, b, c, exponent);
      vector_alu_check('h00, alu_fma(a, One, b, 1'b0, exponent));
      vector_alu_check('h01, alu_fma(a, One, b ^ Sign, 1'b0, exponent));
      vector_alu_check('h02, alu_fma(a, b, MinusZero, 1'b0, exponent));
      vector_alu_check('h03, alu_fma(a, b, c, 1'b0, exponent));
      vector_alu_check('h04, alu_fma(a ^ Sign, b, c, 1'b0, exponent));
      vector_alu_check('h05, alu_fma(a, b, c ^ Sign, 1'b0, exponent));
      vector_alu_check('h06, alu_fma(a, One, MinusZero, 1'b1, exponent));
      vector_alu_check(ScaledFma, alu_fma(a, One, c, 1'b1, exponent));
      vector_alu_check('h08, alu_min(a, b));
      vector_alu_check('h09, alu_max(a, b));
      vector_alu_check('h0A, alu_compare(a, b, CompareEqual));
      vector_alu_check('h0B, alu_compare(a, b, CompareLess));
      vector_alu_check('h0C, alu_compare(a, b, CompareLessEqual));
      vector_alu_check('h0D, alu_compare(a, b, CompareUnordered));
      vector_alu_check('h11, alu_class(a, exponent));
      vector_alu_check('h12, alu_getmant(a));
      vector_alu_check('h13, alu_getexp(a));
      vector_alu_check('h14, alu_f2i(a, 1'b0));
      vector_alu_check('h15, alu_f2i(a, 1'b1));
      vector_alu_check('h16, alu_i2f(a));
      vector_alu_check('h17, alu_f2h(a));
      vector_alu_check('h18, alu_h2f(a));
      vector_alu_check('h19, alu_f2b(a));
      vector_alu_check('h20, alu_integer(a, b, IntAdd));
      vector_alu_check('h21, alu_integer(a, b, IntSub));
      vector_alu_check('h22, alu_integer(a, b, IntAnd));
      vector_alu_check('h23, alu_integer(a, b, IntOr));
      vector_alu_check('h24, alu_integer(a, b, IntXor));
      vector_alu_check('h25, alu_integer(a, b, IntShl));
      vector_alu_check('h26, alu_integer(a, b, IntShr));
      vector_alu_check('h27, alu_integer(a, b, IntSar));
      vector_alu_check('h28, alu_integer(a, b, IntMin));
      vector_alu_check('h29, alu_integer(a, b, IntMax));
      vector_alu_check('h2A, alu_compare(a, b, CompareIntEqual));
      vector_alu_check('h2B, alu_compare(a, b, CompareIntLess));
    end
    vector_alu_end(operations, wrong);
    checked  <= operations;
    failures <= wrong;
    done     <= 1'b1;
  end
endmodule
