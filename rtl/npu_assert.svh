// SPDX-License-Identifier: Apache-2.0
// Assertions of the modules' own rules, with a sentence that says which rule was broken. Synthesis sees none of them.
// They expect the names `clk_i` and `rst_ni` in scope.
`ifndef NPU_ASSERT_SVH
`define NPU_ASSERT_SVH

`ifdef SYNTHESIS

`define NPU_ASSERT(Name, Condition, Message)
`define NPU_ASSERT_HANDSHAKE(Name, Valid, Ready, Payload, Message, Cancel = 1'b0)
`define NPU_ASSERT_KNOWN(Name, Signals)
`define NPU_CHECK(Name, Condition, Message)

`else

// Where no rule holds. A module alone on a bench has random inputs at time 0, clock and reset among them.
`ifdef NPU_BENCH
`define NPU_RESET !rst_ni || $time == 0
`else
`define NPU_RESET !rst_ni
`endif

// Condition holds at every clock edge outside reset.
`define NPU_ASSERT(Name, Condition, Message) \
  Name : assert property (@(posedge clk_i) disable iff (`NPU_RESET) (Condition)) \
  else $error("%m: %s", Message);

// The same as a statement, for a place that is reached seldom: it costs nothing elsewhere.
`define NPU_CHECK(Name, Condition, Message) \
  Name : assert (Condition) \
  else $error("%m: %s", Message);

// Outside reset no bit is X or Z. A two-state simulator has neither: there, registers begin with random bits, and the
// `power_up` faults compare what comes of two such beginnings, clock by clock.
`define NPU_ASSERT_KNOWN(Name, Signals) \
  Name : assert property (@(posedge clk_i) disable iff (`NPU_RESET) !$isunknown(Signals)) \
  else $error("%m: a bit is unknown");

// A handshake: Valid and Ready are known, and once Valid is high, it and the payload stay until Ready. Only with Cancel
// may an offer be withdrawn. The module that drives Valid asserts the handshake; one whose port only leads to a port of a
// module inside leaves it to that one.
`define NPU_ASSERT_HANDSHAKE(Name, Valid, Ready, Payload, Message, Cancel = 1'b0) \
  `NPU_ASSERT_KNOWN(Name``Known, ({Valid, Ready})) \
  Name : assert property (@(posedge clk_i) disable iff (`NPU_RESET) \
                          ((Valid) && !(Ready) && !(Cancel)) |=> ((Cancel) || ((Valid) && $stable(Payload)))) \
  else $error("%m: %s", Message);

`endif

`endif
