`include "axi4_ports.svh"

// The simulated board: the NPU and the memory behind it. Clock and time come from the main program (main.cpp).
//
// Only the signals named in public.vlt are visible to Python. The ports of s_axil and s_axi carry their bus names, so
// that any AXI library binds to them by prefix; they are idle while nobody drives them. Register accesses normally
// come from axil_bfm; `axil_external` = 1 hands s_axil to the ports instead.
//
// A library that samples at a clock edge expects the values from before the edge, but Python runs only after all
// registers have their new values. So the device's outputs reach these ports through a register, and the library's
// clock is `bus_clk`, 1 ns after `clk`: at its edge the ports show the values from before the edge of `clk`. The
// register and `bus_clk` stand still unless `bus_enable` is 1, since each extra event costs simulation time.
module npu_tb #(
    parameter int ArrayRows    = 16,
    parameter int ArrayCols    = 16,
    parameter int VectorLanes  = 16,
    parameter int VectorLength = 256,
    parameter int RowElements  = 8192,
    parameter int ProgramWords = 4096,
    parameter int DataWidth    = 256,
    parameter int BlockM       = 128,
    parameter int BlockKTiles  = 4,
    parameter int BlockNTiles  = 16,
    parameter int AccEntries   = 1024,
    parameter int QueueDepth   = 16,
    parameter int ClockGating  = 1,
    parameter int Pipeline     = 0,
    parameter int Lockstep     = 0   // 1: compare with a device without clock gating
) (
    input  logic        tick,      // each change is a clock cycle
    input  logic        rst_n,
    output logic        irq,
    output logic [63:0] cycle,
    input  logic        bfm_req,   // a toggle starts the queued register operations
    output logic        bfm_done,  // follows bfm_req when they are answered
    input  logic        trace_enable,  // record the timeline

    // external bus masters
    input  logic        bus_clk,
    input  logic        bus_enable,
    input  logic        axil_external,
    input  logic        s_axil_awvalid,
    output logic        s_axil_awready,
    input  logic [15:0] s_axil_awaddr,
    input  logic  [2:0] s_axil_awprot,
    input  logic        s_axil_wvalid,
    output logic        s_axil_wready,
    input  logic [31:0] s_axil_wdata,
    input  logic  [3:0] s_axil_wstrb,
    output logic        s_axil_bvalid,
    input  logic        s_axil_bready,
    output logic  [1:0] s_axil_bresp,
    input  logic        s_axil_arvalid,
    output logic        s_axil_arready,
    input  logic [15:0] s_axil_araddr,
    input  logic  [2:0] s_axil_arprot,
    output logic        s_axil_rvalid,
    input  logic        s_axil_rready,
    output logic [31:0] s_axil_rdata,
    output logic  [1:0] s_axil_rresp,
    input  logic                 s_axi_awvalid,
    output logic                 s_axi_awready,
    input  logic           [3:0] s_axi_awid,
    input  logic          [31:0] s_axi_awaddr,
    input  logic           [7:0] s_axi_awlen,
    input  logic           [2:0] s_axi_awsize,
    input  logic           [1:0] s_axi_awburst,
    input  logic                 s_axi_awlock,
    input  logic           [3:0] s_axi_awcache,
    input  logic           [2:0] s_axi_awprot,
    input  logic           [3:0] s_axi_awqos,
    input  logic                 s_axi_wvalid,
    output logic                 s_axi_wready,
    input  logic [DataWidth-1:0] s_axi_wdata,
    input  logic [DataWidth/8-1:0] s_axi_wstrb,
    input  logic                 s_axi_wlast,
    output logic                 s_axi_bvalid,
    input  logic                 s_axi_bready,
    output logic           [3:0] s_axi_bid,
    output logic           [1:0] s_axi_bresp,
    input  logic                 s_axi_arvalid,
    output logic                 s_axi_arready,
    input  logic           [3:0] s_axi_arid,
    input  logic          [31:0] s_axi_araddr,
    input  logic           [7:0] s_axi_arlen,
    input  logic           [2:0] s_axi_arsize,
    input  logic           [1:0] s_axi_arburst,
    input  logic                 s_axi_arlock,
    input  logic           [3:0] s_axi_arcache,
    input  logic           [2:0] s_axi_arprot,
    input  logic           [3:0] s_axi_arqos,
    output logic                 s_axi_rvalid,
    input  logic                 s_axi_rready,
    output logic           [3:0] s_axi_rid,
    output logic [DataWidth-1:0] s_axi_rdata,
    output logic           [1:0] s_axi_rresp,
    output logic                 s_axi_rlast
);
  localparam int StrbWidth = DataWidth / 8;

  // ---- clock and time ----
  logic clk;
`ifdef NPU_TB_CLOCK
  assign clk = tick;  // rises and falls with it
