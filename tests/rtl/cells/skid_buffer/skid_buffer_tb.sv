// skid_buffer, in reset from power-up on.
module skid_buffer_tb #(
    parameter int unsigned Width = 16
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic [Width-1:0] data_i,
    input  logic             valid_i,
    output logic             ready_o,
    output logic [Width-1:0] data_o,
    output logic             valid_o,
    input  logic             ready_i
);
  logic rst_n;
  power_up_reset u_reset (.clk_i, .rst_ni, .rst_no(rst_n));

  skid_buffer #(
      .Width(Width)
  ) dut (
      .rst_ni(rst_n),
      .*
  );
endmodule
