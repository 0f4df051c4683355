// ram_queue, in reset from power-up on.
module ram_queue_tb #(
    parameter int unsigned Width = 16,
    parameter int unsigned Depth = 8
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic             valid_i,
    output logic             ready_o,
    input  logic [Width-1:0] data_i,
    output logic             valid_o,
    input  logic             ready_i,
    output logic [Width-1:0] data_o
);
  logic rst_n;
  power_up_reset u_reset (.clk_i, .rst_ni, .rst_no(rst_n));

  ram_queue #(
      .Width(Width),
      .Depth(Depth)
  ) dut (
      .rst_ni(rst_n),
      .*
  );
endmodule
