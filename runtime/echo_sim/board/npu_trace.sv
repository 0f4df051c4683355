// Watches what the NPU does in each cycle and hands it to a recorder (npu_trace.cpp) while `enable` is 1.
// Passive; while `enable` is 0 it costs nothing.
module npu_trace
  import board_pkg::*;
  import npu_pkg::*;
  import npu_perf_pkg::*;
#(
    parameter int DataWidth = 256
) (
    input logic               clk,
    input logic        [63:0] cycle,
    input logic               enable,
    // of npu_top
    input perf_events_t       events,
    input logic [Engines-1:0] start,        // a command begins in an engine
    input logic [Engines-1:0] done,         // the oldest one of an engine has its result in memory
    input logic        [ 7:0] queue_level,  // packets that wait in the window queue
    input logic        [15:0] ring_head,
    input logic        [15:0] ring_tail,
    input logic        [15:0] ring_size,
    // m_axi; the upper four bits of an ID name the client
    input logic               m_axi_awvalid,
    input logic               m_axi_awready,
    input logic        [ 7:0] m_axi_awid,
    input address_t           m_axi_awaddr,
    input logic        [ 7:0] m_axi_awlen,
    input logic               m_axi_wvalid,
    input logic               m_axi_wready,
    input logic               m_axi_bvalid,
    input logic               m_axi_bready,
    input logic        [ 7:0] m_axi_bid,
    input logic               m_axi_arvalid,
    input logic               m_axi_arready,
    input logic        [ 7:0] m_axi_arid,
    input address_t           m_axi_araddr,
    input logic        [ 7:0] m_axi_arlen,
    input logic               m_axi_rvalid,
    input logic               m_axi_rready,
    input logic        [ 7:0] m_axi_rid
);

  import "DPI-C" function void echo_trace_init(input int unsigned beat_bytes);
  import "DPI-C" function void echo_trace_name(
    input int unsigned is_write,
    input int unsigned client,
    input string       name
  );
  import "DPI-C" function void echo_trace_tick(
    input longint unsigned cycle,
    input int unsigned     levels,
    input int unsigned     waiting,
    input int unsigned     pulses,
    input int unsigned     macs,
    input int unsigned     read,
    input longint unsigned araddr,
    input int unsigned     write,
    input longint unsigned awaddr
  );

  initial begin
    echo_trace_init(DataWidth / 8);
    echo_trace_name(0, ClientHost, "host");
    echo_trace_name(1, ClientHost, "host");
    echo_trace_name(0, ReadCommand + 1, "commands");
    echo_trace_name(0, ReadMatrixA + 1, "matrix A");
    echo_trace_name(0, ReadMatrixB + 1, "matrix B");
    echo_trace_name(0, ReadMatrixE + 1, "matrix scales and bias");
    echo_trace_name(0, ReadVector + 1, "vector s0");
    echo_trace_name(0, ReadVector + 2, "vector s1");
    echo_trace_name(0, ReadVector + 3, "vector s2");
    echo_trace_name(0, ReadVector + 4, "vector s3");
    echo_trace_name(1, WriteMatrix + 1, "matrix C");
    echo_trace_name(1, WriteVector + 1, "vector");
  end

  logic [31:0] levels, waiting, waiting_q, pulses, reads, writes;
  logic [15:0] backlog;
  logic moving_q;

  assign backlog = (ring_tail >= ring_head) ? ring_tail - ring_head : ring_tail - ring_head + ring_size;
  assign waiting = {8'd0, queue_level, backlog};

  // Without a recording nothing is computed.
  always_comb begin
    {levels, pulses, reads, writes} = '0;
    if (enable) begin
      levels[LevelBusy]       = events.busy;
      levels[LevelMatrixBusy] = events.matrix_busy;
      levels[LevelVectorBusy] = events.vector_busy;
      levels[LevelStallRead]  = events.stall_read;
      levels[LevelStallWrite] = events.stall_write;
      levels[LevelStallBus]   = events.stall_bus;
      pulses[0] = events.command;
      pulses[8+:Engines]  = start;
      pulses[16+:Engines] = done;
      if (m_axi_rvalid && m_axi_rready) reads[7:0] = {m_axi_rid[7:4], 4'b0001};
      if (m_axi_arvalid && m_axi_arready) reads[31:8] = {m_axi_arlen, m_axi_arid[7:4], 12'd1};
      if (m_axi_wvalid && m_axi_wready) writes[0] = 1'b1;
      if (m_axi_bvalid && m_axi_bready) writes[7:2] = {m_axi_bid[7:4], 2'b01};
      if (m_axi_awvalid && m_axi_awready) writes[31:8] = {m_axi_awlen, m_axi_awid[7:4], 12'd1};
    end
  end

  logic unused;
  assign unused = &{1'b0, events.read_beat, events.write_beat, events.host_beats, m_axi_awid[3:0],
                    m_axi_bid[3:0], m_axi_arid[3:0], m_axi_rid[3:0]};

  // Called only while something moves, and once more to see it stop.
  always @(posedge clk) begin
    if (enable) begin
      moving_q  <= levels != '0;
      waiting_q <= waiting;
      if ((levels | pulses | reads | writes) != '0 || moving_q || waiting != waiting_q)
        echo_trace_tick(cycle, levels, waiting, pulses, 32'(events.macs), reads, 64'(m_axi_araddr), writes,
                        64'(m_axi_awaddr));
    end
  end

endmodule
