// AXI4-Lite master for Python: toggling `bfm_req` starts the queued operations (axil_queue.cpp), and `bfm_done` follows
// it when the last one is answered. So Python wakes once for a list of register accesses, never for a clock edge.
module axil_bfm #(
    parameter int AddrWidth = 16
) (
    input  logic clk,
    input  logic rst_n,
    input  logic bfm_req,
    output logic bfm_done,

    output logic                 bfm_awvalid,
    input  logic                 awready,
    output logic [AddrWidth-1:0] bfm_awaddr,
    output logic                 bfm_wvalid,
    input  logic                 wready,
    output logic [         31:0] bfm_wdata,
    input  logic                 bvalid,
    output logic                 bfm_bready,
    input  logic [          1:0] axil_bresp,
    output logic                 bfm_arvalid,
    input  logic                 arready,
    output logic [AddrWidth-1:0] bfm_araddr,
    input  logic                 rvalid,
    output logic                 bfm_rready,
    input  logic [         31:0] axil_rdata,
    input  logic [          1:0] axil_rresp
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
  wire  answered = (bvalid && bfm_bready) || (rvalid && bfm_rready);

  initial bfm_done = 1'b0;

  // It has its clock from a toggle of `bfm_req` to the answer.
  logic bfm_clk;
  clock_gate gate (
      .clk_i        (clk),
      .enable_i     (active_q || bfm_req != bfm_done || !rst_n),
      .test_enable_i(1'b0),
      .clk_o        (bfm_clk)
  );

  always @(posedge bfm_clk) begin
    if (!rst_n) begin
      // `bfm_done` keeps its value: it follows only `bfm_req`, so a reset loses no toggle of Python.
      {bfm_awvalid, bfm_wvalid, bfm_bready, bfm_arvalid, bfm_rready, active_q} <= '0;
    end else if (active_q || bfm_req != bfm_done) begin
      if (awready) bfm_awvalid <= 1'b0;
      if (wready) bfm_wvalid <= 1'b0;
      if (arready) bfm_arvalid <= 1'b0;
      if (answered) begin
        echo_axil_answer(bfm_bready ? 32'b0 : axil_rdata, {30'b0, bfm_bready ? axil_bresp : axil_rresp});
      end
      if (!active_q || answered) begin
        automatic int unsigned write, data;
        automatic bit [AddrWidth-1:0] addr;
        automatic bit more;
        more = echo_axil_next(write, addr, data) != 0;
        active_q <= more;
        bfm_awvalid  <= more && write != 0;
        bfm_wvalid   <= more && write != 0;
        bfm_bready   <= more && write != 0;
        bfm_arvalid  <= more && write == 0;
        bfm_rready   <= more && write == 0;
        if (more) begin
          bfm_awaddr <= addr;
          bfm_araddr <= addr;
          bfm_wdata  <= data;
        end else begin
          bfm_done <= bfm_req;
        end
      end
    end
  end

endmodule
