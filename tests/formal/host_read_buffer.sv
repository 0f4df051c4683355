// host_read_buffer: all data that the memory sends finds room, whatever the host leaves untaken.
`include "formal.svh"
`include "axi_types.svh"

module host_read_buffer_formal #(
    parameter int unsigned MaxBurst  = 4,
    parameter int unsigned DataBeats = 4
) (
    input logic       clk_i,
    input logic       rst_ni,
    input logic       arvalid_i,
    input logic [7:0] arlen_i,
    input logic       rready_i,
    input logic       arready_i,
    input logic       rvalid_i,
    input logic [7:0] rdata_i,
    input logic       rlast_i
);
  `AXI_TYPES(1, 8)
  typedef logic [3:0] count_t;

  logic arready, rvalid, arvalid;

  host_read_buffer #(
      .MaxBurst       (MaxBurst),
      .DataBeats      (DataBeats),
      .axi_address_t  (axi_address_t),
      .axi_read_data_t(axi_read_data_t)
  ) dut (
      .clk_i,
      .rst_ni,
      .arvalid_i,
      .arready_o(arready),
      .ar_i     ('{len: arlen_i, default: '0}),
      .rvalid_o (rvalid),
      .rready_i,
      .r_o      (),
      .arvalid_o(arvalid),
      .ar_o     (),
      .arready_i,
      .rvalid_i,
      .r_i      ('{id: 1'b0, data: rdata_i, resp: 2'b00, last: rlast_i})
  );

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET

  logic ar_kept, m_ar_kept;
  stream_rule #(.Width(8)) u_ar (.clk_i, .rst_ni, .valid_i(arvalid_i), .ready_i(arready), .payload_i(arlen_i),
                                 .kept_o(ar_kept));
  stream_rule #(.Width(8)) u_m_ar (.clk_i, .rst_ni, .valid_i(arvalid), .ready_i(arready_i), .payload_i(arlen_i),
                                   .kept_o(m_ar_kept));

  count_t owed_q;  // beats requested from the memory and not yet sent
  always_ff @(posedge clk_i) begin
    if (!rst_ni) owed_q <= '0;
    else owed_q <= owed_q + (arvalid && arready_i ? count_t'(arlen_i) + 1'b1 : '0) - count_t'(rvalid_i);
  end
  always_comb begin
    if (rst_ni) begin
      // The window holds an address; no burst is longer than AXI4 allows; the memory sends only requested data.
      assume (ar_kept);
      assume (arlen_i < 8'(MaxBurst));
      assume (!rvalid_i || owed_q != '0);
    end
  end

  logic pushed_q;
  always_ff @(posedge clk_i) pushed_q <= rst_ni && rvalid_i;

  // ---------------------------------------------------------------- proven
  always_comb begin
    if (rst_ni) begin
      RoomForData : assert (!rvalid_i || dut.queue_ready);
      ArStable    : assert (m_ar_kept);
      // When the host has taken all requested data, any burst is forwarded at once.
      NeverStuck  : assert (!(arvalid_i && owed_q == '0 && dut.u_r.stored == '0 && !rvalid) || arvalid);
      PairsUp     : assert (arready == (arready_i && dut.room) && arvalid == (arvalid_i && dut.room));
`ifndef PROPERTIES_ONLY
      // What the induction needs: a claim is for a beat that is owed or stored.
      ClaimIs : assert (count_t'(dut.claimed_q) == owed_q + count_t'(dut.u_r.stored) + count_t'(rvalid));
      ClaimMost : assert (32'(dut.claimed_q) <= DataBeats && dut.u_r.stored <= DataBeats && owed_q <= 4'(DataBeats));
      Shows   : assert (rvalid || count_t'(dut.u_r.stored) == count_t'(pushed_q));
`endif
      Full     : cover (32'(dut.claimed_q) == DataBeats && owed_q == '0 && !rready_i);
      GoesOn   : cover (arvalid && arready_i && rvalid);
    end
  end
endmodule