`else
  // Rises with each change of tick and falls as soon as everything is clocked, so that the falling edge takes no
  // evaluation of its own.
  logic tick_q;
  initial tick_q = 1'b0;
  always @(posedge clk) tick_q <= tick;
  assign clk = tick ^ tick_q;
`endif

  initial cycle = '0;
  always @(posedge clk) cycle <= cycle + 1;

  // ---- s_axil: an external master, and the built-in one ----

  // The device's outputs without delay.
  logic axil_awready, axil_wready, axil_bvalid, axil_arready, axil_rvalid;
  logic [1:0] axil_bresp, axil_rresp;
  logic [31:0] axil_rdata;

  always @(posedge clk) begin
    if (bus_enable) begin
      s_axil_awready <= axil_awready;
      s_axil_wready <= axil_wready;
      s_axil_bvalid <= axil_bvalid;
      s_axil_bresp <= axil_bresp;
      s_axil_arready <= axil_arready;
      s_axil_rvalid <= axil_rvalid;
      s_axil_rdata <= axil_rdata;
      s_axil_rresp <= axil_rresp;
    end
  end

  logic bfm_awvalid, bfm_wvalid, bfm_bready, bfm_arvalid, bfm_rready;
  logic [15:0] bfm_awaddr, bfm_araddr;
  logic [31:0] bfm_wdata;

  // The outputs of the selected master.
  wire        axil_awvalid = axil_external ? s_axil_awvalid : bfm_awvalid;
  wire [15:0] axil_awaddr  = axil_external ? s_axil_awaddr : bfm_awaddr;
  wire [ 2:0] axil_awprot  = axil_external ? s_axil_awprot : 3'b0;
  wire        axil_wvalid  = axil_external ? s_axil_wvalid : bfm_wvalid;
  wire [31:0] axil_wdata   = axil_external ? s_axil_wdata : bfm_wdata;
  wire [ 3:0] axil_wstrb   = axil_external ? s_axil_wstrb : 4'hF;
  wire        axil_bready  = axil_external ? s_axil_bready : bfm_bready;
  wire        axil_arvalid = axil_external ? s_axil_arvalid : bfm_arvalid;
  wire [15:0] axil_araddr  = axil_external ? s_axil_araddr : bfm_araddr;
  wire [ 2:0] axil_arprot  = axil_external ? s_axil_arprot : 3'b0;
  wire        axil_rready  = axil_external ? s_axil_rready : bfm_rready;

  axil_bfm #(
      .AddrWidth(16)
  ) bfm (
      .*,
      .awready(axil_awready && !axil_external),
      .wready (axil_wready && !axil_external),
      .bvalid (axil_bvalid && !axil_external),
      .arready(axil_arready && !axil_external),
      .rvalid (axil_rvalid && !axil_external)
  );

  axil_monitor monitor (.*);

  // ---- s_axi: the host window ----

  // The device's outputs without delay.
  logic host_awready, host_wready, host_bvalid, host_arready, host_rvalid, host_rlast;
  logic [3:0] host_bid, host_rid;
  logic [1:0] host_bresp, host_rresp;
  logic [DataWidth-1:0] host_rdata;

  always @(posedge clk) begin
    if (bus_enable) begin
      s_axi_awready <= host_awready;
      s_axi_wready <= host_wready;
      s_axi_bvalid <= host_bvalid;
      s_axi_bid <= host_bid;
      s_axi_bresp <= host_bresp;
      s_axi_arready <= host_arready;
      s_axi_rvalid <= host_rvalid;
      s_axi_rid <= host_rid;
      s_axi_rdata <= host_rdata;
      s_axi_rresp <= host_rresp;
      s_axi_rlast <= host_rlast;
    end
  end

  // ---- m_axi: to the memory model ----
  logic m_axi_awvalid, m_axi_awready, m_axi_wvalid, m_axi_wready, m_axi_bvalid, m_axi_bready;
  logic m_axi_arvalid, m_axi_arready, m_axi_rvalid, m_axi_rready;
  logic m_axi_awlock, m_axi_wlast, m_axi_arlock, m_axi_rlast;
  logic [1:0] m_axi_awburst, m_axi_bresp, m_axi_arburst, m_axi_rresp;
  logic [2:0] m_axi_awsize, m_axi_awprot, m_axi_arsize, m_axi_arprot;
  logic [3:0] m_axi_awcache, m_axi_awqos, m_axi_arcache, m_axi_arqos;
  logic [7:0] m_axi_awid, m_axi_awlen, m_axi_bid, m_axi_arid, m_axi_arlen, m_axi_rid;
  npu_pkg::address_t m_axi_awaddr, m_axi_araddr;
  logic [DataWidth-1:0] m_axi_wdata, m_axi_rdata;
  logic [StrbWidth-1:0] m_axi_wstrb;

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
  ) dut (
      .*,
      .test_enable   (1'b0),
      .s_axil_awvalid(axil_awvalid),
      .s_axil_awready(axil_awready),
      .s_axil_awaddr (axil_awaddr),
      .s_axil_awprot (axil_awprot),
      .s_axil_wvalid (axil_wvalid),
      .s_axil_wready(axil_wready),
      .s_axil_wdata  (axil_wdata),
      .s_axil_wstrb  (axil_wstrb),
      .s_axil_bvalid(axil_bvalid),
      .s_axil_bready (axil_bready),
      .s_axil_bresp(axil_bresp),
      .s_axil_arvalid(axil_arvalid),
      .s_axil_arready(axil_arready),
      .s_axil_araddr (axil_araddr),
      .s_axil_arprot (axil_arprot),
      .s_axil_rvalid(axil_rvalid),
      .s_axil_rready (axil_rready),
      .s_axil_rdata(axil_rdata),
      .s_axil_rresp(axil_rresp),
      .s_axi_awready(host_awready),
      .s_axi_wready(host_wready),
      .s_axi_bvalid(host_bvalid),
      .s_axi_bid(host_bid),
      .s_axi_bresp(host_bresp),
      .s_axi_arready(host_arready),
      .s_axi_rvalid(host_rvalid),
      .s_axi_rid(host_rid),
      .s_axi_rdata(host_rdata),
      .s_axi_rresp(host_rresp),
      .s_axi_rlast(host_rlast)
  );

`ifndef NPU_NETLIST
  // ---- clock gating ----
  if (Lockstep != 0) begin : g_lockstep
    lockstep_checker #(
        .ArrayRows(ArrayRows),
        .ArrayCols(ArrayCols),
        .VectorLanes(VectorLanes),
        .VectorLength(VectorLength),
        .RowElements(RowElements),
        .ProgramWords(ProgramWords),
        .DataWidth(DataWidth),
        .BlockM(BlockM),
        .BlockKTiles(BlockKTiles),
        .BlockNTiles(BlockNTiles),
        .AccEntries(AccEntries),
        .QueueDepth(QueueDepth),
        .Pipeline(Pipeline)
    ) lockstep (
        .clk_i (clk),
        .rst_ni(rst_n)
    );
  end
`endif

  // ---- protocol checkers ----
  axil_checker #(
      .Manager           ("host"),
      .Subordinate       ("device"),
      .AddrWidth         (16),
      .SubordinateMaxWait(2),
      .ResponseMaxWait   (4)
  ) s_axil_rules (
      .clk_i    (clk),
      .rst_ni   (rst_n),
      .awvalid_i(axil_awvalid),
      .awready_i(axil_awready),
      .awaddr_i (axil_awaddr),
      .awprot_i (axil_awprot),
      .wvalid_i (axil_wvalid),
      .wready_i (axil_wready),
      .wdata_i  (axil_wdata),
      .wstrb_i  (axil_wstrb),
      .bvalid_i (axil_bvalid),
      .bready_i (axil_bready),
      .bresp_i  (axil_bresp),
      .arvalid_i(axil_arvalid),
      .arready_i(axil_arready),
      .araddr_i (axil_araddr),
      .arprot_i (axil_arprot),
      .rvalid_i (axil_rvalid),
      .rready_i (axil_rready),
      .rdata_i  (axil_rdata),
      .rresp_i  (axil_rresp)
  );

  // 16 bursts are forwarded; the port's registers hold two addresses and two responses.
  axi4_checker #(
      .Manager    ("host"),
      .Subordinate("device"),
      .DataWidth  (DataWidth),
      .IdWidth    (4),
      .MaxWrites  (20),
      .MaxReads   (32)
  ) s_axi_rules (
      .clk_i (clk),
      .rst_ni(rst_n),
      `AXI4_PORTS(s_axi, host),
      `AXI4_ATTRIBUTES(s_axi)
  );

  // Each channel has up to 64 bursts under way, the host 16. All of them take responses at once and have write data
  // ready: the host's transfers are buffered.
  axi4_checker #(
      .Manager       ("device"),
      .Subordinate   ("memory"),
      .DataWidth     (DataWidth),
      .AddrWidth     (npu_pkg::AddressBits),
      .IdWidth       (8),
      .MaxWrites     (144),
      .MaxReads      (64),
      .ManagerMaxWait(0),
      .DataMaxWait   (0)
  ) m_axi_rules (
      .clk_i (clk),
      .rst_ni(rst_n),
      `AXI4_PORTS(m_axi, m_axi),
      `AXI4_ATTRIBUTES(m_axi)
  );

