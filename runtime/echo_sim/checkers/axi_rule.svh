// A rule of the AXI protocol as a statement for a place that is reached seldom: it costs nothing elsewhere. Its full name
// is Protocol, a parameter of the checker, then Prefix, which says whose rule it is, then Name. Side is who broke it.
//
// The condition stands in front of the assertion: to evaluate one, Verilator first asks whether assertions are on.
`ifndef AXI_RULE_SVH
`define AXI_RULE_SVH

`define AXI_RULE(Prefix, Name, Side, Condition, Message) \
  if (!(Condition)) begin \
    Name : assert (1'b0) \
    else $error("%s_%s%s: the %s: %s", Protocol, Prefix, `"Name`", Side, Message); \
  end

`endif
