// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// The only master of device memory. The two-dimensional read and write channels
// of the command processor and the engines, and the host window's AXI traffic,
// share the address and data channels of m_axi in round-robin order.
//
// AXI IDs: the upper four bits name the client (0 is the host, channel c is
// c + 1), the lower four are the host's own. Bursts of one client stay in order;
// responses to different clients may come in any order.
// Reset and idle state: no valid is high.
module memory_controller
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth        = 256,   // bits of a beat, a power of two from 64 to 512
    parameter int unsigned WritesAhead      = 16,    // writes whose address may be ahead of their data, a power of two
    parameter type         axi_address_t    = logic, // the four of AXI_TYPES, with IDs of 4 bits
    parameter type         axi_write_data_t = logic, // write data
    parameter type         axi_response_t   = logic, // write response
    parameter type         axi_read_data_t  = logic  // read data
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic                   test_enable_i,  // no clock rests
    input  logic [2:0]             prot_i,         // AxPROT of the channels' accesses; the host's have their own
    // Held high until idle_o: every channel drops its work and lets the bus drain.
    input  logic                   abort_i,
    output logic                   idle_o,         // all channels (not the host window)
    output logic                   write_idle_o [NumWrites],
    // The channel reads for the younger of the matrix engine's two commands.
    input  logic                   rd_next_i [NumReads],
    output logic [ErrorOwners-1:0] error_o,        // pulse: a channel of that owner had an error response
    output logic [ErrorOwners-1:0] error_write_o,  // with error_o: on a write, else (or of both in one clock) a read
    output address_t               error_addr_o [ErrorOwners],  // with error_o: start of the burst
    output logic                   fetch_error_o,  // the same for the command channel
    output address_t               fetch_error_addr_o,

    // read channels
    input  logic                   rd_desc_valid_i [NumReads],
    output logic                   rd_desc_ready_o [NumReads],
    input  dma_desc_t              rd_desc_i       [NumReads],
    output logic                   rd_valid_o      [NumReads],
    input  logic                   rd_ready_i      [NumReads],
    output logic [DataWidth-1:0]   rd_data_o       [NumReads],
    output logic                   rd_row_last_o   [NumReads],

    // write channels
    input  logic                   wr_desc_valid_i [NumWrites],
    output logic                   wr_desc_ready_o [NumWrites],
    input  dma_desc_t              wr_desc_i       [NumWrites],
    input  logic                   wr_valid_i      [NumWrites],
    output logic                   wr_ready_o      [NumWrites],
    input  logic [DataWidth-1:0]   wr_data_i       [NumWrites],

    // the host's accesses: write data is valid from the clock in which its address is taken, and there is always room
    // for responses and read data
    input  axi_address_t           host_aw_i,
    input  logic                   host_awvalid_i,
    output logic                   host_awready_o,
    input  axi_write_data_t        host_w_i,
    input  logic                   host_wvalid_i,
    output logic                   host_wready_o,
    output axi_response_t          host_b_o,
    output logic                   host_bvalid_o,
    input  axi_address_t           host_ar_i,
    input  logic                   host_arvalid_i,
    output logic                   host_arready_o,
    output axi_read_data_t         host_r_o,
    output logic                   host_rvalid_o,

    // DRAM
    output logic [7:0]             m_axi_awid,
    output address_t               m_axi_awaddr,
    output logic [7:0]             m_axi_awlen,
    output logic [2:0]             m_axi_awsize,
    output logic [1:0]             m_axi_awburst,
    output logic [2:0]             m_axi_awprot,
    output logic                   m_axi_awvalid,
    input  logic                   m_axi_awready,
    output logic [DataWidth-1:0]   m_axi_wdata,
    output logic [DataWidth/8-1:0] m_axi_wstrb,
    output logic                   m_axi_wlast,
    output logic                   m_axi_wvalid,
    input  logic                   m_axi_wready,
    input  logic [7:0]             m_axi_bid,
    input  logic [1:0]             m_axi_bresp,
    input  logic                   m_axi_bvalid,
    output logic                   m_axi_bready,
    output logic [7:0]             m_axi_arid,
    output address_t               m_axi_araddr,
    output logic [7:0]             m_axi_arlen,
    output logic [2:0]             m_axi_arsize,
    output logic [1:0]             m_axi_arburst,
    output logic [2:0]             m_axi_arprot,
    output logic                   m_axi_arvalid,
    input  logic                   m_axi_arready,
    input  logic [7:0]             m_axi_rid,
    input  logic [DataWidth-1:0]   m_axi_rdata,
    input  logic [1:0]             m_axi_rresp,
    input  logic                   m_axi_rlast,
    input  logic                   m_axi_rvalid,
    output logic                   m_axi_rready
);
  localparam logic [2:0] FullSize = 3'($clog2(DataWidth / 8));
  localparam logic [1:0] BurstIncr = 2'b01;
  // Request 0 is the host, request i + 1 channel i.
  localparam int unsigned ReadRequests  = NumReads + 1;
  localparam int unsigned WriteRequests = NumWrites + 1;
  localparam int unsigned ReadIndexBits  = $clog2(ReadRequests);
  localparam int unsigned WriteIndexBits = $clog2(WriteRequests);

  // A request wakes the arbiters and the registers of m_axi; what is on its way to m_axi holds them.
  logic bus_clk, bus_busy;
  clock_gate u_bus_gate (
      .clk_i,
      .enable_i(bus_busy || !rst_ni),
      .test_enable_i,
      .clk_o   (bus_clk)
  );

  // ---- read channels -------------------------------------------------------------
  logic [NumReads-1:0] ar_valid, r_valid, rd_idle, rd_error;
  logic [ReadRequests-1:0] ar_request, ar_grant;
  address_t ar_addr [NumReads];
  logic [7:0] ar_len [NumReads];
  address_t rd_error_addr [NumReads];
  logic ar_free;

  for (genvar i = 0; i < NumReads; i++) begin : g_read
    // A descriptor wakes the channel; what it has accepted holds it. Data comes only while it is held. An idle channel
    // has nothing that an abort would clear.
    logic channel_clk;
    clock_gate u_gate (
        .clk_i,
        .enable_i(rd_desc_valid_i[i] || !rd_idle[i] || !rst_ni),
        .test_enable_i,
        .clk_o   (channel_clk)
    );

    dma_read #(
        .DataWidth  (DataWidth),
        .BufferBeats((i == ReadCommand) ? 32 : 128)
    ) u_channel (
        .clk_i          (channel_clk),
        .rst_ni,
        .abort_i,
        .desc_valid_i   (rd_desc_valid_i[i]),
        .desc_ready_o   (rd_desc_ready_o[i]),
        .desc_i         (rd_desc_i[i]),
        .data_valid_o   (rd_valid_o[i]),
        .data_ready_i   (rd_ready_i[i]),
        .data_o         (rd_data_o[i]),
        .data_row_last_o(rd_row_last_o[i]),
        .ar_valid_o     (ar_valid[i]),
        .ar_ready_i     (ar_grant[i+1] && ar_free),
        .ar_addr_o      (ar_addr[i]),
        .ar_len_o       (ar_len[i]),
        .r_valid_i      (r_valid[i]),
        .r_data_i       (m_axi_rdata),
        .r_resp_i       (m_axi_rresp),
        .r_last_i       (m_axi_rlast),
        .idle_o         (rd_idle[i]),
        .error_o        (rd_error[i]),
        .error_addr_o   (rd_error_addr[i])
    );
    assign r_valid[i] = m_axi_rvalid && m_axi_rid[7:4] == 4'(i + 1);
  end

  logic [ReadIndexBits-1:0] ar_index;
  assign ar_request = {ar_valid, host_arvalid_i};
  assign ar_free    = !m_axi_arvalid || m_axi_arready;

  round_robin #(
      .Requests(ReadRequests)
  ) u_ar_arbiter (
      .clk_i    (bus_clk),
      .rst_ni,
      .request_i(ar_request),
      .advance_i(ar_free && ar_request != '0),
      .grant_o  (ar_grant),
      .index_o  (ar_index)
  );

  assign host_arready_o = ar_grant[0] && ar_free;

  always_ff @(posedge bus_clk) begin
    if (!rst_ni) m_axi_arvalid <= 1'b0;
    else if (ar_free) m_axi_arvalid <= ar_request != '0;
  end

  always_ff @(posedge bus_clk) begin
    if (ar_free && ar_request != '0) begin
      m_axi_arid    <= {4'(ar_index), 4'd0};
      m_axi_arsize  <= FullSize;
      m_axi_arburst <= BurstIncr;
      m_axi_arprot  <= prot_i;
      if (ar_grant[0]) begin
        m_axi_arid[3:0] <= host_ar_i.id;
        m_axi_araddr    <= address_t'(host_ar_i.addr);
        m_axi_arlen     <= host_ar_i.len;
        m_axi_arsize    <= host_ar_i.size;
        m_axi_arburst   <= host_ar_i.burst;
        m_axi_arprot    <= host_ar_i.prot;
      end
      for (int unsigned i = 0; i < NumReads; i++) begin
        if (ar_grant[i+1]) begin
          m_axi_araddr <= ar_addr[i];
          m_axi_arlen  <= ar_len[i];
        end
      end
    end
  end

  // Every client has room for the data that it requested.
  assign host_rvalid_o = m_axi_rvalid && m_axi_rid[7:4] == 4'(ClientHost);
  assign host_r_o      = '{id: m_axi_rid[3:0], data: m_axi_rdata, resp: m_axi_rresp, last: m_axi_rlast};
  assign m_axi_rready  = 1'b1;

  // ---- write channels ------------------------------------------------------------
  logic [NumWrites-1:0] aw_valid, w_valid, w_last, b_valid, wr_idle, wr_error;
  logic [WriteRequests-1:0] aw_request, aw_grant;
  address_t aw_addr [NumWrites];
  logic [7:0] aw_len [NumWrites];
  logic [DataWidth-1:0] w_data [NumWrites];
  logic [DataWidth/8-1:0] w_strb [NumWrites];
  address_t wr_error_addr [NumWrites];
  logic aw_free, order_full, order_empty, order_push;
  logic [WriteIndexBits-1:0] w_owner, aw_index;
  logic [$clog2(WritesAhead):0] order_count;
  logic w_free, w_take;

  logic w_valid_out, w_last_out;
  for (genvar i = 0; i < NumWrites; i++) begin : g_write
    // A descriptor wakes the channel; what it has accepted holds it, to the last response. An idle channel has nothing
    // that an abort would clear.
    logic channel_clk;
    clock_gate u_gate (
        .clk_i,
        .enable_i(wr_desc_valid_i[i] || !wr_idle[i] || !rst_ni),
        .test_enable_i,
        .clk_o   (channel_clk)
    );

    dma_write #(
        .DataWidth  (DataWidth),
        .BufferBeats(64)
    ) u_channel (
        .clk_i       (channel_clk),
        .rst_ni,
        .abort_i,
        .desc_valid_i(wr_desc_valid_i[i]),
        .desc_ready_o(wr_desc_ready_o[i]),
        .desc_i      (wr_desc_i[i]),
        .data_valid_i(wr_valid_i[i]),
        .data_ready_o(wr_ready_o[i]),
        .data_i      (wr_data_i[i]),
        .aw_valid_o  (aw_valid[i]),
        .aw_ready_i  (aw_grant[i+1] && order_push),
        .aw_addr_o   (aw_addr[i]),
        .aw_len_o    (aw_len[i]),
        .w_valid_o   (w_valid[i]),
        .w_ready_i   (w_take && 32'(w_owner) == i + 1),
        .w_data_o    (w_data[i]),
        .w_strb_o    (w_strb[i]),
        .w_last_o    (w_last[i]),
        .b_valid_i   (b_valid[i]),
        .b_resp_i    (m_axi_bresp),
        .idle_o      (wr_idle[i]),
        .error_o     (wr_error[i]),
        .error_addr_o(wr_error_addr[i])
    );
    assign b_valid[i]      = m_axi_bvalid && m_axi_bid[7:4] == 4'(i + 1);
    assign write_idle_o[i] = wr_idle[i];
  end

  assign aw_request = {aw_valid, host_awvalid_i};
  assign aw_free    = !m_axi_awvalid || m_axi_awready;
  assign order_push = aw_free && !order_full && aw_request != '0;

  round_robin #(
      .Requests(WriteRequests)
  ) u_aw_arbiter (
      .clk_i    (bus_clk),
      .rst_ni,
      .request_i(aw_request),
      .advance_i(order_push),
      .grant_o  (aw_grant),
      .index_o  (aw_index)
  );

  // AXI4 has no ID on write data: it follows in the order of the addresses.
  sync_fifo #(
      .Width(WriteIndexBits),
      .Depth(WritesAhead)
  ) u_order (
      .clk_i  (bus_clk),
      .rst_ni,
      .clear_i(1'b0),
      .push_i (order_push),
      .data_i (aw_index),
      .pop_i  (w_take && w_last_out),
      .data_o (w_owner),
      .full_o (order_full),
      .empty_o(order_empty),
      .count_o(order_count)
  );

  assign host_awready_o = aw_grant[0] && order_push;

  always_ff @(posedge bus_clk) begin
    if (!rst_ni) m_axi_awvalid <= 1'b0;
    else if (aw_free) m_axi_awvalid <= order_push;
  end

  always_ff @(posedge bus_clk) begin
    if (order_push) begin
      m_axi_awid    <= {4'(aw_index), 4'd0};
      m_axi_awsize  <= FullSize;
      m_axi_awburst <= BurstIncr;
      m_axi_awprot  <= prot_i;
      if (aw_grant[0]) begin
        m_axi_awid[3:0] <= host_aw_i.id;
        m_axi_awaddr    <= address_t'(host_aw_i.addr);
        m_axi_awlen     <= host_aw_i.len;
        m_axi_awsize    <= host_aw_i.size;
        m_axi_awburst   <= host_aw_i.burst;
        m_axi_awprot    <= host_aw_i.prot;
      end
      for (int unsigned i = 0; i < NumWrites; i++) begin
        if (aw_grant[i+1]) begin
          m_axi_awaddr <= aw_addr[i];
          m_axi_awlen  <= aw_len[i];
        end
      end
    end
  end

  logic [DataWidth-1:0] w_data_out;
  logic [DataWidth/8-1:0] w_strb_out;

  always_comb begin
    w_valid_out = host_wvalid_i;
    w_last_out  = host_w_i.last;
    w_data_out  = host_w_i.data;
    w_strb_out  = host_w_i.strb;
    for (int unsigned i = 0; i < NumWrites; i++) begin
      if (32'(w_owner) == i + 1) begin
        w_valid_out = w_valid[i];
        w_last_out  = w_last[i];
        w_data_out  = w_data[i];
        w_strb_out  = w_strb[i];
      end
    end
  end

  assign w_free        = !m_axi_wvalid || m_axi_wready;
  assign w_take        = w_free && !order_empty && w_valid_out;
  assign host_wready_o = w_free && !order_empty && w_owner == WriteIndexBits'(ClientHost);

  always_ff @(posedge bus_clk) begin
    if (!rst_ni) m_axi_wvalid <= 1'b0;
    else if (w_free) m_axi_wvalid <= w_take;
  end

  always_ff @(posedge bus_clk) begin
    if (w_take) begin
      m_axi_wdata <= w_data_out;
      m_axi_wstrb <= w_strb_out;
      m_axi_wlast <= w_last_out;
    end
  end

  assign host_bvalid_o = m_axi_bvalid && m_axi_bid[7:4] == 4'(ClientHost);
  assign host_b_o      = '{id: m_axi_bid[3:0], resp: m_axi_bresp};
  assign m_axi_bready  = 1'b1;

  assign bus_busy = ar_request != '0 || aw_request != '0 || !order_empty
                    || m_axi_arvalid || m_axi_awvalid || m_axi_wvalid;

  // ---- state ----------------------------------------------------------------------
  assign idle_o        = (&rd_idle) && (&wr_idle);
  assign fetch_error_o      = rd_error[ReadCommand];
  assign fetch_error_addr_o = rd_error_addr[ReadCommand];
  function automatic int unsigned write_engine(input int unsigned channel);
    write_engine = (channel == WriteMatrix) ? EngineMatrix : EngineVector;
  endfunction
  function automatic int unsigned read_owner(input int unsigned channel, input logic next);
    read_owner = (channel >= ReadVector) ? EngineVector : (next ? OwnerMatrixNext : EngineMatrix);
  endfunction

  always_comb begin
    error_o       = '0;
    error_write_o = '0;
    for (int unsigned e = 0; e < ErrorOwners; e++) error_addr_o[e] = '0;
    for (int unsigned i = 0; i < NumWrites; i++) begin
      if (wr_error[i]) begin
        error_o[write_engine(i)]       = 1'b1;
        error_write_o[write_engine(i)] = 1'b1;
        error_addr_o[write_engine(i)]  = wr_error_addr[i];
      end
    end
    for (int unsigned i = 0; i < NumReads; i++) begin
      if (rd_error[i] && i != ReadCommand) begin
        error_o[read_owner(i, rd_next_i[i])]       = 1'b1;
        error_write_o[read_owner(i, rd_next_i[i])] = 1'b0;
        error_addr_o[read_owner(i, rd_next_i[i])]  = rd_error_addr[i];
      end
    end
  end

  logic unused;
  assign unused = &{1'b0, order_count};

  `NPU_ASSERT_HANDSHAKE(AwHolds, m_axi_awvalid, m_axi_awready,
                        {m_axi_awprot, m_axi_awid, m_axi_awaddr, m_axi_awlen, m_axi_awsize, m_axi_awburst},
                        "a write address changed or was withdrawn before the memory took it")
  `NPU_ASSERT_HANDSHAKE(WHolds, m_axi_wvalid, m_axi_wready, {m_axi_wdata, m_axi_wstrb, m_axi_wlast},
                        "write data changed or was withdrawn before the memory took it")
  `NPU_ASSERT_HANDSHAKE(ArHolds, m_axi_arvalid, m_axi_arready,
                        {m_axi_arprot, m_axi_arid, m_axi_araddr, m_axi_arlen, m_axi_arsize, m_axi_arburst},
                        "a read address changed or was withdrawn before the memory took it")
  `NPU_ASSERT_KNOWN(AddressesKnown, ({m_axi_awvalid ? m_axi_awaddr : '0, m_axi_arvalid ? m_axi_araddr : '0}))
  `NPU_ASSERT_KNOWN(AnswersKnown, ({m_axi_bvalid, m_axi_bvalid ? m_axi_bid : '0, m_axi_rvalid,
                                   m_axi_rvalid ? m_axi_rid : '0}))
endmodule
