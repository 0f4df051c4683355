// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Buffers the host's reads between the host window and the memory controller. An address is passed on only when there
// is room for all data of its burst and of the bursts before it, so the controller never waits for the host to take
// data.
// Reset and idle state: empty, no valid is high.
module host_read_buffer #(
    parameter int unsigned MaxBurst        = 256,   // beats of the longest burst, 1 to 256
    parameter int unsigned DataBeats       = 512,   // beats of all bursts under way, a power of two, at least MaxBurst
    parameter type         axi_address_t   = logic, // the two of AXI_TYPES that a read has
    parameter type         axi_read_data_t = logic  // read data
) (
    input  logic            clk_i,
    input  logic            rst_ni,
    // from the host window
    input  logic            arvalid_i,
    output logic            arready_o,
    input  axi_address_t    ar_i,
    output logic            rvalid_o,
    input  logic            rready_i,
    output axi_read_data_t  r_o,
    // to the memory controller
    output logic            arvalid_o,
    output axi_address_t    ar_o,
    input  logic            arready_i,
    input  logic            rvalid_i,  // always taken
    input  axi_read_data_t  r_i
);
  localparam int unsigned CountBits = $clog2(DataBeats) + 1;
  typedef logic [CountBits-1:0] count_t;

  count_t claimed_q;  // beats of bursts under way, not yet taken by the host
  logic room, queue_ready;

  assign room      = 32'(claimed_q) + 32'(ar_i.len) < DataBeats;
  assign arvalid_o = arvalid_i && room;
  assign arready_o = arready_i && room;
  assign ar_o      = ar_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) claimed_q <= '0;
    else
      claimed_q <= claimed_q + (arvalid_o && arready_i ? count_t'(ar_i.len) + count_t'(1) : '0)
                   - count_t'(rvalid_o && rready_i);
  end

  ram_queue #(
      .Width($bits(axi_read_data_t)),
      .Depth(DataBeats)
  ) u_r (
      .clk_i,
      .rst_ni,
      .valid_i(rvalid_i),
      .ready_o(queue_ready),
      .data_i (r_i),
      .valid_o(rvalid_o),
      .ready_i(rready_i),
      .data_o (r_o)
  );

  logic unused;
  assign unused = &{1'b0, queue_ready};

  if (DataBeats < MaxBurst) begin : g_bad_beats
    $fatal(1, "host_read_buffer: DataBeats must be at least MaxBurst: a burst waits until there is room for all of it");
  end

  `NPU_ASSERT_HANDSHAKE(ArHolds, arvalid_o, arready_i, ar_o,
                        "a read address changed or was withdrawn before it was taken")
  `NPU_ASSERT_KNOWN(DataKnown, rvalid_i)
  `NPU_ASSERT(RoomForData, !(rvalid_i && !queue_ready), "read data arrived without room for it")
  `NPU_ASSERT(ClaimHolds, 32'(claimed_q) <= DataBeats, "more data was requested than there is room for")
endmodule
