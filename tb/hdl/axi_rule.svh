// A rule of the AXI protocol as a statement for a place that is reached seldom: it costs nothing elsewhere. Its full name
// is Protocol, a parameter of the checker, then Prefix, which says whose rule it is, then Name. Side is who broke it.
`ifndef AXI_RULE_SVH
`define AXI_RULE_SVH

`define AXI_RULE(Prefix, Name, Side, Condition, Message) \
  Name : assert (Condition) \
  else $error("%s_%s%s: the %s: %s", Protocol, Prefix, `"Name`", Side, Message);

`endif
