// AXI4-Lite master for Python: toggling `req` starts the queued operations (axil_queue.cpp), and `done` follows `req`
// when the last one is answered. So Python wakes once for a list of register accesses, never for a clock edge.
module axil_bfm #(
    parameter int AddrWidth = 16
) (
    input  logic clk,
    input  logic rst_n,
    input  logic req,
    output logic done,

    output logic                 awvalid,
    input  logic                 awready,
    output logic [AddrWidth-1:0] awaddr,
    output logic                 wvalid,
    input  logic                 wready,
    output logic [         31:0] wdata,
    input  logic                 bvalid,
    output logic                 bready,
    input  logic [          1:0] bresp,
    output logic                 arvalid,
    input  logic                 arready,
    output logic [AddrWidth-1:0] araddr,
    input  logic                 rvalid,
    output logic                 rready,
    input  logic [         31:0] rdata,
    input  logic [          1:0] rresp
);

  import "DPI-C" function int unsigned echo_axil_next(
    output int unsigned        write,
    output bit [AddrWidth-1:0] addr,
    output int unsigned        data
  );
  import "DPI-C" function void echo_axil_answer(
    input int unsigned data,
    input int unsigned resp
  );

  logic active_q;
  wire  answered = (bvalid && bready) || (rvalid && rready);

  initial done = 1'b0;

  // It has its clock from a toggle of `req` to the answer.
  logic bfm_clk;
  clock_gate gate (
      .clk_i        (clk),
      .enable_i     (active_q || req != done || !rst_n),
      .test_enable_i(1'b0),
      .clk_o        (bfm_clk)
  );

  always @(posedge bfm_clk) begin
    if (!rst_n) begin
      // `done` keeps its value: it follows only `req`, so a reset loses no toggle of Python.
      {awvalid, wvalid, bready, arvalid, rready, active_q} <= '0;
    end else if (active_q || req != done) begin
      if (awready) awvalid <= 1'b0;
      if (wready) wvalid <= 1'b0;
      if (arready) arvalid <= 1'b0;
      if (answered) begin
        echo_axil_answer(bready ? 32'b0 : rdata, {30'b0, bready ? bresp : rresp});
      end
      if (!active_q || answered) begin
        automatic int unsigned write, data;
        automatic bit [AddrWidth-1:0] addr;
        automatic bit more;
        more = echo_axil_next(write, addr, data) != 0;
        active_q <= more;
        awvalid  <= more && write != 0;
        wvalid   <= more && write != 0;
        bready   <= more && write != 0;
        arvalid  <= more && write == 0;
        rready   <= more && write == 0;
        if (more) begin
          awaddr <= addr;
          araddr <= addr;
          wdata  <= data;
        end else begin
          done <= req;
        end
      end
    end
  end

endmodule
