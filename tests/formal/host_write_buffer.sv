// host_write_buffer: the memory controller never waits for a host, whatever that does or leaves undone.
`include "formal.svh"
`include "axi_types.svh"

module host_write_buffer_formal #(
    parameter int unsigned MaxBurst       = 3,
    parameter int unsigned DataBeats      = 4,
    parameter int unsigned MaxOutstanding = 2
) (
    input logic       clk_i,
    input logic       rst_ni,
    input logic       awvalid_i,
    input logic [1:0] aw_i,
    input logic       wvalid_i,
    input logic [7:0] wdata_i,
    input logic       wlast_i,
    input logic       bready_i,
    input logic       awready_i,
    input logic       wready_i,
    input logic       bvalid_i,
    input logic [1:0] bresp_i
);
  localparam int unsigned IndexBits = $clog2(DataBeats);
  typedef logic [3:0] count_t;

  `AXI_TYPES(1, 8)
  logic awready, wready, bvalid, awvalid, wvalid, wlast;
  axi_write_data_t w;
  assign wlast = w.last;

  host_write_buffer #(
      .MaxBurst        (MaxBurst),
      .DataBeats       (DataBeats),
      .MaxOutstanding  (MaxOutstanding),
      .axi_address_t   (logic [1:0]),
      .axi_write_data_t(axi_write_data_t),
      .axi_response_t  (axi_response_t)
  ) dut (
      .clk_i,
      .rst_ni,
      .awvalid_i,
      .awready_o(awready),
      .aw_i,
      .wvalid_i,
      .wready_o (wready),
      .w_i      ('{data: wdata_i, strb: 1'b1, last: wlast_i}),
      .bvalid_o (bvalid),
      .bready_i,
      .b_o      (),
      .awvalid_o(awvalid),
      .awready_i,
      .aw_o     (),
      .wvalid_o (wvalid),
      .wready_i,
      .w_o      (w),
      .bvalid_i,
      .b_i      ('{id: 1'b0, resp: bresp_i})
  );

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET

  logic   aw_go, w_go, b_go, m_aw_go, m_w_go;
  count_t under_way_q;  // bursts forwarded by the window, without a response
  count_t part_q;       // beats of the burst that is coming in
  count_t owed_q;       // bursts whose address the controller has taken, and not their last beat
  count_t answers_q;    // bursts that the memory has completely and has not answered
  assign aw_go   = awvalid_i && awready;
  assign w_go    = wvalid_i && wready;
  assign b_go    = bvalid && bready_i;
  assign m_aw_go = awvalid && awready_i;
  assign m_w_go  = wvalid && wready_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      under_way_q <= '0;
      part_q      <= '0;
      owed_q      <= '0;
      answers_q   <= '0;
    end else begin
      under_way_q <= under_way_q + count_t'(aw_go) - count_t'(b_go);
      if (w_go) part_q <= wlast_i ? '0 : part_q + 1'b1;
      owed_q      <= owed_q + count_t'(m_aw_go) - count_t'(m_w_go && wlast);
      answers_q   <= answers_q + count_t'(m_w_go && wlast) - count_t'(bvalid_i);
    end
  end
  always_comb begin
    if (rst_ni) begin
      // The window forwards at most this many bursts, and none is longer than AXI4 allows.
      assume (!awvalid_i || under_way_q < count_t'(MaxOutstanding));
      assume (!wvalid_i || wlast_i || part_q < count_t'(MaxBurst - 1));
      // The controller takes the data of the addresses that it has taken, and the memory answers whole bursts.
      assume (!wready_i || owed_q != '0);
      assume (!bvalid_i || answers_q != '0);
    end
  end

  // ---------------------------------------------------------------- what is stored
  count_t lasts;  // last beats, the output's among them
  count_t tail;   // beats behind the newest of those
  logic [IndexBits-1:0] place;
  always_comb begin
    lasts = count_t'(wvalid && wlast);
    tail  = count_t'(wvalid && !wlast);
    place = '0;
    for (int unsigned i = 0; i < DataBeats; i++) begin
      place = dut.u_w.read_q[IndexBits-1:0] + IndexBits'(i);
      if (i < 32'(dut.u_w.stored)) begin
        lasts += count_t'(dut.u_w.u_storage.storage_q[place][0]);
        tail = dut.u_w.u_storage.storage_q[place][0] ? '0 : tail + 1'b1;
      end
    end
  end
  logic pushed_q;
  always_ff @(posedge clk_i) pushed_q <= rst_ni && w_go;

  // ---------------------------------------------------------------- proven
  always_comb begin
    if (rst_ni) begin
      // The controller never waits for data, nor for room for a response.
      DataAtHand      : assert (owed_q == '0 || wvalid);
      RoomForResponse : assert (!bvalid_i || !dut.b_full);
      // A complete burst is forwarded at once; an incomplete one has room.
      GoesOnAtOnce    : assert (awvalid || dut.aw_empty || dut.whole_q == '0);
      NeverStuck      : assert (wready || dut.whole_q != '0 || owed_q != '0);
`ifndef PROPERTIES_ONLY
      // What the induction needs: each burst is counted once, and which beats are stored.
      LastsAre   : assert (count_t'(dut.whole_q) + owed_q == lasts);
      PartIs     : assert (part_q == tail && part_q < count_t'(MaxBurst));
      Stored     : assert (dut.u_w.stored <= DataBeats);
      Shows      : assert (wvalid || count_t'(dut.u_w.stored) == count_t'(pushed_q));
      NotYetWhole : assert (wvalid || owed_q == '0);
      UnderWay   : assert (under_way_q == count_t'(dut.aw_count) + owed_q + answers_q + count_t'(dut.b_count));
      MostBursts : assert (under_way_q <= count_t'(MaxOutstanding));
      Small      : assert (dut.whole_q <= DataBeats + 1 && owed_q <= count_t'(MaxOutstanding) &&
                           answers_q <= count_t'(MaxOutstanding));
`endif
      LongestGoesOn : cover (m_w_go && wlast && dut.u_w.stored == '0 && part_q == '0);
      TwoUnderWay   : cover (owed_q == count_t'(2));
      Answered      : cover (b_go);
    end
  end
endmodule
