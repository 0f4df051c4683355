// Rest: a gated clock has no pulse once its unit has had nothing to do for a while. Passive.
module rest_checker #(
    parameter string       Name    = "unit",
    parameter int unsigned Settled = 64       // clocks after which a unit without work rests
) (
    input logic clk_i,
    input logic rst_ni,
    input logic quiet_i,  // the unit has nothing to do in this clock
    input logic gated_i   // its clock
);
  logic [$clog2(Settled+1)-1:0] quiet_q;
  logic pulse, pulse_q;  // changes with each pulse

  always @(posedge gated_i) pulse <= !pulse;

  always @(posedge clk_i) begin
    pulse_q <= pulse;
    if (!rst_ni || !quiet_i) quiet_q <= '0;
    else if (quiet_q != $bits(quiet_q)'(Settled)) quiet_q <= quiet_q + 1'b1;
    // The condition is tested first, because Verilator tests at each assertion whether assertions are on.
    if (rst_ni && quiet_i && quiet_q == $bits(quiet_q)'(Settled) && pulse != pulse_q) begin
      Rests : assert (1'b0)
      else $error("%m: the clock of the %s has a pulse while there is nothing to do", Name);
    end
  end
endmodule
