// The checker of one channel in the checker of a port. Name is the prefix of the channel's ports, Control and Data are its
// payload, and Excused is what axi_channel_checker says; Name_first is the checker's output. Protocol, Manager and
// Subordinate are those of the port.
`ifndef AXI_CHANNEL_SVH
`define AXI_CHANNEL_SVH

`define AXI_CHANNEL(Name, Title, ByManager, Wait, Control, Data, Excused) \
  axi_channel_checker #( \
      .Protocol    (Protocol), \
      .Channel     (Title), \
      .FromManager (ByManager), \
      .Manager     (Manager), \
      .Subordinate (Subordinate), \
      .ControlWidth($bits(Control)), \
      .DataWidth   ($bits(Data)), \
      .MaxWait     (Wait) \
  ) Name ( \
      .clk_i, \
      .rst_ni, \
      .valid_i  (Name``valid_i), \
      .ready_i  (Name``ready_i), \
      .control_i(Control), \
      .data_i   (Data), \
      .excused_i(Excused), \
      .first_o  (Name``_first) \
  );

`endif
