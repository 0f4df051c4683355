// sync_fifo, in reset at the first clock edge: inputs start with random values, and its rules hold outside reset.
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
  logic started;
  initial started = 1'b0;
  always_ff @(posedge clk_i) started <= 1'b1;

  sync_fifo #(
      .Width(Width),
      .Depth(Depth)
  ) dut (
      .rst_ni(rst_ni && started),
      .*
  );
endmodule
