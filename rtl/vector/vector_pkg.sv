// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// The vector engine's instruction set (spec/contract.toml, docs/vector.md) and the types of a checked command.
package vector_pkg;

  `include "vector_contract.svh"

  // The stream that lists the rows of a command that scatters.
  localparam int unsigned Indices = Inputs - 1;

  localparam logic [5:0] OperandRow0 = OperandRow;
  localparam logic [5:0] OperandRow1 = OperandRow + 6'd1;

  // A source that has one value for all elements.
  function automatic logic is_uniform(input logic [5:0] code);
    is_uniform = is_scalar(code) || code == OperandImm || (code >= OperandRowNo && code <= OperandRep)
                 || is_param(code);
  endfunction

  // ---- commands -----------------------------------------------------------------------
  // A checked stream. Byte strides are zero where the count is 1. The output of a
  // command that scatters has as many rows as the table.
  typedef struct packed {
    npu_pkg::address_t addr;
    logic [31:0] row_stride;
    logic [31:0] batch0_stride;
    logic [31:0] batch1_stride;
    logic [31:0] seg_stride;
    logic [31:0] seg_bytes;     // of a segment
    logic [31:0] seg_len;       // elements of a segment
    logic [24:0] segs;
    logic [31:0] length;        // elements of a segment as programs see it: with pack, one segment holds all
    logic [24:0] segments;      // segments as programs see them
    logic [31:0] row_granules;  // the row in units of 16 elements, each segment rounded up
    logic [3:0]  passes;
    logic [1:0]  size;          // 0: 4 bytes, 1: 2, 2: 1
    logic        bcast;
    logic        enable;
  } stream_t;

  typedef enum logic [1:0] {
    KindProgram,  // VECTOR, ADD_TENSOR
    KindCopy,     // MEMCPY: stream 0 to the output, bytes; a segment is a row, and there is one row
    KindGather,   // stream 1 indexes segments of stream 0; cols is the number of rows in the table
    KindLoad      // stream 0 to program memory, from word `entry` on
  } kind_e;

  typedef struct packed {
    kind_e             kind;
    stream_t [Streams-1:0] streams;
    logic [24:0]       rows;
    logic [31:0]       cols;
    logic [24:0]       repeats;
    logic [15:0]       batch0;
    logic [15:0]       batch1;
    logic [31:0]       entry;
    logic [7:0][31:0]  params;
    logic [31:0]       table_rows;  // not zero: rows of the output go where the indices in the last input say
  } vector_command_t;
endpackage
