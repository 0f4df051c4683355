// A rule of the AXI protocol as a statement for a place that is reached seldom: it costs nothing elsewhere. Its full name
// is Protocol, a parameter of the checker, then Prefix, which says whose rule it is, then Name. Side is who broke it.
//
// The condition stands in front of the assertion: to evaluate one, Verilator first asks whether assertions are on.
`ifndef AXI_RULE_SVH
`define AXI_RULE_SVH

// A module alone on a bench has random inputs at time 0, clock and reset among them: no rule holds then.
`ifdef NPU_BENCH
`define AXI_RULE_TIME $time != 0
`else
`define AXI_RULE_TIME 1'b1
`endif

`define AXI_RULE(Prefix, Name, Side, Condition, Message) \
  if (!(Condition) && (`AXI_RULE_TIME)) begin \
    Name : assert (1'b0) \
    else $error("%s_%s%s: the %s: %s", Protocol, Prefix, `"Name`", Side, Message); \
  end

`endif
