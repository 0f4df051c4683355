// register_block with the generated npu_regs: each access of the host is done once, on the right register, and answered
// once, in order and after it took effect; none waits for more than one of the other kind; no event is lost.
`include "formal.svh"

module register_block_formal
  import npu_perf_pkg::*;
(
    input logic         clk_i,
    input logic         rst_ni,
    input logic [ 15:0] awaddr,
    input logic         awvalid,
    input logic [ 31:0] wdata,
    input logic [  3:0] wstrb,
    input logic         wvalid,
    input logic         bready,
    input logic [ 15:0] araddr,
    input logic         arvalid,
    input logic         rready,
    input logic         ring_enable_clear,
    input logic         ring_tail_clear,
    input logic         ring_tail_set,
    input logic [ 15:0] ring_tail_value,
    input logic [ 15:0] ring_head,
    input logic [  1:0] state,
    input logic [  7:0] queue_level,
    input logic         queue_full,
    input logic [  7:0] error_code,
    input logic [ 31:0] error_index,
    input logic [ 63:0] error_addr,
    input logic [ 31:0] retired,
    input logic         irq_done,
    input logic         irq_error,
    input logic         irq_command,
    input perf_events_t events,
    input logic         tag,        // which access is followed: any one
    input logic [  3:0] word_index  // which word of the command window is followed: any one
);
  localparam logic [1:0] Okay   = 2'b00;
  localparam logic [1:0] SlvErr = 2'b10;

  logic         awready, wready, bvalid, arready, rvalid;
  logic [1:0]   bresp, rresp;
  logic [31:0]  rdata, ring_base;
  logic [15:0]  ring_tail;
  logic         soft_reset, doorbell, ring_tail_write, irq;
  logic [511:0] packet;

  register_block dut (
      .clk_i,
      .rst_ni,
      .test_enable_i      (1'b0),
      .s_axil_awaddr      (awaddr),
      .s_axil_awprot      ('0),
      .s_axil_awvalid     (awvalid),
      .s_axil_awready     (awready),
      .s_axil_wdata       (wdata),
      .s_axil_wstrb       (wstrb),
      .s_axil_wvalid      (wvalid),
      .s_axil_wready      (wready),
      .s_axil_bresp       (bresp),
      .s_axil_bvalid      (bvalid),
      .s_axil_bready      (bready),
      .s_axil_araddr      (araddr),
      .s_axil_arprot      ('0),
      .s_axil_arvalid     (arvalid),
      .s_axil_arready     (arready),
      .s_axil_rdata       (rdata),
      .s_axil_rresp       (rresp),
      .s_axil_rvalid      (rvalid),
      .s_axil_rready      (rready),
      .soft_reset_o       (soft_reset),
      .clear_error_o      (),
      .ring_enable_o      (),
      .ring_enable_clear_i(ring_enable_clear),
      .cmd_packet_o       (packet),
      .cmd_doorbell_o     (doorbell),
      .ring_base_o        (ring_base),
      .ring_size_o        (),
      .ring_tail_o        (ring_tail),
      .ring_tail_write_o  (ring_tail_write),
      .ring_tail_clear_i  (ring_tail_clear),
      .ring_tail_set_i    (ring_tail_set),
      .ring_tail_value_i  (ring_tail_value),
      .ring_head_i        (ring_head),
      .guard_base_o       (),
      .guard_size_o       (),
      .watchdog_o         (),
      .axi_prot_o         (),
      .state_i            (state),
      .queue_level_i      (queue_level),
      .queue_full_i       (queue_full),
      .error_code_i       (error_code),
      .error_index_i      (error_index),
      .error_addr_i       (error_addr),
      .retired_i          (retired),
      .irq_done_i         (irq_done),
      .irq_error_i        (irq_error),
      .irq_command_i      (irq_command),
      .irq_o              (irq),
      .events_i           (events)
  );

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET

  // The followed word is the same for the whole run.
  logic [3:0] word_index_q;
  always_ff @(posedge clk_i) word_index_q <= word_index;
  always_comb assume (!started_q || word_index == word_index_q);

  // Nothing is assumed of the host: what it withdraws before it is taken was never sent.

  // ---------------------------------------------------------------- the register map, as documented
  function automatic logic is_word(input logic [15:0] addr, input logic [15:0] first, input logic [15:0] last);
    return addr >= first && addr <= last;
  endfunction

  function automatic logic readable(input logic [15:0] addr);
    return is_word(addr, 16'h000, 16'h02C) || is_word(addr, 16'h040, 16'h058) || is_word(addr, 16'h060, 16'h06C) ||
           is_word(addr, 16'h080, 16'h094) || is_word(addr, 16'h0C0, 16'h0FC) || is_word(addr, 16'h200, 16'h25C);
  endfunction

  function automatic logic writable(input logic [15:0] addr);
    return addr == 16'h040 || is_word(addr, 16'h060, 16'h06C) || is_word(addr, 16'h080, 16'h084) ||
           is_word(addr, 16'h08C, 16'h094) || is_word(addr, 16'h0C0, 16'h0FC) || addr == 16'h100;
  endfunction

  // ---------------------------------------------------------------- what the host has sent and is not done yet
  logic        aw_held_q, w_held_q, ar_held_q;
  logic [15:0] aw_q, ar_q;
  logic [31:0] data_q;
  logic [3:0]  strb_q;
  logic [31:0] bits;
  logic        do_write, do_read;
  assign do_write = dut.u_regs.axil_aw_accept;
  assign do_read  = dut.u_regs.axil_ar_accept;
  assign bits     = {{8{strb_q[3]}}, {8{strb_q[2]}}, {8{strb_q[1]}}, {8{strb_q[0]}}};

  // Responses on their way, of either kind, and how long an access has waited although it could be done.
  logic [1:0] writes_q, reads_q, waiting;
  logic [1:0] write_waits_q, read_waits_q;
  logic       b_go, r_go;
  assign b_go    = bvalid && bready;
  assign r_go    = rvalid && rready;
  assign waiting = writes_q + reads_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      aw_held_q     <= 1'b0;
      w_held_q      <= 1'b0;
      ar_held_q     <= 1'b0;
      writes_q      <= '0;
      reads_q       <= '0;
      write_waits_q <= '0;
      read_waits_q  <= '0;
    end else begin
      aw_held_q <= (awvalid && awready) || (aw_held_q && !do_write);
      w_held_q  <= (wvalid && wready) || (w_held_q && !do_write);
      ar_held_q <= (arvalid && arready) || (ar_held_q && !do_read);
      writes_q  <= writes_q + 2'(do_write) - 2'(b_go);
      reads_q   <= reads_q + 2'(do_read) - 2'(r_go);
      if (do_write) write_waits_q <= '0;
      else if (aw_held_q && w_held_q && waiting < 2'd2) write_waits_q <= write_waits_q + 1'b1;
      if (do_read) read_waits_q <= '0;
      else if (ar_held_q && waiting < 2'd2) read_waits_q <= read_waits_q + 1'b1;
    end
    if (awvalid && awready) aw_q <= {awaddr[15:2], 2'b0};
    if (arvalid && arready) ar_q <= {araddr[15:2], 2'b0};
    if (wvalid && wready) {data_q, strb_q} <= {wdata, wstrb};
  end

  // ---------------------------------------------------------------- the access that is followed
  logic        tagged_q, tag_write_q, tag_error_q;
  logic [1:0]  ahead_q;      // responses before its own
  logic [31:0] tag_data_q, read_value;

  always_comb begin
    read_value = dut.u_regs.readback_data;
    case (ar_q)
      16'h000: read_value = 32'h4543_484F;
      16'h004: read_value = 32'h0001_0000;
      16'h044: read_value = {15'b0, queue_full, queue_level, 6'b0, state};
      16'h048: read_value = {24'b0, error_code};
      16'h058: read_value = retired;
      16'h080: read_value = ring_base;
      16'h088: read_value = {16'b0, ring_head};
      default: if (is_word(ar_q, 16'h0C0, 16'h0FC)) read_value = packet[32*ar_q[5:2]+:32];
    endcase
    if (!readable(ar_q)) read_value = '0;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) tagged_q <= 1'b0;
    else if (tagged_q) begin
      if (b_go || r_go) ahead_q <= ahead_q - 1'b1;
      if ((b_go || r_go) && ahead_q == '0) tagged_q <= 1'b0;
    end else if (tag && (do_write || do_read)) begin
      tagged_q    <= 1'b1;
      ahead_q     <= waiting - 2'(b_go || r_go);
      tag_write_q <= do_write;
      tag_error_q <= do_write ? !writable(aw_q) : !readable(ar_q);
      tag_data_q  <= read_value;
    end
  end

  // ---------------------------------------------------------------- what a write does
  logic [31:0] word, word_next_q, base_next_q;
  logic [15:0] tail_from_q;
  logic        known_q, tail_next_q, b_kept, r_kept, irq_set_q;
  assign word = packet[32*word_index+:32];

  always_ff @(posedge clk_i) begin
    known_q     <= rst_ni;
    tail_next_q <= do_write && aw_q == 16'h08C && strb_q[1:0] != '0;
    base_next_q <= do_write && aw_q == 16'h080 ? (ring_base & ~bits) | (data_q & bits) : ring_base;
    if (do_write && aw_q == 16'h0C0 + 16'(4 * word_index)) word_next_q <= (word & ~bits) | (data_q & bits);
    else word_next_q <= soft_reset ? '0 : word;
    // The host's write wins, also one without bytes; what the device sets wins over its clear.
    if (do_write && aw_q == 16'h08C) tail_from_q <= (ring_tail & ~bits[15:0]) | (data_q[15:0] & bits[15:0]);
    else tail_from_q <= ring_tail_set ? ring_tail_value : (ring_tail_clear ? '0 : ring_tail);
    irq_set_q <= rst_ni && !soft_reset && !ring_enable_clear && irq_done;
  end

  stream_rule #(.Width(2)) u_b (.clk_i, .rst_ni, .valid_i(bvalid), .ready_i(bready), .payload_i(bresp),
                                .kept_o(b_kept));
  stream_rule #(.Width(34)) u_r (.clk_i, .rst_ni, .valid_i(rvalid), .ready_i(rready), .payload_i({rresp, rdata}),
                                 .kept_o(r_kept));

  // ---------------------------------------------------------------- proven
  logic slot, second_write;
  assign slot         = dut.u_regs.axil_resp_rptr[0] ^ ahead_q[0];
  assign second_write = dut.u_regs.axil_resp_buffer_is_wr[~dut.u_regs.axil_resp_rptr[0]];

  always_comb begin
    if (rst_ni) begin
      BStable      : assert (b_kept);
      RStable      : assert (r_kept);
      // An access is done only if it was sent, and as it was sent.
      OneAtATime   : assert (!(do_write && do_read));
      WriteIsSent  : assert (!do_write || (aw_held_q && w_held_q && dut.u_regs.decoded_req_is_wr &&
                             dut.u_regs.decoded_addr == aw_q && dut.u_regs.decoded_wr_data == data_q &&
                             dut.u_regs.decoded_wr_biten == bits));
      ReadIsSent   : assert (!do_read || (ar_held_q && !dut.u_regs.decoded_req_is_wr &&
                             dut.u_regs.decoded_addr == ar_q));
      NothingElse  : assert (dut.u_regs.decoded_req == (do_write || do_read));
      // The host waits only for its own previous access, and a stage is free as soon as that is done.
      TakesAw      : assert (awready == (!aw_held_q || do_write));
      TakesW       : assert (wready == (!w_held_q || do_write));
      TakesAr      : assert (arready == (!ar_held_q || do_read));
      // Done in the first or second clock in which there is room for the response; offered in the clock after that.
      WriteInTime  : assert (write_waits_q <= 2'd1);
      ReadInTime   : assert (read_waits_q <= 2'd1);
      OffersAtOnce : assert ((bvalid || rvalid) == (waiting != '0) && !(bvalid && rvalid));
      BExpected    : assert (!bvalid || writes_q != '0);
      RExpected    : assert (!rvalid || reads_q != '0);
      if (tagged_q) begin
        AnswerKept  : assert (ahead_q < waiting);
        AnswerOrder : assert (ahead_q != '0 || (tag_write_q ? bvalid && bresp == (tag_error_q ? SlvErr : Okay)
                              : rvalid && rresp == (tag_error_q ? SlvErr : Okay) && rdata == tag_data_q));
      end
      // Effects.
      if (known_q) begin
        BaseWritten : assert (ring_base == base_next_q);
        WordWritten : assert (word == word_next_q);
        TailWritten : assert (ring_tail == tail_from_q);
        TailPulse   : assert (ring_tail_write == tail_next_q);
      end
      DoorbellOnce : assert (doorbell == (do_write && aw_q == 16'h100 && strb_q != '0));
      EventKept    : assert (!irq_set_q || dut.hwif_out.IRQ_STATUS.done.value);

`ifndef PROPERTIES_ONLY
      // What the induction needs: where everything is.
      HeldAw     : assert (dut.u_regs.axil_awvalid == aw_held_q &&
                           (!aw_held_q || dut.u_regs.axil_awaddr[15:2] == aw_q[15:2]));
      HeldW      : assert (dut.u_regs.axil_wvalid == w_held_q &&
                           (!w_held_q || (dut.u_regs.axil_wdata == data_q && dut.u_regs.axil_wstrb == strb_q)));
      HeldAr     : assert (dut.u_regs.axil_arvalid == ar_held_q &&
                           (!ar_held_q || dut.u_regs.axil_araddr[15:2] == ar_q[15:2]));
      HeldAligned : assert ((!aw_held_q || aw_q[1:0] == '0) && (!ar_held_q || ar_q[1:0] == '0));
      InFlight   : assert (dut.u_regs.axil_n_in_flight == waiting && waiting <= 2'd2 && writes_q <= 2'd2 &&
                           reads_q <= 2'd2);
      Buffered   : assert (2'(dut.u_regs.axil_resp_wptr - dut.u_regs.axil_resp_rptr) == waiting);
      BufferedWrites : assert (writes_q == 2'(bvalid) + 2'(waiting == 2'd2 && second_write));
      WriteTurn  : assert (write_waits_q == '0 || (dut.u_regs.axil_prev_was_rd && aw_held_q && w_held_q));
      ReadTurn   : assert (read_waits_q == '0 || (!dut.u_regs.axil_prev_was_rd && ar_held_q));
      if (tagged_q) begin
        AnswerPlace : assert (dut.u_regs.axil_resp_buffer_is_wr[slot] == tag_write_q &&
                              dut.u_regs.axil_resp_buffer_err[slot] == tag_error_q &&
                              (tag_write_q || dut.u_regs.axil_resp_buffer_rdata[slot] == tag_data_q));
      end
`endif

      WriteAnswered : cover (tagged_q && tag_write_q && !tag_error_q && b_go && ahead_q == '0);
      ReadAnswered  : cover (tagged_q && !tag_write_q && !tag_error_q && r_go && ahead_q == '0);
      ErrorAnswered : cover (tagged_q && tag_error_q && b_go && ahead_q == '0);
      BothWait      : cover (waiting == 2'd2);
      Rings         : cover (doorbell);
    end
  end
endmodule
