// A technology map for Yosys: a register takes its input in a step of the proof in which its clock is 1.
(* techmap_celltype = "$dff" *)
module clock_enable (CLK, D, Q);
  parameter WIDTH = 0;
  parameter CLK_POLARITY = 0;
  input CLK;
  input [WIDTH-1:0] D;
  output [WIDTH-1:0] Q;
  wire _TECHMAP_FAIL_ = !CLK_POLARITY;
  \$ff #(.WIDTH(WIDTH)) _TECHMAP_REPLACE_ (.D(CLK ? D : Q), .Q(Q));
endmodule
