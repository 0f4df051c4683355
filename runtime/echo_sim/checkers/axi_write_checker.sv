// Checks AXI4 write data and responses against the addresses: as many beats as the burst has, WLAST at the last one,
// strobes in the beat's lanes only, and one response for each burst of an ID, after its address and its last beat.
//
// AXI4 has no ID on write data: it comes in the order of the addresses, and may come before them.
`include "axi_rule.svh"

module axi_write_checker #(
    parameter string       Protocol    = "AXI4",
    parameter string       Manager     = "manager",      // names of both sides in messages
    parameter string       Subordinate = "subordinate",
    parameter int unsigned DataWidth   = 64,             // bits
    parameter int unsigned IdWidth     = 4,
    parameter int unsigned MaxWrites   = 16,             // bursts without a response
    parameter int unsigned MaxEarly    = 256,            // beats that may come before their address
    parameter int          DataMaxWait = -1,             // clocks without WVALID while data is owed; negative: no bound
    parameter bit          CheckLanes  = 1'b1            // 0: bursts may be ones that AXI4 forbids
) (
    input logic                   clk_i,
    input logic                   rst_ni,
    input logic                   aw_taken_i,
    input logic [    IdWidth-1:0] awid_i,
    input logic [           11:0] awaddr_i,    // within its 4 KiB
    input logic [            7:0] awlen_i,
    input logic [            2:0] awsize_i,
    input logic [            1:0] awburst_i,
    input logic                   wvalid_i,
    input logic                   w_taken_i,
    input logic [DataWidth/8-1:0] wstrb_i,
    input logic                   wlast_i,
    input logic                   b_first_i,   // a new response is offered
    input logic                   b_taken_i,
    input logic [    IdWidth-1:0] bid_i,
    input logic [            1:0] bresp_i
);
  localparam int unsigned Lanes      = DataWidth / 8;
  localparam int unsigned LaneBits   = Lanes > 1 ? $clog2(Lanes) : 1;
  localparam int unsigned PlaceBits  = $clog2(MaxWrites) + 1;
  localparam int unsigned EarlyBits  = $clog2(MaxEarly) + 1;
  localparam logic [2:0]  SizeMax    = 3'($clog2(Lanes));
  localparam logic [1:0]  BurstFixed = 2'b00;
  localparam logic [1:0]  BurstIncr  = 2'b01;
  localparam logic [1:0]  RespExOkay = 2'b01;

  typedef logic [PlaceBits-1:0] place_t;
  typedef logic [EarlyBits-1:0] early_t;
  typedef logic [15:0] count_t;

  typedef struct packed {
    logic [11:0] addr;
    logic [7:0]  len;
    logic [2:0]  size;
    logic [1:0]  burst;
  } burst_t;

  typedef struct packed {
    logic [Lanes-1:0] strb;
    logic             last;
  } beat_t;

  // Bursts whose data is incomplete, in order.
  burst_t             bursts[2**PlaceBits];
  logic [IdWidth-1:0] ids[2**PlaceBits];
  place_t             burst_start_q, burst_end_q;
  logic [7:0]         beat_q;  // next one of the oldest burst
  // Beats that came before their address.
  beat_t              early[2**EarlyBits];
  early_t             early_start_q, early_end_q;
  // For each ID: bursts whose address was taken, bursts that have all their data, bursts that are answered.
  count_t             asked_q[2**IdWidth], complete_q[2**IdWidth], answered_q[2**IdWidth];
  count_t             outstanding_q;
  int                 waited_q;    // clocks in a row without data that is owed

  // The lanes that one beat of a burst may write.
  function automatic logic [Lanes-1:0] lanes(input logic [11:0] addr, input logic [7:0] len, input logic [2:0] size,
                                             input logic [1:0] burst, input logic [7:0] beat);
    automatic logic [11:0] mask = (12'd1 << size) - 12'd1;
    automatic logic [11:0] span = ((12'(len) + 12'd1) << size) - 12'd1;
    automatic logic [11:0] first = addr;
    if (beat != 8'd0 && burst != BurstFixed) begin
      first = (addr & ~mask) + (12'(beat) << size);
      if (burst != BurstIncr) first = (addr & ~span) | (first & span);
    end
    lanes = ({Lanes{1'b1}} << LaneBits'(first)) & ({Lanes{1'b1}} >> ~LaneBits'(first | mask));
  endfunction

  // Checks one beat of a burst.
  task automatic check_beat(input burst_t burst, input logic [7:0] number, input beat_t beat);
    `AXI_RULE("ERRM_", WDATA_NUM, Manager, beat.last == (number == burst.len),
              "WLAST must be at the last beat of the burst, and at no other one")
    // A beat of the full width may write all lanes.
    if (CheckLanes && (burst.size != SizeMax || number == 8'd0 || burst.burst == BurstFixed)) begin
      `AXI_RULE("ERRM_", WSTRB, Manager, (beat.strb & ~lanes(burst.addr, burst.len, burst.size, burst.burst, number)) == '0,
                "a beat must only write the lanes that its address and size name")
    end
  endtask

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      burst_start_q <= '0;
      burst_end_q   <= '0;
      beat_q        <= '0;
      early_start_q <= '0;
      early_end_q   <= '0;
      asked_q       <= '{default: '0};
      complete_q    <= '{default: '0};
      answered_q    <= '{default: '0};
      outstanding_q <= '0;
      waited_q      <= 0;
    end else begin
      if (DataMaxWait >= 0) begin
        automatic bit owed = burst_end_q != burst_start_q && !wvalid_i;
        if (owed) begin
          `AXI_RULE("RECM_", W_MAX_WAIT, Manager, waited_q < DataMaxWait,
                    "the data of an address that was taken must not take longer than was promised")
        end
        waited_q <= owed ? waited_q + 1 : 0;
      end
      if (aw_taken_i) begin
        `AXI_RULE("AUX_", AW_OUTSTANDING, "port", outstanding_q < count_t'(MaxWrites),
                  "there are more writes without a response than was promised")
        bursts[burst_end_q] <= '{awaddr_i, awlen_i, awsize_i, awburst_i};
        ids[burst_end_q]    <= awid_i;
        burst_end_q         <= burst_end_q + place_t'(1);
        asked_q[awid_i]     <= asked_q[awid_i] + count_t'(1);
      end

      if (aw_taken_i || w_taken_i) begin
        automatic logic   pending = burst_end_q != burst_start_q;
        automatic logic   known = pending || aw_taken_i;
        automatic burst_t burst = pending ? bursts[burst_start_q] : '{awaddr_i, awlen_i, awsize_i, awburst_i};
        automatic beat_t  beat = '{wstrb_i, wlast_i};
        automatic logic [8:0] number = {1'b0, beat_q};  // beyond the length: the burst is complete
        automatic early_t start = early_start_q;
        while (known && start != early_end_q && number <= {1'b0, burst.len}) begin
          check_beat(burst, number[7:0], early[start]);
          start  = start + early_t'(1);
          number = number + 9'd1;
        end
        if (w_taken_i) begin
          if (known && number <= {1'b0, burst.len}) begin
            check_beat(burst, number[7:0], beat);
            number = number + 9'd1;
          end else begin
            `AXI_RULE("AUX_", W_EARLY, "port", int'(early_t'(early_end_q - start)) < int'(MaxEarly),
                      "there is more data before its address than was promised")
            early[early_end_q] <= beat;
            early_end_q        <= early_end_q + early_t'(1);
          end
        end
        early_start_q <= start;
        beat_q        <= number[7:0];
        if (known && number > {1'b0, burst.len}) begin
          automatic logic [IdWidth-1:0] id = pending ? ids[burst_start_q] : awid_i;
          beat_q         <= '0;
          burst_start_q  <= burst_start_q + place_t'(1);
          complete_q[id] <= complete_q[id] + count_t'(1);
        end
      end

      if (b_first_i) begin
        `AXI_RULE("ERRS_", BRESP_AW, Subordinate, asked_q[bid_i] != answered_q[bid_i],
                  "a response must answer a write of its ID whose address was taken, and each one once")
        `AXI_RULE("ERRS_", BRESP_WLAST, Subordinate,
                  asked_q[bid_i] == answered_q[bid_i] || complete_q[bid_i] != answered_q[bid_i],
                  "a response must come after the last beat of its write")
        `AXI_RULE("ERRS_", BRESP_EXOKAY, Subordinate, bresp_i != RespExOkay,
                  "EXOKAY answers exclusive accesses only, and there are none")
      end
      if (b_taken_i) answered_q[bid_i] <= answered_q[bid_i] + count_t'(1);
      if (aw_taken_i != b_taken_i) outstanding_q <= aw_taken_i ? outstanding_q + count_t'(1) : outstanding_q - count_t'(1);
    end
  end

  logic unused;
  assign unused = &{1'b0, wvalid_i, waited_q};
endmodule
