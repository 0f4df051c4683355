`include "axi_types.svh"

// host_read_buffer with the length of an address and the fields of read data as ports.
module host_read_buffer_tb #(
    parameter int unsigned DataWidth = 32,
    parameter int unsigned IdWidth   = 4,
    parameter int unsigned MaxBurst  = 8,
    parameter int unsigned DataBeats = 16
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 arvalid_i,
    output logic                 arready_o,
    input  logic [7:0]           arlen_i,
    output logic                 rvalid_o,
    input  logic                 rready_i,
    output logic [IdWidth-1:0]   rid_o,
    output logic [DataWidth-1:0] rdata_o,
    output logic [1:0]           rresp_o,
    output logic                 rlast_o,
    output logic                 arvalid_o,
    output logic [7:0]           arlen_o,
    input  logic                 arready_i,
    input  logic                 rvalid_i,
    input  logic [IdWidth-1:0]   rid_i,
    input  logic [DataWidth-1:0] rdata_i,
    input  logic [1:0]           rresp_i,
    input  logic                 rlast_i
);
  `AXI_TYPES(IdWidth, DataWidth)
  axi_address_t address;
  axi_read_data_t data;
  assign arlen_o                              = address.len;
  assign {rid_o, rdata_o, rresp_o, rlast_o} = data;

  host_read_buffer #(
      .MaxBurst       (MaxBurst),
      .DataBeats      (DataBeats),
      .axi_address_t  (axi_address_t),
      .axi_read_data_t(axi_read_data_t)
  ) dut (
      .ar_i('{len: arlen_i, default: '0}),
      .ar_o(address),
      .r_i ({rid_i, rdata_i, rresp_i, rlast_i}),
      .r_o (data),
      .*
  );
endmodule
