// memory_controller: a client of the bus waits only for the memory, and at most once for each other client.
// Its channels are those of any_channels.sv.
`include "formal.svh"
`include "axi_types.svh"

module memory_controller_formal
  import npu_pkg::*;
(
    input logic                 clk_i,
    input logic                 rst_ni,
    input logic [NumReads-1:0]  read_wish,   // what the channels want next
    input logic [NumWrites-1:0] write_wish,
    input logic [NumWrites-1:0] write_last,
    input logic [1:0]           address,
    input logic                 host_awvalid,
    input logic                 host_wlast,
    input logic                 host_arvalid,
    input logic                 m_awready,
    input logic                 m_wready,
    input logic                 m_arready,
    input logic [7:0]           m_bid,
    input logic                 m_bvalid,
    input logic [7:0]           m_rid,
    input logic                 m_rvalid
);
  localparam int unsigned DataWidth = 16;
  localparam int unsigned Reads     = NumReads + 1;   // clients: the host, then the channels
  localparam int unsigned Writes    = NumWrites + 1;
  localparam int unsigned Orders    = 4;              // write bursts whose data is still to come
  typedef logic [4:0] count_t;
  `AXI_TYPES(4, DataWidth)

  logic rd_next [NumReads], rd_desc_valid [NumReads], rd_ready [NumReads];
  logic wr_desc_valid [NumWrites], wr_valid [NumWrites];
  dma_desc_t rd_desc [NumReads], wr_desc [NumWrites];
  logic [DataWidth-1:0] wr_data [NumWrites];
  for (genvar i = 0; i < NumReads; i++) begin : g_reads
    assign rd_next[i]       = 1'b0;
    assign rd_desc_valid[i] = read_wish[i];
    assign rd_ready[i]      = 1'b1;
    assign rd_desc[i]       = '{addr: 32'(address), default: '0};
  end
  for (genvar i = 0; i < NumWrites; i++) begin : g_writes
    assign wr_desc_valid[i] = write_wish[i];
    assign wr_valid[i]      = write_last[i];
    assign wr_desc[i]       = '{addr: 32'(address), default: '0};
    assign wr_data[i]       = '0;
  end

  logic   host_awready, host_wready, host_wvalid, host_arready;
  logic   m_awvalid, m_wvalid, m_wlast, m_arvalid, m_bready, m_rready;
  count_t host_owed_q;  // bursts whose address was taken and whose last beat was not
  assign host_wvalid = host_owed_q != '0;  // proven of host_write_buffer

  memory_controller #(
      .DataWidth       (DataWidth),
      .WritesAhead     (Orders),
      .axi_address_t   (axi_address_t),
      .axi_write_data_t(axi_write_data_t),
      .axi_response_t  (axi_response_t),
      .axi_read_data_t (axi_read_data_t)
  ) dut (
      .clk_i,
      .rst_ni,
      .test_enable_i     (1'b0),
      .prot_i            ('0),
      .abort_i           (1'b0),
      .idle_o            (),
      .write_idle_o      (),
      .rd_next_i         (rd_next),
      .error_o           (),
      .error_write_o     (),
      .error_addr_o      (),
      .fetch_error_o     (),
      .fetch_error_addr_o(),
      .rd_desc_valid_i   (rd_desc_valid),
      .rd_desc_ready_o   (),
      .rd_desc_i         (rd_desc),
      .rd_valid_o        (),
      .rd_ready_i        (rd_ready),
      .rd_data_o         (),
      .rd_row_last_o     (),
      .wr_desc_valid_i   (wr_desc_valid),
      .wr_desc_ready_o   (),
      .wr_desc_i         (wr_desc),
      .wr_valid_i        (wr_valid),
      .wr_ready_o        (),
      .wr_data_i         (wr_data),
      .host_aw_i         ('0),
      .host_awvalid_i    (host_awvalid),
      .host_awready_o    (host_awready),
      .host_w_i          ('{data: '0, strb: '0, last: host_wlast}),
      .host_wvalid_i     (host_wvalid),
      .host_wready_o     (host_wready),
      .host_b_o          (),
      .host_bvalid_o     (),
      .host_ar_i         ('0),
      .host_arvalid_i    (host_arvalid),
      .host_arready_o    (host_arready),
      .host_r_o          (),
      .host_rvalid_o     (),
      .m_axi_awid        (),
      .m_axi_awaddr      (),
      .m_axi_awlen       (),
      .m_axi_awsize      (),
      .m_axi_awburst     (),
      .m_axi_awprot      (),
      .m_axi_awvalid     (m_awvalid),
      .m_axi_awready     (m_awready),
      .m_axi_wdata       (),
      .m_axi_wstrb       (),
      .m_axi_wlast       (m_wlast),
      .m_axi_wvalid      (m_wvalid),
      .m_axi_wready      (m_wready),
      .m_axi_bid         (m_bid),
      .m_axi_bresp       ('0),
      .m_axi_bvalid      (m_bvalid),
      .m_axi_bready      (m_bready),
      .m_axi_arid        (),
      .m_axi_araddr      (),
      .m_axi_arlen       (),
      .m_axi_arsize      (),
      .m_axi_arburst     (),
      .m_axi_arprot      (),
      .m_axi_arvalid     (m_arvalid),
      .m_axi_arready     (m_arready),
      .m_axi_rid         (m_rid),
      .m_axi_rdata       ('0),
      .m_axi_rresp       ('0),
      .m_axi_rlast       (1'b1),
      .m_axi_rvalid      (m_rvalid),
      .m_axi_rready      (m_rready)
  );

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET

  // The host's buffers hold an address. Its data is there, and ends.
  logic host_aw_kept, host_ar_kept;
  stream_rule #(.Width(1)) u_aw (.clk_i, .rst_ni, .valid_i(host_awvalid), .ready_i(host_awready), .payload_i(1'b0),
                                 .kept_o(host_aw_kept));
  stream_rule #(.Width(1)) u_ar (.clk_i, .rst_ni, .valid_i(host_arvalid), .ready_i(host_arready), .payload_i(1'b0),
                                 .kept_o(host_ar_kept));
  always_comb if (rst_ni) assume (host_aw_kept && host_ar_kept);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) host_owed_q <= '0;
    else
      host_owed_q <= host_owed_q + count_t'(host_awvalid && host_awready)
                     - count_t'(host_wvalid && host_wready && host_wlast);
  end

  // ---------------------------------------------------------------- who waits, and how often it was overtaken
  logic [Reads-1:0]  reads, read_grant;
  logic [Writes-1:0] writes, write_grant;
  logic              read_go, write_go;
  assign reads       = dut.ar_request;
  assign writes      = dut.aw_request;
  assign read_go     = dut.ar_free && reads != '0;
  assign write_go    = dut.order_push;
  assign read_grant  = read_go ? dut.ar_grant : '0;
  assign write_grant = write_go ? dut.aw_grant : '0;

  count_t read_overtaken_q [Reads], write_overtaken_q [Writes];
  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < Reads; i++) begin
      if (!rst_ni || !reads[i] || read_grant[i]) read_overtaken_q[i] <= '0;
      else read_overtaken_q[i] <= read_overtaken_q[i] + count_t'(read_go);
    end
    for (int unsigned i = 0; i < Writes; i++) begin
      if (!rst_ni || !writes[i] || write_grant[i]) write_overtaken_q[i] <= '0;
      else write_overtaken_q[i] <= write_overtaken_q[i] + count_t'(write_go);
    end
  end

  // Places of client `i` behind the first in turn.
  function automatic count_t behind(input int unsigned i, input count_t next, input int unsigned clients);
    return count_t'(i) >= next ? count_t'(i) - next : count_t'(i) + count_t'(clients) - next;
  endfunction

  logic reads_in_turn, writes_in_turn, reads_nearer, writes_nearer, orders_right;
  count_t orders [Writes];  // bursts of each client whose data is still to come
  logic [1:0] place;
  always_comb begin
    reads_in_turn  = 1'b1;
    writes_in_turn = 1'b1;
    reads_nearer   = count_t'(dut.u_ar_arbiter.next_q) < count_t'(Reads);
    writes_nearer  = count_t'(dut.u_aw_arbiter.next_q) < count_t'(Writes);
    for (int unsigned i = 0; i < Reads; i++) begin
      reads_in_turn &= read_overtaken_q[i] < count_t'(Reads);
      reads_nearer  &= read_overtaken_q[i] + behind(i, count_t'(dut.u_ar_arbiter.next_q), Reads) < count_t'(Reads);
    end
    for (int unsigned i = 0; i < Writes; i++) begin
      orders[i] = '0;
      writes_in_turn &= write_overtaken_q[i] < count_t'(Writes);
      writes_nearer  &= write_overtaken_q[i] + behind(i, count_t'(dut.u_aw_arbiter.next_q), Writes) < count_t'(Writes);
    end
    orders_right = 1'b1;
    place        = '0;
    for (int unsigned i = 0; i < Orders; i++) begin
      place = dut.u_order.read_q[1:0] + 2'(i);
      if (count_t'(i) < count_t'(dut.order_count)) begin
        if (32'(dut.u_order.storage_q[place]) < Writes) orders[dut.u_order.storage_q[place]] += count_t'(1);
        else orders_right = 1'b0;
      end
    end
  end

  // ---------------------------------------------------------------- proven
  always_comb begin
    if (rst_ni) begin
      // Only the memory makes a channel of the bus wait.
      TakesResponses : assert (m_rready && m_bready);
      ReadMoves      : assert (reads == '0 || !(m_arready || !m_arvalid) || read_grant != '0);
      DataMoves      : assert (dut.order_empty || !(m_wready || !m_wvalid) || dut.w_take);
      WriteMoves     : assert (writes == '0 || !(m_awready || !m_awvalid) || dut.order_full || write_grant != '0);
      // No client is overtaken more than once by each other one.
      ReadInTurn     : assert (reads_in_turn);
      WriteInTurn    : assert (writes_in_turn);
`ifndef PROPERTIES_ONLY
      // What the induction needs: each grant brings those who wait nearer, and whose data is to come.
      ReadsNearer  : assert (reads_nearer);
      WritesNearer : assert (writes_nearer);
      OrdersKnown  : assert (orders_right && count_t'(dut.order_count) <= count_t'(Orders));
      OwedHost     : assert (orders[0] == host_owed_q);
      OwedMatrix   : assert (orders[1] == dut.g_write[0].u_channel.owed_q);
      OwedVector   : assert (orders[2] == dut.g_write[1].u_channel.owed_q);
`endif
      HostLast     : cover (read_overtaken_q[0] == count_t'(Reads - 1) && read_grant[0]);
      HostData     : cover (dut.w_take && host_wready && host_wlast && count_t'(dut.order_count) == count_t'(3));
    end
  end
endmodule
