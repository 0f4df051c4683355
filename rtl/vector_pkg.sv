// The vector engine's instruction set and what a checked command of the engine
// holds. docs/vector.md is the specification.
package vector_pkg;

  // ---- instructions -----------------------------------------------------------------
  typedef struct packed {
    logic [31:0] imm;
    logic [5:0]  c;
    logic [5:0]  b;
    logic [5:0]  a;
    logic [5:0]  dst;
    logic        one;
    logic [6:0]  opcode;
  } instruction_t;

  typedef enum logic [6:0] {
    VopAdd      = 7'h00,
    VopSub      = 7'h01,
    VopMul      = 7'h02,
    VopFma      = 7'h03,
    VopFnma     = 7'h04,
    VopFms      = 7'h05,
    VopScale    = 7'h06,
    VopMin      = 7'h08,
    VopMax      = 7'h09,
    VopCmpEq    = 7'h0A,
    VopCmpLt    = 7'h0B,
    VopCmpLe    = 7'h0C,
    VopCmpUn    = 7'h0D,
    VopSel      = 7'h10,
    VopClass    = 7'h11,
    VopGetMant  = 7'h12,
    VopGetExp   = 7'h13,
    VopF2i      = 7'h14,
    VopF2iz     = 7'h15,
    VopI2f      = 7'h16,
    VopF2h      = 7'h17,
    VopH2f      = 7'h18,
    VopF2b      = 7'h19,
    VopMov      = 7'h1A,
    VopSwap     = 7'h1B,
    VopIadd     = 7'h20,
    VopIsub     = 7'h21,
    VopAnd      = 7'h22,
    VopOr       = 7'h23,
    VopXor      = 7'h24,
    VopShl      = 7'h25,
    VopShr      = 7'h26,
    VopSar      = 7'h27,
    VopImin     = 7'h28,
    VopImax     = 7'h29,
    VopIcmpEq   = 7'h2A,
    VopIcmpLt   = 7'h2B,
    VopAset     = 7'h30,
    VopFoldAdd  = 7'h38,
    VopFoldMin  = 7'h39,
    VopFoldMax  = 7'h3A,
    VopFoldIadd = 7'h3B,
    VopFoldImin = 7'h3C,
    VopFoldImax = 7'h3D,
    VopChunks   = 7'h40,
    VopRepeat   = 7'h41,
    VopNext     = 7'h42,
    VopAdvance  = 7'h43,
    VopEnd      = 7'h44
  } vop_e;

  // Operand codes: the first of a kind, then its members.
  localparam logic [5:0] OperandVector  = 6'd0;   // v0..v15
  localparam logic [5:0] OperandScalar  = 6'd16;  // r0..r15
  localparam logic [5:0] OperandStream  = 6'd32;  // s0..s3
  localparam logic [5:0] OperandAcc     = 6'd36;  // a0..a3
  localparam logic [5:0] OperandRow0    = 6'd40;  // w0
  localparam logic [5:0] OperandRow1    = 6'd41;  // w1
  localparam logic [5:0] OperandOut     = 6'd42;  // o
  localparam logic [5:0] OperandImm     = 6'd48;
  localparam logic [5:0] OperandIota    = 6'd49;
  localparam logic [5:0] OperandRowNo   = 6'd50;
  localparam logic [5:0] OperandBatch0  = 6'd51;
  localparam logic [5:0] OperandBatch1  = 6'd52;
  localparam logic [5:0] OperandCols    = 6'd53;
  localparam logic [5:0] OperandRep     = 6'd54;
  localparam logic [5:0] OperandParam   = 6'd56;  // p0..p7

  localparam int unsigned Accumulators = 4;
  localparam int unsigned Partials     = 16;  // partial results of an accumulator, whatever the lanes
  localparam int unsigned Inputs       = 4;
  localparam int unsigned Streams      = Inputs + 1;
  localparam int unsigned Output       = Inputs;  // index of the output among the streams

  function automatic logic is_vector(input logic [5:0] code);
    is_vector = code < OperandScalar;
  endfunction

  function automatic logic is_scalar(input logic [5:0] code);
    is_scalar = code >= OperandScalar && code < OperandStream;
  endfunction

  function automatic logic is_stream(input logic [5:0] code);
    is_stream = code >= OperandStream && code < OperandAcc;
  endfunction

  function automatic logic is_acc(input logic [5:0] code);
    is_acc = code >= OperandAcc && code < OperandRow0;
  endfunction

  function automatic logic is_row(input logic [5:0] code);
    is_row = code == OperandRow0 || code == OperandRow1;
  endfunction

  // A source with one value for all elements.
  function automatic logic is_uniform(input logic [5:0] code);
    is_uniform = is_scalar(code) || code == OperandImm || (code >= OperandRowNo && code <= OperandRep)
                 || code >= OperandParam;
  endfunction

  // ---- commands -----------------------------------------------------------------------
  // A checked stream: byte strides are zero where there is nothing to step over.
  typedef struct packed {
    logic [31:0] addr;
    logic [31:0] row_stride;
    logic [31:0] batch0_stride;
    logic [31:0] batch1_stride;
    logic [31:0] seg_stride;
    logic [31:0] seg_bytes;     // of a segment
    logic [31:0] seg_len;       // elements of a segment
    logic [24:0] segs;
    logic [31:0] length;        // elements of a segment as programs see it: pack makes one of all
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
  } vector_command_t;

  // ADD_TENSOR's program is built in, behind this entry.
  localparam logic [31:0] BuiltinEntry = 32'h8000_0000;
endpackage
