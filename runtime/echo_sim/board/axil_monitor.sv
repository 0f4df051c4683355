// Watches s_axil and records every register write the device answers, whoever the master is (axil_monitor.cpp).
module axil_monitor (
    input logic        clk,
    input logic        rst_n,
    input logic [63:0] cycle,
    input logic        axil_awvalid,
    input logic        axil_awready,
    input logic [15:0] axil_awaddr,
    input logic        axil_wvalid,
    input logic        axil_wready,
    input logic [31:0] axil_wdata,
    input logic [ 3:0] axil_wstrb,
    input logic        axil_bvalid,
    input logic        axil_bready,
    input logic [ 1:0] axil_bresp
);

  import "DPI-C" function void echo_axil_saw_reset();
  import "DPI-C" function void echo_axil_saw_address(input bit [15:0] addr);
  import "DPI-C" function void echo_axil_saw_data(
    input int unsigned data,
    input bit [3:0]    strb
  );
  import "DPI-C" function void echo_axil_saw_answer(
    input longint unsigned cycle,
    input bit [1:0]        resp
  );

  always @(posedge clk) begin
    if (!rst_n) begin
      echo_axil_saw_reset();
    end else begin
      if (axil_awvalid && axil_awready) echo_axil_saw_address(axil_awaddr);
      if (axil_wvalid && axil_wready) echo_axil_saw_data(axil_wdata, axil_wstrb);
      if (axil_bvalid && axil_bready) echo_axil_saw_answer(cycle, axil_bresp);
    end
  end

endmodule
