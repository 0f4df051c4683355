// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// Performance counters: twelve free-running 64-bit counts of the device's events.
//
// Reset and clear state: every count is 0. Idle state: only `cycles` moves. A clear wins over the events of its cycle.
module perf_counters
  import npu_perf_pkg::*;
(
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic         clear_i,
    input  perf_events_t events_i,
    output perf_counts_t counts_o
);

  perf_counts_t counts_q;
  assign counts_o = counts_q;

  // Each count has its own condition: an idle counter costs neither power nor simulation time.
  always_ff @(posedge clk_i) begin
    if (!rst_ni || clear_i) begin
      counts_q <= '0;
    end else begin
      counts_q.cycles <= counts_q.cycles + 64'd1;
      if (events_i.busy) counts_q.busy_cycles <= counts_q.busy_cycles + 64'd1;
      if (events_i.matrix_busy) counts_q.matrix_busy <= counts_q.matrix_busy + 64'd1;
      if (events_i.vector_busy) counts_q.vector_busy <= counts_q.vector_busy + 64'd1;
      if (events_i.macs != '0) counts_q.macs <= counts_q.macs + 64'(events_i.macs);
      if (events_i.read_beat) counts_q.read_beats <= counts_q.read_beats + 64'd1;
      if (events_i.write_beat) counts_q.write_beats <= counts_q.write_beats + 64'd1;
      if (events_i.stall_read) counts_q.stall_read <= counts_q.stall_read + 64'd1;
      if (events_i.stall_write) counts_q.stall_write <= counts_q.stall_write + 64'd1;
      if (events_i.stall_bus) counts_q.stall_bus <= counts_q.stall_bus + 64'd1;
      if (events_i.host_beats != '0) counts_q.host_beats <= counts_q.host_beats + 64'(events_i.host_beats);
      if (events_i.command) counts_q.commands <= counts_q.commands + 64'd1;
    end
  end

endmodule
