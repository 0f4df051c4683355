// host_write_buffer with a beat of data, its strobes and its last as one port.
module host_write_buffer_tb #(
    parameter int unsigned DataWidth      = 32,
    parameter int unsigned AddressWidth   = 16,
    parameter int unsigned IdWidth        = 4,
    parameter int unsigned MaxBurst       = 8,
    parameter int unsigned DataBeats      = 16,
    parameter int unsigned MaxOutstanding = 4
) (
    input  logic                             clk_i,
    input  logic                             rst_ni,
    input  logic                             awvalid_i,
    output logic                             awready_o,
    input  logic [AddressWidth-1:0]          aw_i,
    input  logic                             wvalid_i,
    output logic                             wready_o,
    input  logic [DataWidth+DataWidth/8:0] beat_i,  // data, strobes, last
    output logic                             bvalid_o,
    input  logic                             bready_i,
    output logic [IdWidth-1:0]               bid_o,
    output logic [1:0]                       bresp_o,
    output logic                             awvalid_o,
    input  logic                             awready_i,
    output logic [AddressWidth-1:0]          aw_o,
    output logic                             wvalid_o,
    input  logic                             wready_i,
    output logic [DataWidth+DataWidth/8:0] beat_o,
    input  logic                             bvalid_i,
    input  logic [IdWidth-1:0]               bid_i,
    input  logic [1:0]                       bresp_i
);
  logic [DataWidth-1:0] wdata_i, wdata_o;
  logic [DataWidth/8-1:0] wstrb_i, wstrb_o;
  logic wlast_i, wlast_o;
  assign {wdata_i, wstrb_i, wlast_i} = beat_i;
  assign beat_o = {wdata_o, wstrb_o, wlast_o};

  host_write_buffer #(
      .DataWidth     (DataWidth),
      .AddressWidth  (AddressWidth),
      .IdWidth       (IdWidth),
      .MaxBurst      (MaxBurst),
      .DataBeats     (DataBeats),
      .MaxOutstanding(MaxOutstanding)
  ) dut (
      .*
  );
endmodule
