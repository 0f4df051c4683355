// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// Types of the performance counters: the events of one cycle, and the counts of all of them.
package npu_perf_pkg;

  // One cycle's events. Single bits count cycles or beats; `macs` is an increment.
  typedef struct packed {
    logic        busy;         // the device has work
    logic        matrix_busy;  // the matrix engine has work
    logic        vector_busy;  // the vector engine has work
    logic [15:0] macs;         // multiply-accumulates done in this cycle
    logic        read_beat;    // a read data beat arrived from the memory
    logic        write_beat;   // a write data beat left for the memory
    logic        stall_read;   // an engine waits for operand data
    logic        stall_write;  // an engine waits for room for its result
    logic        stall_bus;    // an address or write-data beat waits for the memory
    logic [1:0]  host_beats;   // data beats that passed the host window: one read, one written
    logic        command;      // a command retired
  } perf_events_t;

  typedef struct packed {
    logic [63:0] cycles;
    logic [63:0] busy_cycles;
    logic [63:0] matrix_busy;
    logic [63:0] vector_busy;
    logic [63:0] macs;
    logic [63:0] read_beats;
    logic [63:0] write_beats;
    logic [63:0] stall_read;
    logic [63:0] stall_write;
    logic [63:0] stall_bus;
    logic [63:0] host_beats;
    logic [63:0] commands;
  } perf_counts_t;

endpackage
