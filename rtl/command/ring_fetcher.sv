// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Prefetches command packets from the ring in device memory.
// The device owns the slots from the head up to the tail. The head moves on
// when a packet is taken. While hold_i is high, nothing is fetched and packets
// fetched before are dropped; they are read again afterwards.
// Reset and abort state: nothing fetched. An abort leaves head_o as it was;
// set_head_i sets it.
module ring_fetcher
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth = 256,  // bits of a memory beat: a packet is a whole number of beats
    parameter int unsigned Depth     = 8     // packets fetched ahead, a power of two
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,      // drop fetched packets; the channel drops those under way
    input  logic                 hold_i,       // drop fetched packets, and those under way when they arrive

    input  address_t             base_i,
    input  logic [15:0]          size_i,       // slots
    input  logic [15:0]          tail_i,       // first slot that does not belong to the device
    input  logic                 set_head_i,
    input  logic [15:0]          set_head_value_i,
    output logic [15:0]          head_o,

    output logic                 packet_valid_o,
    input  logic                 packet_take_i,
    output logic [PacketBits-1:0] packet_o,
    output logic                 failed_o,     // the next packet could not be read
    output address_t             failed_addr_o,
    output logic                 awake_o,      // the next edge of clk_i changes something, even without packet_take_i

    // memory controller
    output logic                 desc_valid_o,
    input  logic                 desc_ready_i,
    output dma_desc_t            desc_o,
    input  logic                 data_valid_i,
    output logic                 data_ready_o,
    input  logic [DataWidth-1:0] data_i,
    input  logic                 error_i,      // pulse, before the data that it belongs to
    input  address_t             error_addr_i
);
  localparam int unsigned Beats = PacketBits / DataWidth;
  localparam int unsigned CountBits = $clog2(Depth) + 1;

  logic [15:0] head_q, fetch_q;          // next slot to take, next slot to request
  logic [CountBits-1:0] flight_q;        // slots requested and not yet received
  logic [15:0] ready_slots, straight, room, slots;
  logic [CountBits-1:0] count;
  logic fifo_full, fifo_empty, arrives, push;
  logic [4:0] beat_q;
  logic [PacketBits-1:0] shift_q, packet;
  logic failed_q;
  logic stale_q, stale;  // the slots under way are to be dropped

  // A transfer covers all submitted slots that fit into the queue, but ends at the end of the ring.
  assign straight    = (tail_i >= fetch_q) ? tail_i - fetch_q : size_i - fetch_q;
  assign room        = 16'(Depth) - 16'(count);
  assign ready_slots = straight;
  assign slots       = (ready_slots < room) ? ready_slots : room;
  assign desc_valid_o = flight_q == '0 && slots != '0 && !failed_q && !abort_i && !hold_i && !set_head_i;
  assign desc_o = '{
          addr: base_i + address_t'({fetch_q, 6'd0}),
          row_bytes: {10'd0, slots, 6'd0},
          rows: 32'd1,
          stride: 32'd0
      };

  // The lowest beat of a packet comes first.
  assign packet = PacketBits'({data_i, shift_q} >> DataWidth);
  assign arrives = data_valid_i && beat_q == 5'(Beats - 1);
  assign stale   = hold_i || stale_q;
  assign push    = arrives && !failed_q && !stale;
  assign data_ready_o = 1'b1;

  always_ff @(posedge clk_i) begin
    if (data_valid_i) shift_q <= packet;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      flight_q <= '0;
      beat_q   <= '0;
      failed_q <= 1'b0;
      stale_q  <= 1'b0;
    end else begin
      if (desc_valid_o && desc_ready_i) flight_q <= CountBits'(slots);
      else if (arrives) flight_q <= flight_q - 1'b1;
      if (data_valid_i) beat_q <= (beat_q == 5'(Beats - 1)) ? '0 : beat_q + 5'd1;
      if (hold_i) failed_q <= 1'b0;
      else if (error_i && !stale) failed_q <= 1'b1;
      stale_q <= stale && flight_q > CountBits'(arrives);
    end
  end

  always_ff @(posedge clk_i) begin
    if (error_i && !failed_q) failed_addr_o <= error_addr_i;
  end

  function automatic logic [15:0] advance(input logic [15:0] slot, input logic [15:0] by, input logic [15:0] size);
    advance = slot + by;
    if (advance >= size) advance = '0;
  endfunction

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      head_q  <= '0;
      fetch_q <= '0;
    end else if (set_head_i) begin
      head_q  <= set_head_value_i;
      fetch_q <= set_head_value_i;
    end else begin
      if (packet_take_i) head_q <= advance(head_q, 16'd1, size_i);
      if (hold_i) fetch_q <= head_q;
      else if (desc_valid_o && desc_ready_i) fetch_q <= advance(fetch_q, slots, size_i);
    end
  end

  sync_fifo #(
      .Width(PacketBits),
      .Depth(Depth)
  ) u_packets (
      .clk_i,
      .rst_ni,
      .clear_i(abort_i || hold_i),
      .push_i (push),
      .data_i (packet),
      .pop_i  (packet_take_i),
      .data_o (packet_o),
      .full_o (fifo_full),
      .empty_o(fifo_empty),
      .count_o(count)
  );

  assign packet_valid_o = !fifo_empty && !hold_i;
  assign failed_o       = failed_q && fifo_empty && !hold_i;
  assign head_o         = head_q;
  // A packet that arrives comes with desc_valid_o or data_valid_i, and the one that is taken with packet_take_i.
  assign awake_o        = desc_valid_o || data_valid_i || hold_i || error_i || set_head_i;

  `NPU_ASSERT_RESTS(Rests, awake_o || packet_take_i || abort_i,
                    ({head_q, fetch_q, flight_q, beat_q, failed_q, stale_q, count, failed_addr_o}),
                    "the unit rests, but a register would change")

  logic unused;
  assign unused = &{1'b0, fifo_full};

  if (PacketBits % DataWidth != 0) begin : g_bad_width
    $fatal(1, "ring_fetcher: a packet must be a whole number of memory beats");
  end

  `NPU_ASSERT(TakeOffered, !packet_take_i || packet_valid_o, "a packet was taken that was not offered")
  `NPU_ASSERT(DataAskedFor, !data_valid_i || flight_q != '0 || abort_i, "a packet came that was not asked for")
  `NPU_ASSERT_HANDSHAKE(PacketHolds, packet_valid_o, packet_take_i, packet_o,
                        "a packet changed or was withdrawn before it was taken", abort_i || hold_i)
  // While the descriptor waits, its length may grow: only its address is stable.
  `NPU_ASSERT_HANDSHAKE(DescHolds, desc_valid_o, desc_ready_i, desc_o.addr,
                        "a descriptor changed or was withdrawn before it was taken", abort_i || hold_i || set_head_i)
endmodule
