// Assertions of the modules' own rules, with a sentence that says which rule was broken. Synthesis sees none of them.
// They expect the names `clk_i` and `rst_ni` in scope.
`ifndef NPU_ASSERT_SVH
`define NPU_ASSERT_SVH

`ifdef SYNTHESIS

`define NPU_ASSERT(Name, Condition, Message)
`define NPU_ASSERT_STABLE(Name, Valid, Ready, Payload, Message)
`define NPU_CHECK(Name, Condition, Message)

`else

// Condition holds at every clock edge outside reset.
`define NPU_ASSERT(Name, Condition, Message) \
  Name : assert property (@(posedge clk_i) disable iff (!rst_ni) (Condition)) \
  else $error("%m: %s", Message);

// The same as a statement, for a place that is reached seldom: it costs nothing elsewhere.
`define NPU_CHECK(Name, Condition, Message) \
  Name : assert (Condition) \
  else $error("%m: %s", Message);

// Once Valid is high, it and the payload stay until Ready.
`define NPU_ASSERT_STABLE(Name, Valid, Ready, Payload, Message) \
  Name : assert property (@(posedge clk_i) disable iff (!rst_ni) \
                          ((Valid) && !(Ready)) |=> ((Valid) && $stable(Payload))) \
  else $error("%m: %s", Message);

`endif

`endif
