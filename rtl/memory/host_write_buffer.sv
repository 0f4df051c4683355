// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Buffers the host's writes between the host window and the memory controller. An address is passed on only when all
// data of its burst is in the buffer, and there is always room for the response. So once the controller has taken an
// address, it never waits for the host.
//
// Data may arrive before its address. The host window limits the bursts under way to MaxOutstanding; DataBeats bounds
// the data that waits.
// Reset and idle state: empty, no valid is high, every ready towards the window is.
module host_write_buffer #(
    parameter int unsigned MaxBurst         = 256,   // beats of the longest burst, 1 to 256
    parameter int unsigned DataBeats        = 512,   // beats that may wait, a power of two, at least MaxBurst
    parameter int unsigned MaxOutstanding   = 16,    // bursts without a response, a power of two from 2
    parameter type         axi_address_t    = logic, // the three of AXI_TYPES that a write has
    parameter type         axi_write_data_t = logic, // write data
    parameter type         axi_response_t   = logic  // write response
) (
    input  logic            clk_i,
    input  logic            rst_ni,
    // from the host window
    input  logic            awvalid_i,
    output logic            awready_o,
    input  axi_address_t    aw_i,
    input  logic            wvalid_i,
    output logic            wready_o,
    input  axi_write_data_t w_i,
    output logic            bvalid_o,
    input  logic            bready_i,
    output axi_response_t   b_o,
    // to the memory controller
    output logic            awvalid_o,
    input  logic            awready_i,
    output axi_address_t    aw_o,
    output logic            wvalid_o,  // always, while a beat of a burst whose address was taken is left
    input  logic            wready_i,
    output axi_write_data_t w_o,
    input  logic            bvalid_i,  // always taken
    input  axi_response_t   b_i
);
  localparam int unsigned CountBits = $clog2(MaxOutstanding) + 1;

  logic aw_full, aw_empty, b_full, b_empty;
  logic [CountBits-1:0] aw_count, b_count;
  // Bursts whose last beat is in the buffer and whose address has not been passed on. Data may arrive before its
  // address, so there may be more of these than addresses.
  logic [$clog2(DataBeats)+1:0] whole_q;

  assign awready_o = !aw_full;
  assign awvalid_o = !aw_empty && whole_q != '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) whole_q <= '0;
    else
      whole_q <= whole_q + ($clog2(DataBeats) + 2)'(wvalid_i && wready_o && w_i.last)
                 - ($clog2(DataBeats) + 2)'(awvalid_o && awready_i);
  end

  sync_fifo #(
      .Width($bits(axi_address_t)),
      .Depth(MaxOutstanding)
  ) u_aw (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .push_i (awvalid_i && awready_o),
      .data_i (aw_i),
      .pop_i  (awvalid_o && awready_i),
      .data_o (aw_o),
      .full_o (aw_full),
      .empty_o(aw_empty),
      .count_o(aw_count)
  );

  ram_queue #(
      .Width($bits(axi_write_data_t)),
      .Depth(DataBeats)
  ) u_w (
      .clk_i,
      .rst_ni,
      .valid_i(wvalid_i),
      .ready_o(wready_o),
      .data_i (w_i),
      .valid_o(wvalid_o),
      .ready_i(wready_i),
      .data_o (w_o)
  );

  sync_fifo #(
      .Width($bits(axi_response_t)),
      .Depth(MaxOutstanding)
  ) u_b (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .push_i (bvalid_i),
      .data_i (b_i),
      .pop_i  (bvalid_o && bready_i),
      .data_o (b_o),
      .full_o (b_full),
      .empty_o(b_empty),
      .count_o(b_count)
  );
  assign bvalid_o = !b_empty;

  logic unused;
  assign unused = &{1'b0, aw_count, b_count, b_full};

  if (DataBeats < MaxBurst) begin : g_bad_beats
    $fatal(1, "host_write_buffer: DataBeats must be at least MaxBurst: a burst waits for all of its data");
  end

  `NPU_ASSERT_HANDSHAKE(HostBHolds, bvalid_o, bready_i, b_o,
                        "a write response changed or was withdrawn before the window took it")
  `NPU_ASSERT_HANDSHAKE(AwHolds, awvalid_o, awready_i, aw_o,
                        "a write address changed or was withdrawn before it was taken")
  `NPU_ASSERT_KNOWN(AddressKnown, (awvalid_o ? aw_o : '0))
  `NPU_ASSERT_KNOWN(ResponseKnown, bvalid_i)
  `NPU_ASSERT(RoomForResponse, !(bvalid_i && b_full), "a write response arrived without room for it")
endmodule