`ifndef NPU_NETLIST
  // The observers from here on look into the device, whose signals a netlist has not.
  axi_prot_checker #(
      .Channel("AW")
  ) aw_prot (
      .clk_i       (clk),
      .rst_ni      (rst_n),
      .host_taken_i(s_axi_awvalid && host_awready),
      .host_i      ({s_axi_awid, s_axi_awaddr, s_axi_awlen, s_axi_awsize, s_axi_awburst}),
      .host_prot_i (s_axi_awprot),
      .own_prot_i  (dut.axi_prot),
      .valid_i     (m_axi_awvalid),
      .ready_i     (m_axi_awready),
      .client_i    (m_axi_awid[7:4]),
      .address_i   ({m_axi_awid[3:0], m_axi_awaddr[31:0], m_axi_awlen, m_axi_awsize, m_axi_awburst}),
      .prot_i      (m_axi_awprot),
      .lock_i      (m_axi_awlock),
      .cache_i     (m_axi_awcache),
      .qos_i       (m_axi_awqos)
  );

  axi_prot_checker #(
      .Channel("AR")
  ) ar_prot (
      .clk_i       (clk),
      .rst_ni      (rst_n),
      .host_taken_i(s_axi_arvalid && host_arready),
      .host_i      ({s_axi_arid, s_axi_araddr, s_axi_arlen, s_axi_arsize, s_axi_arburst}),
      .host_prot_i (s_axi_arprot),
      .own_prot_i  (dut.axi_prot),
      .valid_i     (m_axi_arvalid),
      .ready_i     (m_axi_arready),
      .client_i    (m_axi_arid[7:4]),
      .address_i   ({m_axi_arid[3:0], m_axi_araddr[31:0], m_axi_arlen, m_axi_arsize, m_axi_arburst}),
      .prot_i      (m_axi_arprot),
      .lock_i      (m_axi_arlock),
      .cache_i     (m_axi_arcache),
      .qos_i       (m_axi_arqos)
  );

  turn_checker #(
      .Clients(npu_pkg::NumReads + 1),
      .Name   ("read addresses")
  ) read_turns (
      .clk_i    (clk),
      .rst_ni   (rst_n),
      .request_i(dut.u_memory.ar_request),
      .served_i (dut.u_memory.ar_free ? dut.u_memory.ar_grant : '0)
  );

  turn_checker #(
      .Clients(npu_pkg::NumWrites + 1),
      .Name   ("write addresses")
  ) write_turns (
      .clk_i    (clk),
      .rst_ni   (rst_n),
      .request_i(dut.u_memory.aw_request),
      .served_i (dut.u_memory.order_push ? dut.u_memory.aw_grant : '0)
  );

  // ---- clocks that rest ----
  if (ClockGating != 0) begin : g_rest
    logic no_bursts, no_commands, no_host;
    // No burst is open, and no data waits for its address.
    assign no_bursts   = s_axi_rules.write.outstanding_q == '0
                         && s_axi_rules.write.early_start_q == s_axi_rules.write.early_end_q
                         && s_axi_rules.read.outstanding_q == '0;
    assign no_host     = no_bursts && !s_axi_awvalid && !s_axi_wvalid && !s_axi_arvalid;
    assign no_commands = (dut.state == npu_pkg::StateIdle || dut.state == npu_pkg::StateDone) && dut.program_ready
                         && !axil_awvalid && !axil_wvalid && !axil_arvalid;

    rest_checker #(
        .Name("host port")
    ) host_rest (
        .clk_i  (clk),
        .rst_ni (rst_n),
        .quiet_i(no_host),
        .gated_i(dut.host_clk)
    );
    rest_checker #(
        .Name("command processor")
    ) command_rest (
        .clk_i  (clk),
        .rst_ni (rst_n),
        .quiet_i(no_commands),
        .gated_i(dut.command_clk)
    );
    rest_checker #(
        .Name("matrix engine")
    ) matrix_rest (
        .clk_i  (clk),
        .rst_ni (rst_n),
        .quiet_i(no_commands),
        .gated_i(dut.matrix_clk)
    );
    rest_checker #(
        .Name("vector engine")
    ) vector_rest (
        .clk_i  (clk),
        .rst_ni (rst_n),
        .quiet_i(no_commands),
        .gated_i(dut.vector_clk)
    );
  end

  // ---- performance counters ----
  counter_checker counter_rules (
      .clk_i           (clk),
      .rst_ni          (rst_n),
      .clear_i         (dut.u_registers.hwif_out.CONTROL.clear_counters.value || dut.soft_reset || dut.reset_done),
      .state_i         (dut.state),
      .retired_i       (dut.retired),
      .abort_i         (dut.abort_all),
      .start_i         (dut.start),
      .done_i          (dut.done),
      .matrix_i        (dut.matrix_command),
      .matrix_walks_i  (dut.u_matrix.rows_left),
      .matrix_fed_i    (dut.u_matrix.row_valid && dut.u_matrix.weights_ok),
      .matrix_room_i   (dut.u_matrix.sums_ok && dut.u_matrix.room_ok && dut.u_matrix.order_ok),
      // Instructions of a row count, but none that is a fault, or comes behind one.
      .vector_starved_i((dut.u_vector.core_busy && dut.u_vector.u_core.valid_q && !dut.u_vector.u_core.control
                         && !dut.u_vector.core_fault && dut.u_vector.u_core.starved)
                        || (dut.u_vector.copying && !dut.rd_valid[npu_pkg::ReadVector]
                            && !(dut.u_vector.inputs_done && dut.u_vector.dst_asked && dut.wr_idle[npu_pkg::WriteVector]))),
      .vector_blocked_i((dut.u_vector.core_busy && dut.u_vector.u_core.valid_q && !dut.u_vector.u_core.control
                         && !dut.u_vector.core_fault && !dut.u_vector.u_core.starved && dut.u_vector.u_core.blocked)
                        || (dut.u_vector.copying && dut.rd_valid[npu_pkg::ReadVector]
                            && !dut.wr_ready[npu_pkg::WriteVector])),
      .host_wvalid_i   (s_axi_wvalid),
      .host_wready_i   (host_wready),
      .host_rvalid_i   (host_rvalid),
      .host_rready_i   (s_axi_rready),
      .awvalid_i       (m_axi_awvalid),
      .awready_i       (m_axi_awready),
      .wvalid_i        (m_axi_wvalid),
      .wready_i        (m_axi_wready),
      .arvalid_i       (m_axi_arvalid),
      .arready_i       (m_axi_arready),
      .rvalid_i        (m_axi_rvalid),
      .rready_i        (m_axi_rready),
      .sample_i        (dut.u_registers.u_regs.cpuif_rd_ack),
      .sample_addr_i   (dut.u_registers.u_regs.cpuif_addr),
      .sample_data_i   (dut.u_registers.u_regs.cpuif_rd_data)
  );

  // ---- timeline ----
  npu_trace #(
      .DataWidth(DataWidth)
  ) trace (
      .*,
      .enable     (trace_enable),
      .events     (dut.events),
      .start      (dut.start),
      .done       (dut.done),
      .queue_level(dut.queue_level),
      .ring_head  (dut.ring_head),
      .ring_tail  (dut.ring_tail),
      .ring_size  (dut.ring_size)
  );

  // ---- functional coverage ----
  npu_cover cover_states (
      .*,
      .phase       (dut.u_commands.phase_q),
      .window_level(dut.queue_level),
      .ring_head   (dut.ring_head),
      .ring_tail   (dut.u_commands.tail_q),
      .ring_size   (dut.ring_size),
      .slot_valid  (dut.u_commands.valid_q),
      .slot_vector ({dut.u_commands.slots_q[2].vector, dut.u_commands.slots_q[1].vector,
                     dut.u_commands.slots_q[0].vector}),
      .from_ring   (dut.u_commands.from_ring_q),
      .is_fence    (dut.u_commands.is_fence),
      .is_matmul   (dut.u_commands.is_matmul),
      .conflict    (dut.u_commands.conflict),
      .engine_free (dut.u_commands.engine_free),
      .soft_reset  (dut.soft_reset),
      .clear_error (dut.clear_error),
      .doorbell    (dut.doorbell),
      .tail_write  (dut.ring_tail_write),
      .issue       (dut.u_commands.issues),
      .fault       (dut.u_commands.fault),
      .engine_fails(dut.u_commands.engine_fails),
      .engine_error(dut.u_commands.slots_q[0].error),
      .irq_status  ({dut.u_registers.hwif_out.IRQ_STATUS.command.value,
                     dut.u_registers.hwif_out.IRQ_STATUS.error.value,
                     dut.u_registers.hwif_out.IRQ_STATUS.done.value}),
      .irq_enable  ({dut.u_registers.hwif_out.IRQ_ENABLE.command.value,
                     dut.u_registers.hwif_out.IRQ_ENABLE.error.value,
                     dut.u_registers.hwif_out.IRQ_ENABLE.done.value}),
      .irq_event   ({dut.irq_command, dut.irq_error, dut.irq_done}),
      .irq_clear   (dut.u_registers.u_regs.decoded_reg_strb.IRQ_STATUS
                     && dut.u_registers.u_regs.decoded_req_is_wr
                     ? dut.u_registers.u_regs.decoded_wr_data[2:0] : 3'b0)
  );

`endif

  logic unused;
  assign unused = bus_clk;  // only bus libraries use it

  dram_model #(
      .DataWidth      (DataWidth),
      .AddrWidth      (npu_pkg::AddressBits),
      .IdWidth        (8),
      .WeightFirst    (64'(npu_pkg::WeightFirst)),
      .WeightEnd      (64'(npu_pkg::WeightEnd)),
      .ActivationFirst(64'(npu_pkg::ActivationFirst)),
      .ActivationEnd  (64'(npu_pkg::ActivationEnd))
  ) dram (.*);

endmodule
