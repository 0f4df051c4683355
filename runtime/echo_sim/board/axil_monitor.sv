// Watches s_axil and records every register write the device answers, whoever the master is (axil_monitor.cpp).
module axil_monitor (
    input logic        clk,
    input logic        rst_n,
    input logic [63:0] cycle,
    input logic        awvalid,
    input logic        awready,
    input logic [15:0] awaddr,
    input logic        wvalid,
    input logic        wready,
    input logic [31:0] wdata,
    input logic [ 3:0] wstrb,
    input logic        bvalid,
    input logic        bready,
    input logic [ 1:0] bresp
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
      if (awvalid && awready) echo_axil_saw_address(awaddr);
      if (wvalid && wready) echo_axil_saw_data(wdata, wstrb);
      if (bvalid && bready) echo_axil_saw_answer(cycle, bresp);
    end
  end

endmodule
