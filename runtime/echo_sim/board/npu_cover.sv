// Counts the states of the command processor and the interrupts, and the events in each state, for functional coverage
// (npu_cover.cpp, tb/functional/states.py). Passive; it costs nothing unless the environment enables it.
module npu_cover
(
    input logic        clk,
    input logic        rst_n,
    // of the command processor
    input logic [ 3:0] phase,
    input logic [ 7:0] window_level,    // packets that wait in the window queue
    input logic [15:0] ring_head,
    input logic [15:0] ring_tail,       // the last good one
    input logic [15:0] ring_size,
    input logic [ 2:0] slot_valid,      // commands under way, the oldest in bit 0
    input logic [ 2:0] slot_vector,     // those on the vector engine
    input logic        from_ring,       // the packet that is looked at
    input logic        is_fence,
    input logic        is_matmul,
    input logic        conflict,        // it must wait for the bytes of a command under way
    input logic        engine_free,
    input logic        soft_reset,      // pulses
    input logic        clear_error,
    input logic        doorbell,
    input logic        tail_write,
    input logic        issue,           // the checked packet starts
    input logic [ 7:0] fault,           // of a packet, a fetch or the submission: its code, for a clock
    input logic        engine_fails,    // pulse: the oldest command
    input logic [ 7:0] engine_error,    // its code
    // interrupts: command, error, done
    input logic [ 2:0] irq_status,
    input logic [ 2:0] irq_enable,
    input logic [ 2:0] irq_event,       // pulses
    input logic [ 2:0] irq_clear,       // pulses: of the host's write to IRQ_STATUS
    // s_axi: the host's signals and the device's
    input logic        s_axi_awvalid,
    input logic        host_awready,
    input logic        host_bvalid,
    input logic        s_axi_bready,
    input logic [ 1:0] host_bresp,
    input logic        s_axi_arvalid,
    input logic        host_arready,
    input logic        host_rvalid,
    input logic        s_axi_rready,
    input logic        host_rlast,
    input logic [ 1:0] host_rresp
);

  import "DPI-C" function int unsigned echo_cover_enabled();
  import "DPI-C" function void echo_cover_tick(
    input int unsigned state,
    input int unsigned events
  );

  bit enabled;
  initial enabled = echo_cover_enabled() != 0;

  logic rst_nq, awake_q;  // awake: there was a reset, so the state is valid
  initial begin
    rst_nq  = 1'b0;
    awake_q = 1'b0;
  end
  logic [7:0] writes_q, reads_q;  // bursts of the host under way
  logic [15:0] backlog;
  logic [2:0] ring_class;
  logic [31:0] state, state_q, events;

  assign backlog = (ring_tail >= ring_head) ? ring_tail - ring_head : ring_tail - ring_head + ring_size;

  always_comb begin
    if (backlog == '0) ring_class = 3'd0;
    else if (backlog + 16'd1 == ring_size) ring_class = 3'd4;
    else if (backlog == 16'd1) ring_class = 3'd1;
    else if (backlog <= 16'd8) ring_class = 3'd2;  // as many as are fetched ahead
    else ring_class = 3'd3;
  end

  // The layout that tb/functional/states.py reads.
  assign state = !enabled ? '0 :
                 {reads_q != '0, writes_q != '0, engine_free, conflict, is_matmul, is_fence, from_ring, irq_enable,
                  irq_status, slot_vector & slot_valid, slot_valid, ring_tail < ring_head, ring_class,
                  window_level[4:0], phase};

  always_comb begin
    events        = '0;
    if (enabled) begin
      events[0]     = !rst_n && rst_nq;
      events[1]     = soft_reset;
      events[2]     = clear_error;
      events[3]     = doorbell;
      events[4]     = tail_write;
      events[5]     = issue;
      events[8:6]   = irq_event;
      events[11:9]  = irq_clear;
      events[12]    = s_axi_awvalid && host_awready;
      events[13]    = s_axi_arvalid && host_arready;
      events[15:14] = (host_bvalid && s_axi_bready) ? host_bresp : '0;
      events[17:16] = (host_rvalid && s_axi_rready && host_rlast) ? host_rresp : '0;
      events[22:18] = fault[4:0];
      events[27:23] = engine_fails ? engine_error[4:0] : '0;
    end
  end

  logic unused;
  assign unused = &{1'b0, window_level[7:5], fault[7:5], engine_error[7:5]};

  always @(posedge clk) begin
    if (enabled) begin
      rst_nq <= rst_n;
      if (!rst_n) begin
        awake_q  <= 1'b1;
        writes_q <= '0;
        reads_q  <= '0;
      end else begin
        writes_q <= writes_q + 8'(s_axi_awvalid && host_awready) - 8'(host_bvalid && s_axi_bready);
        reads_q  <= reads_q + 8'(s_axi_arvalid && host_arready) - 8'(host_rvalid && s_axi_rready && host_rlast);
      end
      state_q <= state;
      // The first clock of a reset shows the state that it met. Nothing is counted during the rest of it.
      if (awake_q && rst_nq && (events != '0 || state != state_q)) echo_cover_tick(state, events);
    end
  end

endmodule
