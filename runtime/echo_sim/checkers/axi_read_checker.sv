// Checks AXI4 read data against the addresses: an ID gets only data that it asked for, burst by burst in order, with as
// many beats as the burst has and RLAST at the last one.
`include "axi_rule.svh"

module axi_read_checker #(
    parameter string       Protocol    = "AXI4",
    parameter string       Subordinate = "subordinate",  // its name in messages
    parameter int unsigned IdWidth     = 4,
    parameter int unsigned MaxReads    = 16              // bursts of one ID that are not finished; a power of two
) (
    input logic               clk_i,
    input logic               rst_ni,
    input logic               ar_taken_i,
    input logic [IdWidth-1:0] arid_i,
    input logic [        7:0] arlen_i,
    input logic               r_first_i,   // new data is offered
    input logic               r_taken_i,
    input logic [IdWidth-1:0] rid_i,
    input logic [        1:0] rresp_i,
    input logic               rlast_i
);
  localparam int unsigned SlotBits   = $clog2(MaxReads);
  localparam logic [1:0]  RespExOkay = 2'b01;

  // A count of bursts; its low bits are a burst's slot among those of its ID.
  typedef logic [15:0] count_t;

  if (2 ** SlotBits != MaxReads || SlotBits == 0) begin : gen_bad_max_reads
    $fatal(1, "axi_read_checker: MaxReads must be a power of two from 2 on");
  end

  logic [7:0] lens[2**(IdWidth+SlotBits)];
  // For each ID: bursts whose address was taken, bursts that are finished, the next beat.
  count_t     asked_q[2**IdWidth], finished_q[2**IdWidth];
  logic [7:0] beat_q[2**IdWidth];
  count_t     outstanding_q;  // bursts of all IDs that are not finished

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      asked_q       <= '{default: '0};
      finished_q    <= '{default: '0};
      beat_q        <= '{default: '0};
      outstanding_q <= '0;
    end else begin
      if (ar_taken_i) begin
        automatic count_t asked = asked_q[arid_i];
        `AXI_RULE("AUX_", AR_OUTSTANDING, "port", asked - finished_q[arid_i] < count_t'(MaxReads),
                  "an ID has more unfinished reads than was promised")
        lens[{arid_i, asked[SlotBits-1:0]}] <= arlen_i;
        asked_q[arid_i]                     <= asked + count_t'(1);
      end
      if (r_first_i) begin
        automatic count_t finished = finished_q[rid_i];
        `AXI_RULE("ERRS_", RID, Subordinate, asked_q[rid_i] != finished,
                  "data must belong to a read of its ID whose address was taken")
        `AXI_RULE("ERRS_", RDATA_NUM, Subordinate,
                  asked_q[rid_i] == finished ||
                      rlast_i == (beat_q[rid_i] == lens[{rid_i, finished[SlotBits-1:0]}]),
                  "RLAST must be at the last beat of the burst, and at no other one")
        `AXI_RULE("ERRS_", RRESP_EXOKAY, Subordinate, rresp_i != RespExOkay,
                  "EXOKAY answers exclusive accesses only, and there are none")
      end
      if (r_taken_i) begin
        beat_q[rid_i] <= rlast_i ? '0 : beat_q[rid_i] + 8'd1;
        if (rlast_i) finished_q[rid_i] <= finished_q[rid_i] + count_t'(1);
      end
      outstanding_q <= outstanding_q + count_t'(ar_taken_i) - count_t'(r_taken_i && rlast_i);
    end
  end

  logic unused;
  assign unused = &{1'b0, outstanding_q};  // only who reads it from outside does
endmodule
