// SPDX-License-Identifier: Apache-2.0
// Assertions of the modules' own rules. Each has a sentence that names the broken rule. Synthesis leaves them out.
// They expect the names `clk_i` and `rst_ni` in scope.
`ifndef NPU_ASSERT_SVH
`define NPU_ASSERT_SVH

`ifdef SYNTHESIS

`define NPU_ASSERT(Name, Condition, Message)
`define NPU_ASSERT_NEXT(Name, Before, After, Message)
`define NPU_ASSERT_RESTS(Name, Awake, Registers, Message)
`define NPU_ASSERT_HANDSHAKE(Name, Valid, Ready, Payload, Message, Cancel = 1'b0)
`define NPU_ASSERT_KNOWN(Name, Signals)
`define NPU_CHECK(Name, Condition, Message)

`else

// While this is true no rule is checked. On a module's own testbench all inputs are random at time 0, also clock and
// reset.
`ifdef NPU_TESTBENCH
`define NPU_RESET !rst_ni || $time == 0
`define NPU_START $time == 0
`else
`define NPU_RESET !rst_ni
`define NPU_START 1'b0
`endif

// Rules are checked in clocked blocks, which read what registers hold before the edge: a simulator need not copy what
// properties would sample, and a rule of a resting clock costs nothing. The blocks are no code to be covered.

// Condition holds at every clock edge outside reset.
`define NPU_ASSERT(Name, Condition, Message) \
  /* verilator coverage_off */ \
  always @(posedge clk_i) begin : Name \
    if (!(`NPU_RESET)) assert (Condition) else $error("%m: %s", Message); \
  end \
  /* verilator coverage_on */

// After holds in the clock behind each one in which Before holds.
`define NPU_ASSERT_NEXT(Name, Before, After, Message) \
  /* verilator coverage_off */ \
  logic Name``_before_q; \
  always_ff @(posedge clk_i) begin : Name \
    if (!rst_ni) Name``_before_q <= 1'b0; \
    else begin \
      if (Name``_before_q && !(`NPU_START)) assert (After) else $error("%m: %s", Message); \
      Name``_before_q <= !(`NPU_START) && (Before); \
    end \
  end \
  /* verilator coverage_on */

// Registers keep their values at an edge that Awake does not precede. A unit with a gated clock has no such edge; on its
// own testbench, and in a device whose gates are open, the rule says that it may rest.
`define NPU_ASSERT_RESTS(Name, Awake, Registers, Message) \
  /* verilator coverage_off */ \
  logic Name``_rests_q; \
  logic [$bits({Registers})-1:0] Name``_kept_q; \
  always_ff @(posedge clk_i) begin : Name \
    if (!rst_ni) Name``_rests_q <= 1'b0; \
    else begin \
      if (Name``_rests_q && !(`NPU_START)) begin \
        assert ({Registers} === Name``_kept_q) else $error("%m: %s", Message); \
      end \
      Name``_rests_q <= !(`NPU_START) && !(Awake); \
      if (!(Awake)) Name``_kept_q <= {Registers}; \
    end \
  end \
  /* verilator coverage_on */

// A condition as a statement: it costs simulation time only where it is reached.
`define NPU_CHECK(Name, Condition, Message) \
  Name : assert ((`NPU_START) || (Condition)) \
  else $error("%m: %s", Message);

// Outside reset no bit is X or Z. A two-state simulator has neither. There, registers start with random bits, and the
// `power_up` faults compare two runs with different start values clock by clock.
`define NPU_ASSERT_KNOWN(Name, Signals) \
  /* verilator coverage_off */ \
  always @(posedge clk_i) begin : Name \
    if (!(`NPU_RESET)) assert (!$isunknown(Signals)) else $error("%m: a bit is unknown"); \
  end \
  /* verilator coverage_on */

// A handshake: Valid and Ready are known, and once Valid is high, Valid and Payload are stable until Ready. Cancel
// permits to withdraw an offer. The innermost module that drives Valid asserts the handshake.
`define NPU_ASSERT_HANDSHAKE(Name, Valid, Ready, Payload, Message, Cancel = 1'b0) \
  `NPU_ASSERT_KNOWN(Name``Known, ({Valid, Ready})) \
  /* verilator coverage_off */ \
  logic Name``_waits_q; \
  logic [$bits({Payload})-1:0] Name``_offer_q; \
  always_ff @(posedge clk_i) begin : Name \
    if (!rst_ni) Name``_waits_q <= 1'b0; \
    else begin \
      if (Name``_waits_q && !(`NPU_START)) begin \
        assert ((Cancel) || ((Valid) && {Payload} === Name``_offer_q)) else $error("%m: %s", Message); \
      end \
      Name``_waits_q <= !(`NPU_START) && (Valid) && !(Ready) && !(Cancel); \
      if ((Valid) && !(Ready) && !(Cancel)) Name``_offer_q <= {Payload}; \
    end \
  end \
  /* verilator coverage_on */

`endif

`endif
