// memory_controller: a client of the bus waits only for the memory, and at most once for each other client.
// Its channels are those of any_channels.sv.
`include "formal.svh"
`include "axi_types.svh"
`include "memory_controller.svh"

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

  `MEMORY_CONTROLLER_CHANNELS

  `MEMORY_CONTROLLER_OUTPUTS
  outputs_t o;
  logic       host_wvalid;
  logic [3:0] host_awid;
  logic [7:0] host_wdata;
  logic [2:0] prot;
  count_t     host_owed_q;  // bursts whose address was taken and whose last beat was not
  assign host_wvalid = host_owed_q != '0;  // proven of host_write_buffer
  assign {host_awid, host_wdata, prot} = '0;

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
      .test_enable_i(1'b0),
      `MEMORY_CONTROLLER_PORTS(o)
  );

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET

  // The host's buffers hold an address. Its data is there, and ends.
  logic host_aw_kept, host_ar_kept;
  stream_rule #(.Width(1)) u_aw (.clk_i, .rst_ni, .valid_i(host_awvalid), .ready_i(o.host_awready), .payload_i(1'b0),
                                 .kept_o(host_aw_kept));
  stream_rule #(.Width(1)) u_ar (.clk_i, .rst_ni, .valid_i(host_arvalid), .ready_i(o.host_arready), .payload_i(1'b0),
                                 .kept_o(host_ar_kept));
  always_comb if (rst_ni) assume (host_aw_kept && host_ar_kept);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) host_owed_q <= '0;
    else
      host_owed_q <= host_owed_q + count_t'(host_awvalid && o.host_awready)
                     - count_t'(host_wvalid && o.host_wready && host_wlast);
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
        if (32'(dut.u_order.g_registers.storage_q[place]) < Writes) orders[dut.u_order.g_registers.storage_q[place]] += count_t'(1);
        else orders_right = 1'b0;
      end
    end
  end

  // ---------------------------------------------------------------- proven
  always_comb begin
    if (rst_ni) begin
      // Only the memory makes a channel of the bus wait.
      TakesResponses : assert (o.rready && o.bready);
      ReadMoves      : assert (reads == '0 || !(m_arready || !o.arvalid) || read_grant != '0);
      DataMoves      : assert (dut.order_empty || !(m_wready || !o.wvalid) || dut.w_take);
      WriteMoves     : assert (writes == '0 || !(m_awready || !o.awvalid) || dut.order_full || write_grant != '0);
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
      HostData     : cover (dut.w_take && o.host_wready && host_wlast && count_t'(dut.order_count) == count_t'(3));
    end
  end
endmodule
