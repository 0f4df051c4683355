// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Host window: an AXI4 slave that forwards the host's accesses to device memory and refuses all others.
//
// It forwards bursts that are legal AXI4 and lie in weight or activation memory, one beat a cycle, with up to
// MaxOutstanding in flight. Every other burst gets DECERR: its write data is swallowed, and its read data is zero in
// as many beats as requested. A refused burst waits until all earlier ones of its direction have their responses, and
// later ones wait for its response. This keeps the order that AXI requires within an ID.
//
// Reset and idle: no valid is high, every ready towards the host is.
module axi_slave #(
    parameter int unsigned DataWidth        = 256,   // bits, a power of two from 8 to 1024
    parameter int unsigned IdWidth          = 4,     // bits of an ID, at least 1
    parameter int unsigned MaxOutstanding   = 16,    // forwarded bursts without a response, each direction; at least 1
    parameter bit          Reaches          = 1'b1,  // device memory lies within the host's 32 address bits
    parameter type         axi_address_t    = logic, // the four of AXI_TYPES(IdWidth, DataWidth)
    parameter type         axi_write_data_t = logic, // write data
    parameter type         axi_response_t   = logic, // write response
    parameter type         axi_read_data_t  = logic  // read data
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    output logic                   busy_o,  // something is inside, or on its way behind this module
    // from the host
    input  logic [    IdWidth-1:0] s_axi_awid,
    input  logic [           31:0] s_axi_awaddr,
    input  logic [            7:0] s_axi_awlen,
    input  logic [            2:0] s_axi_awsize,
    input  logic [            1:0] s_axi_awburst,
    input  logic [            2:0] s_axi_awprot,
    input  logic                   s_axi_awvalid,
    output logic                   s_axi_awready,
    input  logic [  DataWidth-1:0] s_axi_wdata,
    input  logic [DataWidth/8-1:0] s_axi_wstrb,
    input  logic                   s_axi_wlast,
    input  logic                   s_axi_wvalid,
    output logic                   s_axi_wready,
    output logic [    IdWidth-1:0] s_axi_bid,
    output logic [            1:0] s_axi_bresp,
    output logic                   s_axi_bvalid,
    input  logic                   s_axi_bready,
    input  logic [    IdWidth-1:0] s_axi_arid,
    input  logic [           31:0] s_axi_araddr,
    input  logic [            7:0] s_axi_arlen,
    input  logic [            2:0] s_axi_arsize,
    input  logic [            1:0] s_axi_arburst,
    input  logic [            2:0] s_axi_arprot,
    input  logic                   s_axi_arvalid,
    output logic                   s_axi_arready,
    output logic [    IdWidth-1:0] s_axi_rid,
    output logic [  DataWidth-1:0] s_axi_rdata,
    output logic [            1:0] s_axi_rresp,
    output logic                   s_axi_rlast,
    output logic                   s_axi_rvalid,
    input  logic                   s_axi_rready,
    // to the memory controller; write data may be valid before its address is taken
    output axi_address_t           m_aw_o,
    output logic                   m_awvalid_o,
    input  logic                   m_awready_i,
    output axi_write_data_t        m_w_o,
    output logic                   m_wvalid_o,
    input  logic                   m_wready_i,
    input  axi_response_t          m_b_i,
    input  logic                   m_bvalid_i,
    output logic                   m_bready_o,
    output axi_address_t           m_ar_o,
    output logic                   m_arvalid_o,
    input  logic                   m_arready_i,
    input  axi_read_data_t         m_r_i,
    input  logic                   m_rvalid_i,
    output logic                   m_rready_o
);

  // Weight and activation memory are the lowest 512 MiB, and their borders are 4 KiB borders. So a legal burst that
  // starts in one of them ends in it.
  localparam int unsigned MemoryBits = 29;

  localparam int unsigned CountBits = $clog2(MaxOutstanding + 1);
  localparam logic [CountBits-1:0] CountMax = CountBits'(MaxOutstanding);
  localparam logic [2:0] SizeMax = 3'($clog2(DataWidth / 8));

  localparam logic [1:0] RespDecErr = 2'b11;
  localparam logic [1:0] BurstFixed = 2'b00;
  localparam logic [1:0] BurstIncr  = 2'b01;
  localparam logic [1:0] BurstWrap  = 2'b10;

  if (DataWidth < 8 || DataWidth > 1024 || (DataWidth & (DataWidth - 1)) != 0) begin : gen_bad_data_width
    $fatal(1, "axi_slave: DataWidth must be a power of two from 8 to 1024");
  end
  if (IdWidth < 1) begin : gen_bad_id_width
    $fatal(1, "axi_slave: IdWidth must be at least 1");
  end
  if (MaxOutstanding < 1) begin : gen_bad_max_outstanding
    $fatal(1, "axi_slave: MaxOutstanding must be at least 1");
  end

  // AXI4 allows the burst on this bus. `offset` is its start within a 4 KiB page.
  function automatic logic legal_burst(input logic [11:0] offset, input logic [7:0] len, input logic [2:0] size,
                                       input logic [1:0] burst);
    logic [7:0]  size_mask;
    logic [15:0] end_offset;
    size_mask  = (8'd1 << size) - 8'd1;
    end_offset = {4'b0, offset & ~{4'b0, size_mask}} + ((16'(len) + 16'd1) << size);
    case (burst)
      BurstFixed: legal_burst = len <= 8'd15;
      BurstIncr:  legal_burst = end_offset <= 16'd4096;
      BurstWrap:  legal_burst = len inside {8'd1, 8'd3, 8'd7, 8'd15} && (offset[7:0] & size_mask) == 8'd0;
      default:    legal_burst = 1'b0;
    endcase
    if (size > SizeMax) legal_burst = 1'b0;
  endfunction

  // ---------------------------------------------------------------- writes
  typedef enum logic [1:0] {
    WriteForward,
    WriteDrain,    // swallow the data of a refused burst
    WriteRefuse    // send its response
  } write_state_e;

  write_state_e         write_state_q, write_state_d;
  logic [CountBits-1:0] write_count_q, write_count_d;  // bursts forwarded, without a response yet
  logic [CountBits-1:0] data_count_q, data_count_d;    // bursts forwarded, last data beat not forwarded yet

  axi_address_t           aw_in;
  axi_write_data_t      w_in;
  axi_response_t        b_in;
  logic                 aw_valid, aw_legal, aw_pop;
  logic                 aw_out_ready, aw_forward;
  logic                 w_valid, w_pop, w_pass;
  logic                 b_ready, b_push;

  always_comb begin
    write_state_d = write_state_q;
    aw_forward    = 1'b0;
    aw_pop        = 1'b0;
    case (write_state_q)
      WriteForward: begin
        if (aw_valid) begin
          if (!aw_legal) begin
            if (write_count_q == '0) write_state_d = WriteDrain;
          end else if (aw_out_ready && write_count_q != CountMax) begin
            aw_forward = 1'b1;
            aw_pop     = 1'b1;
          end
        end
      end
      WriteDrain: if (w_valid && w_in.last) write_state_d = WriteRefuse;
      WriteRefuse: begin
        if (b_ready) begin
          aw_pop        = 1'b1;
          write_state_d = WriteForward;
        end
      end
      default: write_state_d = WriteForward;
    endcase
  end

  assign aw_legal    = Reaches && aw_in.addr[31:MemoryBits] == '0 &&
                       legal_burst(aw_in.addr[11:0], aw_in.len, aw_in.size, aw_in.burst);
  assign w_pass      = data_count_q != '0;
  assign m_wvalid_o  = w_valid && w_pass;
  assign w_pop       = (m_wvalid_o && m_wready_i) || (w_valid && write_state_q == WriteDrain);
  assign m_bready_o  = b_ready;
  assign b_push      = write_state_q == WriteRefuse ? b_ready : m_bvalid_i && m_bready_o;
  assign b_in        = write_state_q == WriteRefuse ? {aw_in.id, RespDecErr} : m_b_i;

  assign write_count_d = write_count_q + CountBits'(aw_forward) - CountBits'(m_bvalid_i && m_bready_o);
  assign data_count_d  = data_count_q + CountBits'(aw_forward) - CountBits'(m_wvalid_o && m_wready_i && w_in.last);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      write_state_q <= WriteForward;
      write_count_q <= '0;
      data_count_q  <= '0;
    end else begin
      write_state_q <= write_state_d;
      write_count_q <= write_count_d;
      data_count_q  <= data_count_d;
    end
  end

  skid_buffer #(
      .Width($bits(axi_address_t))
  ) u_aw_in (
      .clk_i,
      .rst_ni,
      .data_i ({s_axi_awid, s_axi_awaddr, s_axi_awlen, s_axi_awsize, s_axi_awburst, s_axi_awprot}),
      .valid_i(s_axi_awvalid),
      .ready_o(s_axi_awready),
      .data_o (aw_in),
      .valid_o(aw_valid),
      .ready_i(aw_pop)
  );

  // The memory may take the data before the address, so this choice must not depend on m_awready_i: a second stage.
  skid_buffer #(
      .Width($bits(axi_address_t))
  ) u_aw_out (
      .clk_i,
      .rst_ni,
      .data_i (aw_in),
      .valid_i(aw_forward),
      .ready_o(aw_out_ready),
      .data_o (m_aw_o),
      .valid_o(m_awvalid_o),
      .ready_i(m_awready_i)
  );

  assign m_w_o = w_in;
  skid_buffer #(
      .Width($bits(axi_write_data_t))
  ) u_w (
      .clk_i,
      .rst_ni,
      .data_i ({s_axi_wdata, s_axi_wstrb, s_axi_wlast}),
      .valid_i(s_axi_wvalid),
      .ready_o(s_axi_wready),
      .data_o (w_in),
      .valid_o(w_valid),
      .ready_i(w_pop)
  );

  skid_buffer #(
      .Width($bits(axi_response_t))
  ) u_b (
      .clk_i,
      .rst_ni,
      .data_i (b_in),
      .valid_i(b_push),
      .ready_o(b_ready),
      .data_o ({s_axi_bid, s_axi_bresp}),
      .valid_o(s_axi_bvalid),
      .ready_i(s_axi_bready)
  );

  // ---------------------------------------------------------------- reads
  typedef enum logic {
    ReadForward,
    ReadRefuse    // send the zero beats of a refused burst
  } read_state_e;

  read_state_e          read_state_q, read_state_d;
  logic [CountBits-1:0] read_count_q, read_count_d;  // bursts forwarded, last data beat not received yet
  logic [7:0]           beat_q, beat_d;

  axi_address_t           ar_in;
  axi_read_data_t       r_in;
  logic                 ar_valid, ar_legal, ar_pop;
  logic                 r_ready, r_push, refuse_last;

  assign ar_legal    = Reaches && ar_in.addr[31:MemoryBits] == '0 &&
                       legal_burst(ar_in.addr[11:0], ar_in.len, ar_in.size, ar_in.burst);
  assign refuse_last = beat_q == ar_in.len;
  assign m_arvalid_o = read_state_q == ReadForward && ar_valid && ar_legal && read_count_q != CountMax;
  assign m_rready_o  = r_ready;
  assign m_ar_o      = ar_in;

  always_comb begin
    read_state_d = read_state_q;
    beat_d       = beat_q;
    ar_pop       = m_arvalid_o && m_arready_i;
    r_push       = m_rvalid_i && m_rready_o;
    r_in         = m_r_i;
    if (read_state_q == ReadForward) begin
      if (ar_valid && !ar_legal && read_count_q == '0) begin
        read_state_d = ReadRefuse;
        beat_d       = '0;
      end
    end else begin
      r_push = r_ready;
      r_in   = {ar_in.id, DataWidth'(0), RespDecErr, refuse_last};
      if (r_ready) begin
        beat_d = beat_q + 8'd1;
        if (refuse_last) begin
          ar_pop       = 1'b1;
          read_state_d = ReadForward;
        end
      end
    end
  end

  assign read_count_d = read_count_q + CountBits'(m_arvalid_o && m_arready_i) -
                        CountBits'(m_rvalid_i && m_rready_o && m_r_i.last);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      read_state_q <= ReadForward;
      read_count_q <= '0;
      beat_q       <= '0;
    end else begin
      read_state_q <= read_state_d;
      read_count_q <= read_count_d;
      beat_q       <= beat_d;
    end
  end

  skid_buffer #(
      .Width($bits(axi_address_t))
  ) u_ar (
      .clk_i,
      .rst_ni,
      .data_i ({s_axi_arid, s_axi_araddr, s_axi_arlen, s_axi_arsize, s_axi_arburst, s_axi_arprot}),
      .valid_i(s_axi_arvalid),
      .ready_o(s_axi_arready),
      .data_o (ar_in),
      .valid_o(ar_valid),
      .ready_i(ar_pop)
  );

  skid_buffer #(
      .Width($bits(axi_read_data_t))
  ) u_r (
      .clk_i,
      .rst_ni,
      .data_i (r_in),
      .valid_i(r_push),
      .ready_o(r_ready),
      .data_o ({s_axi_rid, s_axi_rdata, s_axi_rresp, s_axi_rlast}),
      .valid_o(s_axi_rvalid),
      .ready_i(s_axi_rready)
  );

  // The counts include bursts in the buffers behind this module, so the buffers are empty when it rests. A refused burst
  // keeps its address to the end, and a response comes after the address and all data of its burst.
  assign busy_o = write_count_q != '0 || read_count_q != '0 || aw_valid || w_valid || ar_valid
                  || s_axi_bvalid || s_axi_rvalid;
  `NPU_ASSERT(Held, busy_o || (write_state_q == WriteForward && read_state_q == ReadForward && data_count_q == '0
                               && !m_awvalid_o), "a burst under way does not hold the clock")

  // ---------------------------------------------------------------- rules of the neighbours
  `NPU_ASSERT_HANDSHAKE(HostAwHolds, s_axi_awvalid, s_axi_awready,
                        {s_axi_awid, s_axi_awaddr, s_axi_awlen, s_axi_awsize, s_axi_awburst, s_axi_awprot},
                        "the host changed or withdrew a write address before it was taken")
  `NPU_ASSERT_HANDSHAKE(HostWHolds, s_axi_wvalid, s_axi_wready, {s_axi_wdata, s_axi_wstrb, s_axi_wlast},
                        "the host changed or withdrew write data before it was taken")
  `NPU_ASSERT_HANDSHAKE(HostArHolds, s_axi_arvalid, s_axi_arready,
                        {s_axi_arid, s_axi_araddr, s_axi_arlen, s_axi_arsize, s_axi_arburst, s_axi_arprot},
                        "the host changed or withdrew a read address before it was taken")
  `NPU_ASSERT_HANDSHAKE(MemoryBHolds, m_bvalid_i, m_bready_o, m_b_i,
                        "the memory changed or withdrew a write response before it was taken")
  `NPU_ASSERT_HANDSHAKE(MemoryRHolds, m_rvalid_i, m_rready_o, m_r_i,
                        "the memory changed or withdrew read data before it was taken")
  `NPU_ASSERT(MemoryBExpected, !(m_bvalid_i && write_count_q == '0),
              "the memory answered a write that nobody asked for")
  `NPU_ASSERT(MemoryRExpected, !(m_rvalid_i && read_count_q == '0), "the memory sent read data that nobody asked for")
  `NPU_ASSERT_KNOWN(HostAddressesKnown, ({s_axi_awvalid ? s_axi_awaddr : '0, s_axi_arvalid ? s_axi_araddr : '0}))

  // ---------------------------------------------------------------- rules of this module
  `NPU_ASSERT_KNOWN(AddressesKnown, ({m_awvalid_o ? m_aw_o.addr : '0, m_arvalid_o ? m_ar_o.addr : '0}))
  `NPU_ASSERT_HANDSHAKE(AwHolds, m_awvalid_o, m_awready_i, m_aw_o,
                        "a write address changed or was withdrawn before the memory took it")
  `NPU_ASSERT_HANDSHAKE(WHolds, m_wvalid_o, m_wready_i, m_w_o,
                        "write data changed or was withdrawn before the memory took it")
  `NPU_ASSERT_HANDSHAKE(ArHolds, m_arvalid_o, m_arready_i, m_ar_o,
                        "a read address changed or was withdrawn before the memory took it")
  `NPU_ASSERT_HANDSHAKE(BHolds, s_axi_bvalid, s_axi_bready, {s_axi_bid, s_axi_bresp},
                        "a write response changed or was withdrawn before the host took it")
  `NPU_ASSERT_HANDSHAKE(RHolds, s_axi_rvalid, s_axi_rready, {s_axi_rid, s_axi_rdata, s_axi_rresp, s_axi_rlast},
                        "read data changed or was withdrawn before the host took it")
  `NPU_ASSERT(RefuseAlone, !(write_state_q != WriteForward && write_count_q != '0),
              "a refused write runs beside a forwarded one")

endmodule
