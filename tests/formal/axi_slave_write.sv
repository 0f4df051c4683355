// axi_slave, writes: every address, data beat and response of host and memory arrives once and in order; a burst that
// is not for memory reaches no memory and gets one DECERR in its turn; nothing stands still unless a neighbour does.
`include "formal.svh"
`include "axi_rules.svh"
`include "axi_slave.svh"
`include "axi_types.svh"

module axi_slave_write_formal #(
    parameter int unsigned DataWidth      = 16,
    parameter int unsigned IdWidth        = 2,
    parameter int unsigned MaxOutstanding = 2
) (
    input logic                   clk_i,
    input logic                   rst_ni,
    input logic [    IdWidth-1:0] s_awid,
    input logic [           31:0] s_awaddr,
    input logic [            7:0] s_awlen,
    input logic [            2:0] s_awsize,
    input logic [            1:0] s_awburst,
    input logic [            2:0] s_awprot,
    input logic                   s_awvalid,
    input logic [  DataWidth-1:0] s_wdata,
    input logic [DataWidth/8-1:0] s_wstrb,
    input logic                   s_wlast,
    input logic                   s_wvalid,
    input logic                   s_bready,
    input logic                   m_awready,
    input logic                   m_wready,
    input logic [    IdWidth-1:0] m_bid,
    input logic [            1:0] m_bresp,
    input logic                   m_bvalid,
    input logic                   tag_aw,     // which address, data beat and response are followed: any one of each
    input logic                   tag_w,
    input logic                   tag_b
);
  localparam int unsigned DataBytes = DataWidth / 8;
  `AXI_TYPES(IdWidth, DataWidth)
  localparam int unsigned AwBits    = $bits(axi_address_t);
  localparam int unsigned WBits     = $bits(axi_write_data_t);
  localparam int unsigned BBits     = $bits(axi_response_t);
  localparam logic [1:0]  DecErr    = 2'b11;
  // The block's states.
  localparam logic [1:0]  Forward   = 2'd0;
  localparam logic [1:0]  Drain     = 2'd1;
  localparam logic [1:0]  Refuse    = 2'd2;

  // Bursts whose data may still have to come: those forwarded and those in the input stage.
  localparam int unsigned Places    = MaxOutstanding + 2;
  localparam int unsigned CountBits = $clog2(Places + 4);
  typedef logic [CountBits-1:0] count_t;

  `AXI_FORWARDED_FUNCTION

  function automatic logic forwarded_aw(input axi_address_t payload);
    return forwarded(payload.addr, payload.len, payload.size, payload.burst);
  endfunction

  logic            s_awready, s_wready, s_bvalid;
  logic            m_awvalid, m_wvalid, m_bready;
  axi_address_t    s_aw, m_aw;
  axi_write_data_t s_w, m_w;
  axi_response_t   s_b, m_b;

  assign s_aw = {s_awid, s_awaddr, s_awlen, s_awsize, s_awburst, s_awprot};
  assign s_w  = {s_wdata, s_wstrb, s_wlast};
  assign m_b  = {m_bid, m_bresp};

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
      `AXI_SLAVE_WRITES,
      `AXI_SLAVE_NO_READS
  );

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET

  logic s_aw_kept, s_w_kept, s_b_kept, m_aw_kept, m_w_kept, m_b_kept;
  stream_rule #(.Width(AwBits)) u_s_aw (.clk_i, .rst_ni, .valid_i(s_awvalid), .ready_i(s_awready), .payload_i(s_aw),
                                        .kept_o(s_aw_kept));
  stream_rule #(.Width(WBits)) u_s_w (.clk_i, .rst_ni, .valid_i(s_wvalid), .ready_i(s_wready), .payload_i(s_w),
                                      .kept_o(s_w_kept));
  stream_rule #(.Width(BBits)) u_s_b (.clk_i, .rst_ni, .valid_i(s_bvalid), .ready_i(s_bready), .payload_i(s_b),
                                      .kept_o(s_b_kept));
  stream_rule #(.Width(AwBits)) u_m_aw (.clk_i, .rst_ni, .valid_i(m_awvalid), .ready_i(m_awready), .payload_i(m_aw),
                                        .kept_o(m_aw_kept));
  stream_rule #(.Width(WBits)) u_m_w (.clk_i, .rst_ni, .valid_i(m_wvalid), .ready_i(m_wready), .payload_i(m_w),
                                      .kept_o(m_w_kept));
  stream_rule #(.Width(BBits)) u_m_b (.clk_i, .rst_ni, .valid_i(m_bvalid), .ready_i(m_bready), .payload_i(m_b),
                                      .kept_o(m_b_kept));

  // The host holds addresses and data until they are taken, the memory its responses.
  always_comb if (rst_ni) assume (s_aw_kept && s_w_kept && m_b_kept);

  logic s_aw_go, s_w_go, s_b_go, m_aw_go, m_w_go, m_b_go;
  assign s_aw_go = s_awvalid && s_awready;
  assign s_w_go  = s_wvalid && s_wready;
  assign s_b_go  = s_bvalid && s_bready;
  assign m_aw_go = m_awvalid && m_awready;
  assign m_w_go  = m_wvalid && m_wready;
  assign m_b_go  = m_bvalid && m_bready;

  // The memory answers a burst only after it has taken its address and its last beat.
  count_t owed_address_q, owed_data_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      owed_address_q <= '0;
      owed_data_q    <= '0;
    end else begin
      owed_address_q <= owed_address_q + count_t'(m_aw_go) - count_t'(m_b_go);
      owed_data_q    <= owed_data_q + count_t'(m_w_go && m_w.last) - count_t'(m_b_go);
    end
  end
  always_comb if (rst_ni) assume (!m_bvalid || (owed_address_q != '0 && owed_data_q != '0));

  // ---------------------------------------------------------------- what waits in the block's stages
  count_t in_aw, out_aw, in_w, out_b, in_legal;
  logic   legal0, legal1;
  assign in_aw    = count_t'(dut.u_aw_in.valid_q) + count_t'(dut.u_aw_in.spare_valid_q);
  assign out_aw   = count_t'(dut.u_aw_out.valid_q) + count_t'(dut.u_aw_out.spare_valid_q);
  assign in_w     = count_t'(dut.u_w.valid_q) + count_t'(dut.u_w.spare_valid_q);
  assign out_b    = count_t'(dut.u_b.valid_q) + count_t'(dut.u_b.spare_valid_q);
  assign legal0   = dut.u_aw_in.valid_q && forwarded_aw(dut.u_aw_in.data_q);
  assign legal1   = dut.u_aw_in.spare_valid_q && forwarded_aw(dut.u_aw_in.spare_q);
  assign in_legal = count_t'(legal0) + count_t'(legal1);

  // ---------------------------------------------------------------- counts of what came and went
  count_t total_q;    // bursts of the host without a response
  count_t legal_q;    // of those for memory, the ones whose address the memory has not taken
  count_t beats_q;    // data beats that came in and were neither forwarded nor dropped
  logic   s_aw_legal;
  assign s_aw_legal = forwarded(s_awaddr, s_awlen, s_awsize, s_awburst);

  // Which bursts are for memory, in order, from the one whose data beats come next.
  logic [Places-1:0] kind_q, kind_popped;
  count_t            kinds_q, kinds_popped;
  logic              burst_done;
  assign burst_done   = dut.w_pop && dut.u_w.data_q[0];
  assign kind_popped  = burst_done ? kind_q >> 1 : kind_q;
  assign kinds_popped = kinds_q - count_t'(burst_done);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      total_q <= '0;
      legal_q <= '0;
      beats_q <= '0;
      kinds_q <= '0;
      kind_q  <= '0;
    end else begin
      total_q <= total_q + count_t'(s_aw_go) - count_t'(s_b_go);
      legal_q <= legal_q + count_t'(s_aw_go && s_aw_legal) - count_t'(m_aw_go);
      beats_q <= beats_q + count_t'(s_w_go) - count_t'(dut.w_pop);
      kinds_q <= kinds_popped + count_t'(s_aw_go);
      kind_q  <= kind_popped;
      if (s_aw_go) kind_q[kinds_popped] <= s_aw_legal;
    end
  end

  // ---------------------------------------------------------------- what is followed
  logic              good_q, bad_q;  // an address for memory, one that is not
  count_t            good_ahead_q;   // addresses for memory before it
  count_t            bad_ahead_q;    // responses before its own
  axi_address_t good_aw_q, bad_aw_q;
  logic              beat_q;
  count_t            beat_ahead_q;   // beats before it
  logic [WBits-1:0]  beat_w_q;
  logic              answer_q;       // a response of the memory
  count_t            answer_ahead_q; // responses before it
  logic [BBits-1:0]  answer_b_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      good_q   <= 1'b0;
      bad_q    <= 1'b0;
      beat_q   <= 1'b0;
      answer_q <= 1'b0;
    end else begin
      if (good_q) begin
        if (m_aw_go) good_ahead_q <= good_ahead_q - 1'b1;
        if (m_aw_go && good_ahead_q == '0) good_q <= 1'b0;
      end else if (s_aw_go && tag_aw && s_aw_legal) begin
        good_q       <= 1'b1;
        good_ahead_q <= legal_q - count_t'(m_aw_go);
        good_aw_q    <= s_aw;
      end
      if (bad_q) begin
        if (s_b_go) bad_ahead_q <= bad_ahead_q - 1'b1;
        if (s_b_go && bad_ahead_q == '0) bad_q <= 1'b0;
      end else if (s_aw_go && tag_aw && !s_aw_legal) begin
        bad_q       <= 1'b1;
        bad_ahead_q <= total_q - count_t'(s_b_go);
        bad_aw_q    <= s_aw;
      end
      if (beat_q) begin
        if (dut.w_pop) beat_ahead_q <= beat_ahead_q - 1'b1;
        if (dut.w_pop && beat_ahead_q == '0) beat_q <= 1'b0;
      end else if (s_w_go && tag_w) begin
        beat_q       <= 1'b1;
        beat_ahead_q <= beats_q - count_t'(dut.w_pop);
        beat_w_q     <= s_w;
      end
      if (answer_q) begin
        if (s_b_go) answer_ahead_q <= answer_ahead_q - 1'b1;
        if (s_b_go && answer_ahead_q == '0) answer_q <= 1'b0;
      end else if (m_b_go && tag_b) begin
        answer_q       <= 1'b1;
        answer_ahead_q <= out_b - count_t'(s_b_go);
        answer_b_q     <= m_b;
      end
    end
  end

  // ---------------------------------------------------------------- who makes the block wait
  logic neighbour_waits, moves;
  assign neighbour_waits = (m_awvalid && !m_awready) || (m_wvalid && !m_wready) || (s_bvalid && !s_bready) ||
                           (owed_address_q != '0 && owed_data_q != '0 && !m_bvalid) ||  // the memory owes a response
                           (kinds_q != '0 && in_w == '0 && !s_wvalid);                  // the host owes data
  assign moves = s_w_go || s_b_go || m_aw_go || m_w_go || m_b_go || dut.aw_pop || dut.w_pop ||
                 dut.write_state_q != dut.write_state_d;

  // ---------------------------------------------------------------- proven
  // The order of bursts for memory and others, as the block has it: forwarded ones, then those in the input stage.
  logic kinds_right;
  always_comb begin
    kinds_right = 1'b1;
    for (int unsigned i = 0; i < Places; i++) begin
      if (count_t'(i) < count_t'(dut.data_count_q)) kinds_right &= kind_q[i];
      else if (count_t'(i) < kinds_q) begin
        kinds_right &= kind_q[i] == (count_t'(i) == count_t'(dut.data_count_q) && dut.write_state_q != Refuse ? legal0
                                                                                                      : legal1);
      end
    end
  end

  logic [BBits-1:0] refusal;
  assign refusal = {bad_aw_q.id, DecErr};

  always_comb begin
    if (rst_ni) begin
      AwStable        : assert (m_aw_kept);
      WStable         : assert (m_w_kept);
      BStable         : assert (s_b_kept);
      // Only what went in comes out, and everything inside is counted.
      BExpected       : assert (!s_bvalid || total_q != '0);
      AwExpected      : assert (!m_awvalid || (legal_q != '0 && forwarded_aw(m_aw)));
      WPassed         : assert (!m_wvalid || (kinds_q != '0 && kind_q[0]));
      WSwallowed      : assert (!(dut.w_pop && !m_w_go) || (kinds_q != '0 && !kind_q[0]));
      OutstandingMost : assert (owed_address_q <= count_t'(MaxOutstanding));
      // Elements that are followed.
      if (good_q) begin
        AwKept  : assert (good_ahead_q < legal_q);
        AwOrder : assert (!(m_awvalid && good_ahead_q == '0) || m_aw == good_aw_q);
      end
      if (bad_q) begin
        RefusalKept  : assert (bad_ahead_q < total_q);
        RefusalOrder : assert (!(s_bvalid && bad_ahead_q == '0) || s_b == refusal);
      end
      if (beat_q) begin
        WKept  : assert (beat_ahead_q < beats_q);
        WOrder : assert (!(m_wvalid && beat_ahead_q == '0) || m_w == beat_w_q);
      end
      if (answer_q) begin
        BKept  : assert (answer_ahead_q < total_q && s_bvalid);
        BOrder : assert (answer_ahead_q != '0 || s_b == answer_b_q);
      end
      // Room for two of each that comes in, whatever else stands still; a forwarded burst within two clocks.
      Progress   : assert (total_q == '0 || neighbour_waits || moves);
      TakesTwo   : assert (s_awready == (in_aw < count_t'(2)) && s_wready == (in_w < count_t'(2)));
      ForwardsAtOnce : assert (!(legal0 && out_aw < count_t'(2) && dut.write_count_q < MaxOutstanding) || dut.aw_pop);

`ifndef PROPERTIES_ONLY
      // What the induction needs: where everything is.
      StageAwIn   : assert (dut.u_aw_in.valid_q || !dut.u_aw_in.spare_valid_q);
      StageAwOut  : assert (dut.u_aw_out.valid_q || !dut.u_aw_out.spare_valid_q);
      StageW      : assert (dut.u_w.valid_q || !dut.u_w.spare_valid_q);
      StageB      : assert (dut.u_b.valid_q || !dut.u_b.spare_valid_q);
      StateKnown  : assert (dut.write_state_q <= Refuse);
      TotalIs     : assert (total_q == in_aw + count_t'(dut.write_count_q) + out_b);
      LegalIs     : assert (legal_q == out_aw + in_legal);
      BeatsAre    : assert (beats_q == in_w);
      OwedAddress : assert (count_t'(dut.write_count_q) == owed_address_q + out_aw);
      OwedData    : assert (count_t'(dut.write_count_q) == owed_data_q + count_t'(dut.data_count_q));
      CountMost   : assert (dut.write_count_q <= MaxOutstanding && dut.data_count_q <= dut.write_count_q);
      AwCounted   : assert (out_aw <= count_t'(dut.write_count_q));
      KindsAre    : assert (kinds_q + count_t'(dut.write_state_q == Refuse) == in_aw + count_t'(dut.data_count_q));
      AloneWhile  : assert (dut.write_state_q == Forward || (dut.write_count_q == '0 && in_aw != '0 && !legal0));
      OutLegal0   : assert (!dut.u_aw_out.valid_q || forwarded_aw(dut.u_aw_out.data_q));
      OutLegal1   : assert (!dut.u_aw_out.spare_valid_q || forwarded_aw(dut.u_aw_out.spare_q));
      KindsKnown  : assert (kinds_right);
      if (good_q) begin
        AwPlace : assert (good_ahead_q == '0 && out_aw > 0 ? dut.u_aw_out.data_q == good_aw_q :
                          good_ahead_q == 1 && out_aw > 1 ? dut.u_aw_out.spare_q == good_aw_q :
                          (legal0 && good_ahead_q == out_aw) ? dut.u_aw_in.data_q == good_aw_q :
                          dut.u_aw_in.spare_q == good_aw_q && good_ahead_q == out_aw + count_t'(legal0));
        AwLegal : assert (forwarded_aw(good_aw_q));
      end
      if (bad_q) begin
        RefusalPlace : assert (bad_ahead_q == '0 && out_b > 0 ? dut.u_b.data_q == refusal :
                               bad_ahead_q == 1 && out_b > 1 ? dut.u_b.spare_q == refusal :
                               bad_ahead_q == out_b + count_t'(dut.write_count_q) ? dut.u_aw_in.data_q == bad_aw_q :
                               bad_ahead_q == out_b + count_t'(dut.write_count_q) + 1'b1 &&
                               dut.u_aw_in.spare_q == bad_aw_q);
        RefusalBad   : assert (!forwarded_aw(bad_aw_q));
      end
      if (beat_q) begin
        WPlace : assert ((beat_ahead_q == '0 ? dut.u_w.data_q : dut.u_w.spare_q) == beat_w_q);
      end
      if (answer_q) begin
        BPlace : assert (answer_ahead_q < out_b &&
                         (answer_ahead_q == '0 ? dut.u_b.data_q : dut.u_b.spare_q) == answer_b_q);
      end
`endif

      AwLeaves      : cover (good_q && m_aw_go && good_ahead_q == '0);
      RefusalLeaves : cover (bad_q && s_b_go && bad_ahead_q == '0);
      AnswerLeaves  : cover (answer_q && s_b_go && answer_ahead_q == '0);
      BeatPasses    : cover (beat_q && m_w_go && beat_ahead_q == '0);
      BeatSwallowed : cover (beat_q && dut.w_pop && !m_w_go && beat_ahead_q == '0);
      MostForwarded : cover (owed_address_q == count_t'(MaxOutstanding));
    end
  end
endmodule
