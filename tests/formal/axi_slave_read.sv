// axi_slave, reads: every address and every data beat arrives once and in order; a burst that is not for memory
// reaches no memory and gets its beats of zeros with DECERR in its turn; nothing stands still unless a neighbour does.
`include "formal.svh"
`include "axi_rules.svh"
`include "axi_slave.svh"
`include "axi_types.svh"

module axi_slave_read_formal #(
    parameter int unsigned DataWidth      = 16,
    parameter int unsigned IdWidth        = 2,
    parameter int unsigned MaxOutstanding = 2
) (
    input logic                 clk_i,
    input logic                 rst_ni,
    input logic [  IdWidth-1:0] s_arid,
    input logic [         31:0] s_araddr,
    input logic [          7:0] s_arlen,
    input logic [          2:0] s_arsize,
    input logic [          1:0] s_arburst,
    input logic [          2:0] s_arprot,
    input logic                 s_arvalid,
    input logic                 s_rready,
    input logic                 m_arready,
    input logic [  IdWidth-1:0] m_rid,
    input logic [DataWidth-1:0] m_rdata,
    input logic [          1:0] m_rresp,
    input logic                 m_rlast,
    input logic                 m_rvalid,
    input logic                 tag_ar,     // which address and which beat are followed: any one of each
    input logic                 tag_r
);
  localparam int unsigned DataBytes = DataWidth / 8;
  `AXI_TYPES(IdWidth, DataWidth)
  localparam int unsigned ArBits    = $bits(axi_address_t);
  localparam int unsigned RBits     = $bits(axi_read_data_t);
  localparam logic [1:0]  DecErr    = 2'b11;

  localparam int unsigned CountBits = $clog2(MaxOutstanding + 6);
  typedef logic [CountBits-1:0] count_t;

  `AXI_FORWARDED_FUNCTION

  function automatic logic forwarded_ar(input axi_address_t payload);
    return forwarded(payload.addr, payload.len, payload.size, payload.burst);
  endfunction

  logic           s_arready, s_rvalid;
  logic           m_arvalid, m_rready;
  axi_address_t   s_ar, m_ar;
  axi_read_data_t s_r, m_r;

  assign s_ar = {s_arid, s_araddr, s_arlen, s_arsize, s_arburst, s_arprot};
  assign m_r  = {m_rid, m_rdata, m_rresp, m_rlast};

  axi_slave #(
      .DataWidth       (DataWidth),
      .IdWidth         (IdWidth),
      .MaxOutstanding  (MaxOutstanding),
      .axi_address_t   (axi_address_t),
      .axi_write_data_t(axi_write_data_t),
      .axi_response_t  (axi_response_t),
      .axi_read_data_t (axi_read_data_t)
  ) dut (
      .clk_i,
      .rst_ni,
      .busy_o(),
      `AXI_SLAVE_NO_WRITES,
      `AXI_SLAVE_READS
  );

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET

  logic s_ar_kept, s_r_kept, m_ar_kept, m_r_kept;
  stream_rule #(.Width(ArBits)) u_s_ar (.clk_i, .rst_ni, .valid_i(s_arvalid), .ready_i(s_arready), .payload_i(s_ar),
                                        .kept_o(s_ar_kept));
  stream_rule #(.Width(RBits)) u_s_r (.clk_i, .rst_ni, .valid_i(s_rvalid), .ready_i(s_rready), .payload_i(s_r),
                                      .kept_o(s_r_kept));
  stream_rule #(.Width(ArBits)) u_m_ar (.clk_i, .rst_ni, .valid_i(m_arvalid), .ready_i(m_arready), .payload_i(m_ar),
                                        .kept_o(m_ar_kept));
  stream_rule #(.Width(RBits)) u_m_r (.clk_i, .rst_ni, .valid_i(m_rvalid), .ready_i(m_rready), .payload_i(m_r),
                                      .kept_o(m_r_kept));

  // The host holds an address until it is taken, the memory its data.
  always_comb if (rst_ni) assume (s_ar_kept && m_r_kept);

  logic s_ar_go, s_r_go, m_ar_go, m_r_go;
  assign s_ar_go = s_arvalid && s_arready;
  assign s_r_go  = s_rvalid && s_rready;
  assign m_ar_go = m_arvalid && m_arready;
  assign m_r_go  = m_rvalid && m_rready;

  // The memory sends data only for bursts that it took and that have not ended. Bursts may be of any length and
  // their beats may alternate.
  count_t owed_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) owed_q <= '0;
    else owed_q <= owed_q + count_t'(m_ar_go) - count_t'(m_r_go && m_rlast);
  end
  always_comb if (rst_ni) assume (!m_rvalid || owed_q != '0);

  // ---------------------------------------------------------------- what waits in the block's stages
  count_t in_ar, out_r, lasts;
  logic   legal0, legal1, last0, last1, refusing, refused_beat;
  assign in_ar  = count_t'(dut.u_ar.valid_q) + count_t'(dut.u_ar.spare_valid_q);
  assign out_r  = count_t'(dut.u_r.valid_q) + count_t'(dut.u_r.spare_valid_q);
  assign legal0 = dut.u_ar.valid_q && forwarded_ar(dut.u_ar.data_q);
  assign legal1 = dut.u_ar.spare_valid_q && forwarded_ar(dut.u_ar.spare_q);
  assign last0  = dut.u_r.valid_q && dut.u_r.data_q[0];
  assign last1  = dut.u_r.spare_valid_q && dut.u_r.spare_q[0];
  assign lasts  = count_t'(last0) + count_t'(last1);
  assign refusing     = dut.read_state_q;
  assign refused_beat = refusing && dut.r_push;

  // ---------------------------------------------------------------- counts of what came and went
  count_t total_q;    // bursts of the host whose last beat it has not received
  count_t legal_q;    // of those for memory, the ones whose address the memory has not taken
  count_t beats_q;    // beats of the memory and of refusals on their way to the host
  logic   s_ar_legal;
  assign s_ar_legal = forwarded(s_araddr, s_arlen, s_arsize, s_arburst);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      total_q <= '0;
      legal_q <= '0;
      beats_q <= '0;
    end else begin
      total_q <= total_q + count_t'(s_ar_go) - count_t'(s_r_go && s_r.last);
      legal_q <= legal_q + count_t'(s_ar_go && s_ar_legal) - count_t'(m_ar_go);
      beats_q <= beats_q + count_t'(m_r_go) + count_t'(refused_beat) - count_t'(s_r_go);
    end
  end

  // ---------------------------------------------------------------- what is followed
  logic              good_q, bad_q;  // an address for memory, one that is not
  count_t            good_ahead_q;   // addresses for memory before it
  count_t            bad_ahead_q;    // bursts before it
  axi_address_t good_ar_q, bad_ar_q;
  logic [8:0]        bad_beats_q;    // of its beats, those that the host has
  logic              beat_q;         // a beat of the memory
  count_t            beat_ahead_q;   // beats before it
  logic [RBits-1:0]  beat_r_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      good_q <= 1'b0;
      bad_q  <= 1'b0;
      beat_q <= 1'b0;
    end else begin
      if (good_q) begin
        if (m_ar_go) good_ahead_q <= good_ahead_q - 1'b1;
        if (m_ar_go && good_ahead_q == '0) good_q <= 1'b0;
      end else if (s_ar_go && tag_ar && s_ar_legal) begin
        good_q       <= 1'b1;
        good_ahead_q <= legal_q - count_t'(m_ar_go);
        good_ar_q    <= s_ar;
      end
      if (bad_q) begin
        if (s_r_go && s_r.last) bad_ahead_q <= bad_ahead_q - 1'b1;
        if (s_r_go && bad_ahead_q == '0) begin
          bad_beats_q <= bad_beats_q + 1'b1;
          if (s_r.last) bad_q <= 1'b0;
        end
      end else if (s_ar_go && tag_ar && !s_ar_legal) begin
        bad_q       <= 1'b1;
        bad_ahead_q <= total_q - count_t'(s_r_go && s_r.last);
        bad_beats_q <= '0;
        bad_ar_q    <= s_ar;
      end
      if (beat_q) begin
        if (s_r_go) beat_ahead_q <= beat_ahead_q - 1'b1;
        if (s_r_go && beat_ahead_q == '0) beat_q <= 1'b0;
      end else if (m_r_go && tag_r) begin
        beat_q       <= 1'b1;
        beat_ahead_q <= out_r - count_t'(s_r_go);
        beat_r_q     <= m_r;
      end
    end
  end

  // ---------------------------------------------------------------- who makes the block wait
  logic neighbour_waits, moves;
  assign neighbour_waits = (m_arvalid && !m_arready) || (s_rvalid && !s_rready) || (owed_q != '0 && !m_rvalid);
  assign moves = s_r_go || m_ar_go || m_r_go || refused_beat || dut.read_state_q != dut.read_state_d;

  // ---------------------------------------------------------------- proven
  // The beats of the followed refusal that wait for the host.
  logic       place_head, tagged0, tagged1;
  logic [8:0] bad_len, bad_waiting;
  function automatic logic [RBits-1:0] refusal(input logic [IdWidth-1:0] id, input logic last);
    return {id, DataWidth'(0), DecErr, last};
  endfunction
  logic [IdWidth-1:0] bad_id;
  assign bad_id      = bad_ar_q.id;
  assign bad_len     = {1'b0, bad_ar_q.len};
  assign place_head  = bad_ahead_q == lasts + count_t'(dut.read_count_q);
  assign tagged0     = bad_q && dut.u_r.valid_q && bad_ahead_q == '0;
  assign tagged1     = bad_q && dut.u_r.spare_valid_q && bad_ahead_q == count_t'(last0);
  assign bad_waiting = 9'(tagged0) + 9'(tagged1);

  always_comb begin
    if (rst_ni) begin
      ArStable        : assert (m_ar_kept);
      RStable         : assert (s_r_kept);
      // Only what went in comes out, and everything inside is counted.
      RExpected       : assert (!s_rvalid || (total_q != '0 && beats_q != '0));
      ArExpected      : assert (!m_arvalid || (legal_q != '0 && forwarded_ar(m_ar)));
      OutstandingMost : assert (owed_q <= count_t'(MaxOutstanding));
      // Elements that are followed.
      if (good_q) begin
        ArKept  : assert (good_ahead_q < legal_q);
        ArOrder : assert (!(m_arvalid && good_ahead_q == '0) || m_ar == good_ar_q);
      end
      if (bad_q) begin
        RefusalKept  : assert (bad_ahead_q < total_q && bad_beats_q <= bad_len);
        RefusalOrder : assert (!(s_rvalid && bad_ahead_q == '0) || s_r == refusal(bad_id, bad_beats_q == bad_len));
      end
      if (beat_q) begin
        RKept  : assert (beat_ahead_q < beats_q && s_rvalid);
        ROrder : assert (beat_ahead_q != '0 || s_r == beat_r_q);
      end
      Progress : assert (total_q == '0 || neighbour_waits || moves);
      TakesTwo : assert (s_arready == (in_ar < count_t'(2)));
      ForwardsAtOnce : assert (!(legal0 && dut.read_count_q < MaxOutstanding) || m_arvalid);

`ifndef PROPERTIES_ONLY
      // What the induction needs: where everything is.
      StageAr   : assert (dut.u_ar.valid_q || !dut.u_ar.spare_valid_q);
      StageR    : assert (dut.u_r.valid_q || !dut.u_r.spare_valid_q);
      TotalIs   : assert (total_q == in_ar + count_t'(dut.read_count_q) + lasts);
      LegalIs   : assert (legal_q == count_t'(legal0) + count_t'(legal1));
      BeatsAre  : assert (beats_q == out_r);
      OwedIs    : assert (count_t'(dut.read_count_q) == owed_q && dut.read_count_q <= MaxOutstanding);
      Refuses   : assert (!refusing || (dut.read_count_q == '0 && in_ar != '0 && !legal0 &&
                                        dut.beat_q <= dut.u_ar.data_q[15:8]));
      // With nothing owed and nothing begun, the last beat inside ends a burst.
      Whole     : assert (dut.read_count_q != '0 || (refusing && dut.beat_q != '0) || out_r == '0 ||
                          (out_r == count_t'(2) ? last1 : last0));
      Begun     : assert (dut.read_count_q != '0 || refusing || total_q != '0 || out_r == '0);
      if (good_q) begin
        ArPlace : assert (legal0 && good_ahead_q == '0 ? dut.u_ar.data_q == good_ar_q :
                          dut.u_ar.spare_q == good_ar_q && good_ahead_q == count_t'(legal0));
        ArLegal : assert (forwarded_ar(good_ar_q));
      end
      if (bad_q) begin
        RefusalBad   : assert (!forwarded_ar(bad_ar_q));
        RefusalPlace : assert (bad_ahead_q < lasts || (place_head ? dut.u_ar.data_q == bad_ar_q :
                               bad_ahead_q == lasts + count_t'(dut.read_count_q) + 1'b1 && in_ar == count_t'(2) &&
                               dut.u_ar.spare_q == bad_ar_q));
        RefusalBeats : assert (bad_ahead_q < lasts || (place_head && refusing
                               ? 9'(dut.beat_q) == bad_beats_q + bad_waiting
                               : bad_beats_q == '0 && (dut.read_count_q != '0 || bad_waiting == '0)));
        if (bad_ahead_q < lasts || (place_head && refusing)) begin
          RefusalBeat0 : assert (!tagged0 || dut.u_r.data_q == refusal(bad_id, bad_beats_q == bad_len));
          RefusalBeat1 : assert (!tagged1 || dut.u_r.spare_q == refusal(bad_id,
                                                                        bad_beats_q + 9'(tagged0) == bad_len));
        end
      end
      if (beat_q) begin
        RPlace : assert ((beat_ahead_q == '0 ? dut.u_r.data_q : dut.u_r.spare_q) == beat_r_q);
      end
`endif

      ArLeaves      : cover (good_q && m_ar_go && good_ahead_q == '0);
      RefusalLeaves : cover (bad_q && s_r_go && s_r.last && bad_ahead_q == '0 && bad_beats_q == 9'd2);
      BeatLeaves    : cover (beat_q && s_r_go && beat_ahead_q == '0);
      MostForwarded : cover (owed_q == count_t'(MaxOutstanding));
    end
  end
endmodule
