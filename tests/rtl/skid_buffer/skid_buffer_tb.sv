// skid_buffer, in reset at the first clock edge: inputs start with random values, and its rules hold outside reset.
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
  logic started;
  initial started = 1'b0;
  always_ff @(posedge clk_i) started <= 1'b1;

  skid_buffer #(
      .Width(Width)
  ) dut (
      .rst_ni(rst_ni && started),
      .*
  );
endmodule
