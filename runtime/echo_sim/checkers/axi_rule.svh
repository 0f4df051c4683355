// A rule of the AXI protocol as a statement, for code that is seldom reached: it costs nothing elsewhere. Its full name
// is Protocol (a parameter of the checker), Prefix (whose rule it is) and Name. Side is the party that broke the rule.
//
// The condition is tested before the assertion, because Verilator tests at each assertion whether assertions are on.
`ifndef AXI_RULE_SVH
`define AXI_RULE_SVH

// A module alone on a testbench has random inputs at time 0, clock and reset among them: no rule holds then.
`ifdef NPU_TESTBENCH
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
