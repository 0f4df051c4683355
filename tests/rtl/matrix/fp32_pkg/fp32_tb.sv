// Feeds pairs of operands from the native checker through fp32_pkg, as many as
// `pairs` says, when `start` rises. No simulated time passes meanwhile.
module fp32_tb
  import fp32_pkg::*;
(
    output logic        done,
    output logic [31:0] checked,   // operations compared
    output logic [31:0] failures
);
  import "DPI-C" function int fp32_begin(input int random_pairs, input int first_seed);
  import "DPI-C" function void fp32_pair(output int a, output int b);
  import "DPI-C" function int fp32_check(input int a, input int b, input int sum, input int product,
                                             input int scaled);

  // Set by the test. Not ports: those begin with random bits, and one of them would be a start.
  logic start = 1'b0;
  logic [31:0] pairs, seed;  // random pairs of each operation

  initial begin
    done     = 1'b0;
    checked  = '0;
    failures = '0;
  end

  always @(posedge start) begin
    int total, a, b, bad;
    bad = 0;
    total = fp32_begin(int'(pairs), int'(seed));
    for (int i = 0; i < total; i++) begin
      fp32_pair(a, b);
      bad = bad + fp32_check(a, b, int'(fp32_add(a, b)), int'(fp32_mul(a, b)), int'(fp32_scale(a, {{23{b[8]}}, b[8:0]})));
    end
    failures <= bad;
    checked  <= 3 * total;
    done     <= 1'b1;
  end
endmodule
