// register_block with the generated npu_regs: each access of the host is done once, on the right register, and answered
// once, in order and after it took effect; none waits for more than one of the other kind; no event is lost.
`include "formal.svh"
`include "register_block.svh"

module register_block_formal
  import board_pkg::*;
  import npu_perf_pkg::*;
(
    `REGISTER_BLOCK_INPUTS,
    input logic       tag,        // which access is followed: any one
    input logic [3:0] word_index  // which word of the command window is followed: any one
);
  localparam logic [1:0] Okay   = 2'b00;
  localparam logic [1:0] SlvErr = 2'b10;

  `REGISTER_BLOCK_OUTPUTS
  outputs_t o;

  register_block dut (
      .clk_i,
      .rst_ni,
      .test_enable_i(1'b0),
      `REGISTER_BLOCK_PORTS(o)
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

  function automatic logic is_window(input logic [15:0] addr);
    return is_word(addr, RegCmdWindow, RegCmdWindow + 16'(4 * (CmdWindowWords - 1)));
  endfunction

  // The last word of a register of 64 bits is 4 bytes behind its offset.
  function automatic logic readable(input logic [15:0] addr);
    return is_word(addr, RegId, RegCapMemory) || is_word(addr, RegControl, RegRetired) ||
           is_word(addr, RegIrqStatus, RegAxiProt) || is_word(addr, RegRingBase, RegGuardBaseHigh) || is_window(addr) ||
           is_word(addr, RegCycles, RegCommands + 16'd4);
  endfunction

  function automatic logic writable(input logic [15:0] addr);
    return addr == RegControl || is_word(addr, RegIrqStatus, RegAxiProt) || is_word(addr, RegRingBase, RegRingSize) ||
           is_word(addr, RegRingTail, RegGuardBaseHigh) || is_window(addr) || addr == RegDoorbell;
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
  assign b_go    = o.bvalid && bready;
  assign r_go    = o.rvalid && rready;
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
      aw_held_q <= (awvalid && o.awready) || (aw_held_q && !do_write);
      w_held_q  <= (wvalid && o.wready) || (w_held_q && !do_write);
      ar_held_q <= (arvalid && o.arready) || (ar_held_q && !do_read);
      writes_q  <= writes_q + 2'(do_write) - 2'(b_go);
      reads_q   <= reads_q + 2'(do_read) - 2'(r_go);
      if (do_write) write_waits_q <= '0;
      else if (aw_held_q && w_held_q && waiting < 2'd2) write_waits_q <= write_waits_q + 1'b1;
      if (do_read) read_waits_q <= '0;
      else if (ar_held_q && waiting < 2'd2) read_waits_q <= read_waits_q + 1'b1;
    end
    if (awvalid && o.awready) aw_q <= {awaddr[15:2], 2'b0};
    if (arvalid && o.arready) ar_q <= {araddr[15:2], 2'b0};
    if (wvalid && o.wready) {data_q, strb_q} <= {wdata, wstrb};
  end

  // ---------------------------------------------------------------- the access that is followed
  logic        tagged_q, tag_write_q, tag_error_q;
  logic [1:0]  ahead_q;      // responses before its own
  logic [31:0] tag_data_q, read_value;

  always_comb begin
    read_value = dut.u_regs.readback_data;
    case (ar_q)
      RegId: read_value = 32'h4543_484F;
      RegVersion: read_value = 32'h0001_0000;
      RegStatus: read_value = {15'b0, queue_full, queue_level, 6'b0, state};
      RegErrorCode: read_value = {24'b0, error_code};
      RegRetired: read_value = retired;
      RegRingBase: read_value = o.ring_base;
      RegRingHead: read_value = {16'b0, ring_head};
      default: if (is_window(ar_q)) read_value = o.packet[32*ar_q[5:2]+:32];
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
  logic        known_q, tail_next_q, bell_next_q, b_kept, r_kept, irq_set_q;
  assign word = o.packet[32*word_index+:32];

  always_ff @(posedge clk_i) begin
    known_q     <= rst_ni;
    tail_next_q <= do_write && aw_q == RegRingTail && strb_q[1:0] != '0;
    bell_next_q <= do_write && aw_q == RegDoorbell && strb_q != '0;
    base_next_q <= do_write && aw_q == RegRingBase ? (o.ring_base & ~bits) | (data_q & bits) : o.ring_base;
    if (do_write && aw_q == RegCmdWindow + 16'(4 * word_index)) word_next_q <= (word & ~bits) | (data_q & bits);
    else word_next_q <= o.soft_reset ? '0 : word;
    // The host's write wins, also one without bytes; what the device sets wins over its clear.
    if (do_write && aw_q == RegRingTail) tail_from_q <= (o.ring_tail & ~bits[15:0]) | (data_q[15:0] & bits[15:0]);
    else tail_from_q <= ring_tail_set ? ring_tail_value : (ring_tail_clear ? '0 : o.ring_tail);
    irq_set_q <= rst_ni && !o.soft_reset && !ring_enable_clear && irq_done;
  end

  stream_rule #(.Width(2)) u_b (.clk_i, .rst_ni, .valid_i(o.bvalid), .ready_i(bready), .payload_i(o.bresp),
                                .kept_o(b_kept));
  stream_rule #(.Width(34)) u_r (.clk_i, .rst_ni, .valid_i(o.rvalid), .ready_i(rready), .payload_i({o.rresp, o.rdata}),
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
      TakesAw      : assert (o.awready == (!aw_held_q || do_write));
      TakesW       : assert (o.wready == (!w_held_q || do_write));
      TakesAr      : assert (o.arready == (!ar_held_q || do_read));
      // Done in the first or second clock in which there is room for the response; offered in the clock after that.
      WriteInTime  : assert (write_waits_q <= 2'd1);
      ReadInTime   : assert (read_waits_q <= 2'd1);
      OffersAtOnce : assert ((o.bvalid || o.rvalid) == (waiting != '0) && !(o.bvalid && o.rvalid));
      BExpected    : assert (!o.bvalid || writes_q != '0);
      RExpected    : assert (!o.rvalid || reads_q != '0);
      if (tagged_q) begin
        AnswerKept  : assert (ahead_q < waiting);
        AnswerOrder : assert (ahead_q != '0 || (tag_write_q ? o.bvalid && o.bresp == (tag_error_q ? SlvErr : Okay)
                              : o.rvalid && o.rresp == (tag_error_q ? SlvErr : Okay) && o.rdata == tag_data_q));
      end
      // Effects.
      if (known_q) begin
        BaseWritten : assert (o.ring_base == base_next_q);
        WordWritten : assert (word == word_next_q);
        TailWritten : assert (o.ring_tail == tail_from_q);
        TailPulse   : assert (o.ring_tail_write == tail_next_q);
        DoorbellOnce : assert (o.doorbell == bell_next_q);
        // Writes act in their order, so no two in one clock.
        OneActs     : assert (2'(o.soft_reset || o.clear_error) + 2'(o.doorbell) + 2'(o.ring_tail_write) <= 2'd1);
      end
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
      BufferedWrites : assert (writes_q == 2'(o.bvalid) + 2'(waiting == 2'd2 && second_write));
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
      Rings         : cover (o.doorbell);
    end
  end
endmodule
