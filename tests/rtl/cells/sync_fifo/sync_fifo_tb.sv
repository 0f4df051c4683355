// sync_fifo, in reset from power-up on.
module sync_fifo_tb #(
    parameter int unsigned Width = 16,
    parameter int unsigned Depth = 4
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic                   clear_i,
    input  logic                   push_i,
    input  logic [Width-1:0]       data_i,
    input  logic                   pop_i,
    output logic [Width-1:0]       data_o,
    output logic                   full_o,
    output logic                   empty_o,
    output logic [$clog2(Depth):0] count_o
);
  logic rst_n;
  power_up_reset u_reset (.clk_i, .rst_ni, .rst_no(rst_n));

  sync_fifo #(
      .Width(Width),
      .Depth(Depth)
  ) dut (
      .rst_ni(rst_n),
      .*
  );
endmodule
