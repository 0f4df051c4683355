// memory_controller, whose arbiters and m_axi registers rest, beside one in which they never do: host, channels and memory
// see no difference, whatever they do.
`include "formal.svh"
`include "axi_types.svh"
`include "memory_controller.svh"

module gated_memory_controller_formal
  import npu_pkg::*;
(
    input logic                 clk_i,
    input logic                 rst_ni,
    input logic [NumReads-1:0]  read_wish,   // what the channels want next
    input logic [NumWrites-1:0] write_wish,
    input logic [NumWrites-1:0] write_last,
    input logic [1:0]           address,
    input logic [2:0]           prot,
    input logic                 host_awvalid,
    input logic [3:0]           host_awid,
    input logic                 host_wvalid,
    input logic                 host_wlast,
    input logic [7:0]           host_wdata,
    input logic                 host_arvalid,
    input logic                 m_awready,
    input logic                 m_wready,
    input logic                 m_arready,
    input logic [7:0]           m_bid,
    input logic                 m_bvalid,
    input logic [7:0]           m_rid,
    input logic                 m_rvalid
);
  localparam int unsigned DataWidth = 16;
  localparam int unsigned Gated     = 0;
  localparam int unsigned Open      = 1;
  `AXI_TYPES(4, DataWidth)

  `MEMORY_CONTROLLER_CHANNELS

  `MEMORY_CONTROLLER_OUTPUTS
  outputs_t outputs [2];

  for (genvar i = 0; i < 2; i++) begin : g_block
    memory_controller #(
        .DataWidth       (DataWidth),
        .WritesAhead     (4),
        .axi_address_t   (axi_address_t),
        .axi_write_data_t(axi_write_data_t),
        .axi_response_t  (axi_response_t),
        .axi_read_data_t (axi_read_data_t)
    ) dut (
        .clk_i,
        .rst_ni,
        .test_enable_i(1'(i == Open)),
        `MEMORY_CONTROLLER_PORTS(outputs[i])
    );
  end

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET
  always_comb assume (clk_i);

  logic used_q;  // something was on its way to memory since reset
  always_ff @(posedge clk_i) used_q <= rst_ni && (used_q || g_block[Gated].dut.bus_busy);

  // ---------------------------------------------------------------- proven
  always_comb begin
    if (rst_ni) begin
      SameOutputs : assert (outputs[Gated] == outputs[Open]);
      Rests       : cover (used_q && !g_block[Gated].dut.bus_busy);
      WakesAgain  : cover (used_q && outputs[Gated].awvalid && outputs[Gated].arvalid && outputs[Gated].wvalid);
    end
  end
endmodule
