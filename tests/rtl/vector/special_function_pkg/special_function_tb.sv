// Computes the three special functions of every operand of a file when `start` rises, and writes them to another
// file: of each operand e^a, 1/a, 1/sqrt(a). No simulated time passes meanwhile.
module special_function_tb
  import special_function_pkg::*;
(
    output logic        done,
    output logic [31:0] computed   // operands
);
  import "DPI-C" function void special_begin();
  import "DPI-C" function int special_operand(output int a);
  import "DPI-C" function void special_result(input int value);
  import "DPI-C" function void special_end();

  // Set by the test. Not a port: those begin with random bits, which would be a start.
  logic start = 1'b0;

  initial begin
    done     = 1'b0;
    computed = '0;
  end

  always @(posedge start) begin
    int a, number;
    special_begin();
    number = 0;
    while (special_operand(a) != 0) begin
      special_result(alu_special(a, SpecialExp));
      special_result(alu_special(a, SpecialRcp));
      special_result(alu_special(a, SpecialRsqrt));
      number = number + 1;
    end
    special_end();
    computed <= number;
    done     <= 1'b1;
  end
endmodule
