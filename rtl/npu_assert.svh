// SPDX-License-Identifier: Apache-2.0
// Assertions of the modules' own rules. Each has a sentence that names the broken rule. Synthesis leaves them out.
// They expect the names `clk_i` and `rst_ni` in scope.
`ifndef NPU_ASSERT_SVH
`define NPU_ASSERT_SVH

`ifdef SYNTHESIS

`define NPU_ASSERT(Name, Condition, Message)
`define NPU_ASSERT_NEXT(Name, Before, After, Message)
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

// Condition holds at every clock edge outside reset.
`define NPU_ASSERT(Name, Condition, Message) \
  Name : assert property (@(posedge clk_i) disable iff (`NPU_RESET) (Condition)) \
  else $error("%m: %s", Message);

// After holds in the clock behind each one in which Before holds.
`define NPU_ASSERT_NEXT(Name, Before, After, Message) \
  Name : assert property (@(posedge clk_i) disable iff (`NPU_RESET) (Before) |=> (After)) \
  else $error("%m: %s", Message);

// A condition as a statement: it costs simulation time only where it is reached.
`define NPU_CHECK(Name, Condition, Message) \
  Name : assert ((`NPU_START) || (Condition)) \
  else $error("%m: %s", Message);

// Outside reset no bit is X or Z. A two-state simulator has neither. There, registers start with random bits, and the
// `power_up` faults compare two runs with different start values clock by clock.
`define NPU_ASSERT_KNOWN(Name, Signals) \
  Name : assert property (@(posedge clk_i) disable iff (`NPU_RESET) !$isunknown(Signals)) \
  else $error("%m: a bit is unknown");

// A handshake: Valid and Ready are known, and once Valid is high, Valid and Payload are stable until Ready. Cancel
// permits to withdraw an offer. The innermost module that drives Valid asserts the handshake.
`define NPU_ASSERT_HANDSHAKE(Name, Valid, Ready, Payload, Message, Cancel = 1'b0) \
  `NPU_ASSERT_KNOWN(Name``Known, ({Valid, Ready})) \
  Name : assert property (@(posedge clk_i) disable iff (`NPU_RESET) \
                          ((Valid) && !(Ready) && !(Cancel)) |=> ((Cancel) || ((Valid) && $stable(Payload)))) \
  else $error("%m: %s", Message);

`endif

`endif
