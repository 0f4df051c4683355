`include "axi_types.svh"

// host_write_buffer with an address as one word; a beat of data, its strobes and its last as one port.
module host_write_buffer_tb #(
    parameter int unsigned DataWidth      = 32,
    parameter int unsigned AddressWidth   = 16,
    parameter int unsigned IdWidth        = 4,
    parameter int unsigned MaxBurst       = 8,
    parameter int unsigned DataBeats      = 16,
    parameter int unsigned MaxOutstanding = 4
) (
    input  logic                           clk_i,
    input  logic                           rst_ni,
    input  logic                           awvalid_i,
    output logic                           awready_o,
    input  logic [AddressWidth-1:0]        aw_i,
    input  logic                           wvalid_i,
    output logic                           wready_o,
    input  logic [DataWidth+DataWidth/8:0] beat_i,  // data, strobes, last
    output logic                           bvalid_o,
    input  logic                           bready_i,
    output logic [IdWidth-1:0]             bid_o,
    output logic [1:0]                     bresp_o,
    output logic                           awvalid_o,
    input  logic                           awready_i,
    output logic [AddressWidth-1:0]        aw_o,
    output logic                           wvalid_o,
    input  logic                           wready_i,
    output logic [DataWidth+DataWidth/8:0] beat_o,
    input  logic                           bvalid_i,
    input  logic [IdWidth-1:0]             bid_i,
    input  logic [1:0]                     bresp_i
);
  `AXI_TYPES(IdWidth, DataWidth)
  axi_response_t response;
  assign {bid_o, bresp_o} = response;

  host_write_buffer #(
      .MaxBurst        (MaxBurst),
      .DataBeats       (DataBeats),
      .MaxOutstanding  (MaxOutstanding),
      .axi_address_t   (logic [AddressWidth-1:0]),
      .axi_write_data_t(axi_write_data_t),
      .axi_response_t  (axi_response_t)
  ) dut (
      .w_i(beat_i),
      .w_o(beat_o),
      .b_i({bid_i, bresp_i}),
      .b_o(response),
      .*
  );
endmodule
