// Watches what the NPU does in each cycle and hands it to a recorder (npu_trace.cpp) while `enable` is 1.
// Passive; while `enable` is 0 it costs nothing.
module npu_trace
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
    input logic               awvalid,
    input logic               awready,
    input logic        [ 7:0] awid,
    input logic        [31:0] awaddr,
    input logic        [ 7:0] awlen,
    input logic               wvalid,
    input logic               wready,
    input logic               bvalid,
    input logic               bready,
    input logic        [ 7:0] bid,
    input logic               arvalid,
    input logic               arready,
    input logic        [ 7:0] arid,
    input logic        [31:0] araddr,
    input logic        [ 7:0] arlen,
    input logic               rvalid,
    input logic               rready,
    input logic        [ 7:0] rid
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
    input int unsigned     araddr,
    input int unsigned     write,
    input int unsigned     awaddr
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
      levels = {26'd0, events.stall_bus, events.stall_write, events.stall_read, events.vector_busy,
                events.matrix_busy, events.busy};
      pulses[0] = events.command;
      pulses[8+:Engines]  = start;
      pulses[16+:Engines] = done;
      if (rvalid && rready) reads[7:0] = {rid[7:4], 4'b0001};
      if (arvalid && arready) reads[31:8] = {arlen, arid[7:4], 12'd1};
      if (wvalid && wready) writes[0] = 1'b1;
      if (bvalid && bready) writes[7:2] = {bid[7:4], 2'b01};
      if (awvalid && awready) writes[31:8] = {awlen, awid[7:4], 12'd1};
    end
  end

  logic unused;
  assign unused = &{1'b0, events.read_beat, events.write_beat, events.host_beats, awid[3:0], bid[3:0], arid[3:0], rid[3:0]};

  // Called only while something moves, and once more to see it stop.
  always @(posedge clk) begin
    if (enable) begin
      moving_q  <= levels != '0;
      waiting_q <= waiting;
      if ((levels | pulses | reads | writes) != '0 || moving_q || waiting != waiting_q)
        echo_trace_tick(cycle, levels, waiting, pulses, 32'(events.macs), reads, araddr, writes, awaddr);
    end
  end

endmodule
