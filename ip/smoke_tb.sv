// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// Shows that a simulator other than the project's own runs the NPU: a copy, a matrix product and a wrong opcode, through
// registers and interrupt, on a memory of this file. It ends with "PASS", or with $fatal and the reason. With +spoil it
// expects one wrong bit and must fail. What the NPU computes is tested by tests/, not here.
//
// Parameters: those of npu_top.
module smoke_tb
  import board_pkg::*;
  import npu_pkg::*;
#(
    parameter int unsigned ArrayRows    = 4,
    parameter int unsigned ArrayCols    = 4,
    parameter int unsigned VectorLanes  = 4,
    parameter int unsigned VectorLength = 32,
    parameter int unsigned RowElements  = 512,
    parameter int unsigned ProgramWords = 4096,
    parameter int unsigned DataWidth    = 64,
    parameter int unsigned BlockM       = 32,
    parameter int unsigned BlockKTiles  = 4,
    parameter int unsigned BlockNTiles  = 8,
    parameter int unsigned AccEntries   = 128,
    parameter int unsigned QueueDepth   = 16,
    parameter int unsigned ClockGating  = 1,
    parameter int unsigned Pipeline     = 0
);
  localparam int unsigned BusBytes = DataWidth / 8;
  localparam int unsigned MemoryBytes = 65536;
  localparam int unsigned TimeOut = 100_000;  // clocks

  localparam logic [31:0] NoOpcode = 32'h7F;
  localparam logic [31:0] DoneBit = 32'd1 << IrqStatusDoneBit, ErrorBit = 32'd1 << IrqStatusErrorBit;
  localparam logic [31:0] ClearError = 32'd1 << ControlClearErrorBit;

  // Where the operands are, and how large: no multiple of a beat.
  localparam int unsigned Source = 'h1003, Copy = 'h2001, CopyBytes = 777;
  localparam int unsigned Left = 'h4000, Right = 'h5000, Product = 'h6000, Size = 5;

  logic clk = 1'b0, rst_n = 1'b0;
  always #5 clk = !clk;

  logic irq;
  logic [15:0] awaddr, araddr;
  logic awvalid = 1'b0, wvalid = 1'b0, arvalid = 1'b0;
  logic awready, wready, bvalid, arready, rvalid;
  logic [31:0] wdata, rdata;
  logic [1:0] bresp, rresp;

  // ---- device memory: one burst at a time in each direction ---------------------------------
  logic [7:0] memory [MemoryBytes];

  logic m_awvalid, m_wvalid, m_wlast, m_bready, m_arvalid, m_rready;
  logic [7:0] m_awid, m_arid, m_arlen;
  logic [31:0] m_awaddr, m_araddr;
  logic [DataWidth-1:0] m_wdata, m_rdata;
  logic [BusBytes-1:0] m_wstrb;
  logic writing_q = 1'b0, answering_q = 1'b0, reading_q = 1'b0;
  logic [31:0] write_addr_q, read_addr_q;
  logic [7:0] write_id_q, read_id_q, beats_left_q;

  always_comb begin
    for (int unsigned i = 0; i < BusBytes; i++) m_rdata[i*8+:8] = memory[(read_addr_q+i)%MemoryBytes];
  end

  always_ff @(posedge clk) begin
    if (m_awvalid && !writing_q && !answering_q) begin
      writing_q    <= 1'b1;
      write_id_q   <= m_awid;
      write_addr_q <= m_awaddr & ~(32'(BusBytes) - 1);
    end
    if (writing_q && m_wvalid) begin
      for (int unsigned i = 0; i < BusBytes; i++) begin
        if (m_wstrb[i]) memory[(write_addr_q+i)%MemoryBytes] <= m_wdata[i*8+:8];
      end
      write_addr_q <= write_addr_q + BusBytes;
      if (m_wlast) writing_q <= 1'b0;
      if (m_wlast) answering_q <= 1'b1;
    end
    if (answering_q && m_bready) answering_q <= 1'b0;
    if (m_arvalid && !reading_q) begin
      reading_q    <= 1'b1;
      read_id_q    <= m_arid;
      read_addr_q  <= m_araddr & ~(32'(BusBytes) - 1);
      beats_left_q <= m_arlen;
    end
    if (reading_q && m_rready) begin
      read_addr_q  <= read_addr_q + BusBytes;
      beats_left_q <= beats_left_q - 1'b1;
      if (beats_left_q == '0) reading_q <= 1'b0;
    end
  end

  npu_top #(
      .ArrayRows   (ArrayRows),
      .ArrayCols   (ArrayCols),
      .VectorLanes (VectorLanes),
      .VectorLength(VectorLength),
      .RowElements (RowElements),
      .ProgramWords(ProgramWords),
      .DataWidth   (DataWidth),
      .BlockM      (BlockM),
      .BlockKTiles (BlockKTiles),
      .BlockNTiles (BlockNTiles),
      .AccEntries  (AccEntries),
      .QueueDepth  (QueueDepth),
      .ClockGating (ClockGating),
      .Pipeline    (Pipeline)
  ) u_npu (
      .clk,
      .rst_n,
      .test_enable   (1'b0),
      .irq,
      .s_axil_awaddr (awaddr),
      .s_axil_awprot (3'd0),
      .s_axil_awvalid(awvalid),
      .s_axil_awready(awready),
      .s_axil_wdata  (wdata),
      .s_axil_wstrb  (4'hF),
      .s_axil_wvalid (wvalid),
      .s_axil_wready (wready),
      .s_axil_bresp  (bresp),
      .s_axil_bvalid (bvalid),
      .s_axil_bready (1'b1),
      .s_axil_araddr (araddr),
      .s_axil_arprot (3'd0),
      .s_axil_arvalid(arvalid),
      .s_axil_arready(arready),
      .s_axil_rdata  (rdata),
      .s_axil_rresp  (rresp),
      .s_axil_rvalid (rvalid),
      .s_axil_rready (1'b1),
      // The host window is idle.
      .s_axi_awid    ('0),
      .s_axi_awaddr  ('0),
      .s_axi_awlen   ('0),
      .s_axi_awsize  ('0),
      .s_axi_awburst ('0),
      .s_axi_awlock  (1'b0),
      .s_axi_awcache ('0),
      .s_axi_awprot  ('0),
      .s_axi_awqos   ('0),
      .s_axi_awvalid (1'b0),
      .s_axi_awready (),
      .s_axi_wdata   ('0),
      .s_axi_wstrb   ('0),
      .s_axi_wlast   (1'b0),
      .s_axi_wvalid  (1'b0),
      .s_axi_wready  (),
      .s_axi_bid     (),
      .s_axi_bresp   (),
      .s_axi_bvalid  (),
      .s_axi_bready  (1'b1),
      .s_axi_arid    ('0),
      .s_axi_araddr  ('0),
      .s_axi_arlen   ('0),
      .s_axi_arsize  ('0),
      .s_axi_arburst ('0),
      .s_axi_arlock  (1'b0),
      .s_axi_arcache ('0),
      .s_axi_arprot  ('0),
      .s_axi_arqos   ('0),
      .s_axi_arvalid (1'b0),
      .s_axi_arready (),
      .s_axi_rid     (),
      .s_axi_rdata   (),
      .s_axi_rresp   (),
      .s_axi_rlast   (),
      .s_axi_rvalid  (),
      .s_axi_rready  (1'b1),
      .m_axi_awid    (m_awid),
      .m_axi_awaddr  (m_awaddr),
      .m_axi_awlen   (),
      .m_axi_awsize  (),
      .m_axi_awburst (),
      .m_axi_awlock  (),
      .m_axi_awcache (),
      .m_axi_awprot  (),
      .m_axi_awqos   (),
      .m_axi_awvalid (m_awvalid),
      .m_axi_awready (!writing_q && !answering_q),
      .m_axi_wdata   (m_wdata),
      .m_axi_wstrb   (m_wstrb),
      .m_axi_wlast   (m_wlast),
      .m_axi_wvalid  (m_wvalid),
      .m_axi_wready  (writing_q),
      .m_axi_bid     (write_id_q),
      .m_axi_bresp   (2'd0),
      .m_axi_bvalid  (answering_q),
      .m_axi_bready  (m_bready),
      .m_axi_arid    (m_arid),
      .m_axi_araddr  (m_araddr),
      .m_axi_arlen   (m_arlen),
      .m_axi_arsize  (),
      .m_axi_arburst (),
      .m_axi_arlock  (),
      .m_axi_arcache (),
      .m_axi_arprot  (),
      .m_axi_arqos   (),
      .m_axi_arvalid (m_arvalid),
      .m_axi_arready (!reading_q),
      .m_axi_rid     (read_id_q),
      .m_axi_rdata   (m_rdata),
      .m_axi_rresp   (2'd0),
      .m_axi_rlast   (beats_left_q == '0),
      .m_axi_rvalid  (reading_q),
      .m_axi_rready  (m_rready)
  );

  // ---- registers ----------------------------------------------------------------------------
  // Inputs change a little behind an edge, outputs are read at one: no race, whatever the simulator's order.
  task automatic write_register(input logic [15:0] offset, input logic [31:0] value);
    logic address_taken, data_taken, done;
    logic [1:0] response;
    awaddr  = offset;
    wdata   = value;
    awvalid = 1'b1;
    wvalid  = 1'b1;
    do begin
      @(posedge clk);
      address_taken = awready;
      data_taken    = wready;
      done          = bvalid;
      response      = bresp;
      #1;
      if (address_taken) awvalid = 1'b0;
      if (data_taken) wvalid = 1'b0;
    end while (!done);
    if (response != 2'd0) $fatal(1, "FAIL: a write of register %h is answered with an error", offset);
  endtask

  task automatic read_register(input logic [15:0] offset, output logic [31:0] value);
    logic address_taken, done;
    logic [1:0] response;
    araddr  = offset;
    arvalid = 1'b1;
    do begin
      @(posedge clk);
      address_taken = arready;
      done          = rvalid;
      response      = rresp;
      value         = rdata;
      #1;
      if (address_taken) arvalid = 1'b0;
    end while (!done);
    if (response != 2'd0) $fatal(1, "FAIL: a read of register %h is answered with an error", offset);
  endtask

  task automatic expect_register(input logic [15:0] offset, input logic [31:0] expected);
    logic [31:0] value;
    read_register(offset, value);
    if (value != expected) $fatal(1, "FAIL: register %h is %h, not %h", offset, value, expected);
  endtask

  task automatic run(input logic [31:0] opcode, input int unsigned src1, src2, dst, m, k, n);
    logic [31:0] packet [16];
    packet = '{opcode, 0, src1, 0, src2, 0, dst, 0, m, 0, k, 0, n, 0, 0, 0};
    for (int unsigned i = 0; i < 16; i++) write_register(RegCmdWindow + 16'(4 * i), packet[i]);
    write_register(RegDoorbell, 32'd1);
    while (!irq) @(posedge clk);
    #1;
  endtask

  // ---- the test -----------------------------------------------------------------------------
  // The float32 of a small power of two.
  function automatic logic [31:0] power(input int unsigned exponent);
    return 32'(127 + exponent) << 23;
  endfunction

  function automatic void put(input int unsigned address, input logic [31:0] word);
    for (int unsigned i = 0; i < 4; i++) memory[address+i] = word[i*8+:8];
  endfunction

  function automatic logic [31:0] get(input int unsigned address);
    return {memory[address+3], memory[address+2], memory[address+1], memory[address]};
  endfunction

  initial begin
    foreach (memory[i]) memory[i] = 8'(i * 37 + (i >> 8) * 11 + 5);
    // The left operand is twice the identity.
    for (int unsigned row = 0; row < Size; row++) begin
      for (int unsigned column = 0; column < Size; column++) begin
        put(Left + (row * Size + column) * 4, (row == column) ? power(1) : 32'd0);
        put(Right + (row * Size + column) * 4, power(row + column));
      end
    end
    repeat (10) @(posedge clk);
    #1 rst_n = 1'b1;
    repeat (10) @(posedge clk);
    #1;

    expect_register(RegId, 32'h4543_484F);
    write_register(RegIrqEnable, DoneBit | ErrorBit);

    run(OpMemcpy, Source, 0, Copy, CopyBytes, 0, 0);
    expect_register(RegIrqStatus, DoneBit);
    write_register(RegIrqStatus, DoneBit);
    if ($test$plusargs("spoil")) memory[Source+CopyBytes/2][0] = !memory[Source+CopyBytes/2][0];
    for (int unsigned i = 0; i < CopyBytes; i++) begin
      if (memory[Copy+i] != memory[Source+i]) $fatal(1, "FAIL: byte %0d of the copy is wrong", i);
    end
    if (memory[Copy-1] != 8'((Copy - 1) * 37 + ((Copy - 1) >> 8) * 11 + 5)) $fatal(1, "FAIL: it wrote before its start");

    run(OpMatmul, Left, Right, Product, Size, Size, Size);
    expect_register(RegIrqStatus, DoneBit);
    write_register(RegIrqStatus, DoneBit);
    for (int unsigned row = 0; row < Size; row++) begin
      for (int unsigned column = 0; column < Size; column++) begin
        if (get(Product + (row * Size + column) * 4) != power(row + column + 1))
          $fatal(1, "FAIL: the product is wrong in row %0d, column %0d", row, column);
      end
    end
    expect_register(RegRetired, 32'd2);

    run(NoOpcode, 0, 0, 0, 0, 0, 0);
    expect_register(RegErrorCode, 32'(ErrBadOpcode));
    expect_register(RegIrqStatus, ErrorBit);
    write_register(RegControl, ClearError);
    expect_register(RegErrorCode, 32'd0);

    $display("PASS: copy, matrix product, error");
    $finish;
  end

  initial begin
    repeat (TimeOut) @(posedge clk);
    $fatal(1, "FAIL: no end within %0d clocks", TimeOut);
  end
endmodule
