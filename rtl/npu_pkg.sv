// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// Types and constants shared by the NPU: the contract (spec/contract.toml), checked commands, and the descriptors that
// engines hand to the memory controller.
package npu_pkg;

  `include "npu_contract.svh"

  typedef logic [15:0][31:0] packet_words_t;

  // ---- the address map of this configuration -----------------------------------
  // A package has no parameters, so the build defines the sizes of memory.
`ifndef NPU_WEIGHT_MIB
`define NPU_WEIGHT_MIB 256
`endif
`ifndef NPU_ACTIVATION_MIB
`define NPU_ACTIVATION_MIB 256
`endif
  localparam int unsigned WeightMib     = `NPU_WEIGHT_MIB;      // a power of two from 256 to 8192
  localparam int unsigned ActivationMib = `NPU_ACTIVATION_MIB;  // likewise
  // What does not fit below the registers lies above 4 GiB.
  localparam bit LargeMemory = WeightMib > 256 || ActivationMib > 256;

  // A physical address inside the NPU and on m_axi.
  localparam int unsigned AddressBits = LargeMemory ? 35 : 32;
  typedef logic [AddressBits-1:0] address_t;

  localparam address_t WeightFirst     = LargeMemory ? address_t'(LargeWeightBase) : address_t'(WeightBase);
  localparam address_t ActivationFirst = LargeMemory ? address_t'(LargeActivationBase) : address_t'(ActivationBase);
  localparam address_t WeightEnd       = WeightFirst + address_t'(64'(WeightMib) << 20) - address_t'(1);
  localparam address_t ActivationEnd   = ActivationFirst + address_t'(64'(ActivationMib) << 20) - address_t'(1);

  // A matrix dimension, up to and including MaxDim.
  localparam int unsigned DimBits = $clog2(MaxDim + 64'd1);
  typedef logic [DimBits-1:0] dim_t;

  // log2 of the bytes of an operand's element.
  function automatic logic [1:0] type_shift(input matrix_type_e kind);
    unique case (kind)
      TypeFp32: type_shift = 2'd2;
      TypeInt8: type_shift = 2'd0;
      default:  type_shift = 2'd1;
    endcase
  endfunction

  // Type of a float32 product's operand that may be float16 in memory.
  function automatic matrix_type_e stored_type(input matrix_type_e kind, input logic half);
    stored_type = half ? TypeFp16 : kind;
  endfunction

  // ---- what an engine gets: a checked command --------------------------------
  // A matrix, repeated over two batch dimensions.
  typedef struct packed {
    address_t    addr;
    logic [31:0] row_stride;      // bytes
    logic [31:0] batch0_stride;   // bytes
    logic [31:0] batch1_stride;   // bytes
  } operand_t;

  typedef struct packed {
    operand_t    src1;
    operand_t    src2;
    operand_t    dst;
    logic [15:0] batch0;          // at least 1
    logic [15:0] batch1;          // at least 1
    dim_t        m;
    dim_t        k;
    dim_t        n;
    logic        trans_a;
    logic        trans_b;
    matrix_type_e kind;           // of both operands, or of src1 alone
    logic        src1_half;       // float16 beside float32
    logic        src2_half;
    blocks_e     blocks;          // format of src2 in packed blocks
    result_type_e result;
    logic        use_alpha;
    logic        row_scale;
    logic        col_scale;
    logic        bias;
    logic        relu;
    logic [31:0] alpha;
    address_t    row_scales;      // address: M float32
    address_t    columns;         // address: N float32 of scales if used, then N of bias if used
  } matrix_command_t;

  // ---- weights in blocks -------------------------------------------------------
  // A block of the left operand in block floating point.
  typedef struct packed {
    logic [20:0] sum;      // of its integers, signed
    logic [8:0]  power;    // of the unit of its integers, signed
    logic        zero;     // all values are zero
    logic        special;  // with an infinity or a NaN
  } block_info_t;

  // Whether a block takes two tiles of an array with so many rows of four int8.
  function automatic bit splits_blocks(input int unsigned tile);
    splits_blocks = 4 * tile < BlockValues;
  endfunction
  // Blocks of a tile that the array has the sums of at once, each at a tap of its own: one where a block takes two tiles.
  function automatic int unsigned block_taps(input int unsigned tile);
    block_taps = splits_blocks(tile) ? 1 : 2;
  endfunction

  // The range of bytes of each operand of a command: the sources first, of them
  // the two of a product before others, the destination last.
  localparam int unsigned Operands = 5;
  localparam int unsigned OperandLeft = 0;
  localparam int unsigned OperandRight = 1;
  localparam int unsigned OperandDst = Operands - 1;
  typedef struct packed {
    logic        used;
    address_t    first;
    address_t    last;
  } extent_t;

  localparam int unsigned Engines      = 2;
  localparam int unsigned EngineMatrix = 0;
  localparam int unsigned EngineVector = 1;
  // The owner of a bus error: an engine's oldest command, or the command that
  // the matrix engine prefetches behind it.
  localparam int unsigned ErrorOwners    = 3;
  localparam int unsigned OwnerMatrixNext = 2;

  // ---- memory controller descriptors -----------------------------------------
  // A two-dimensional transfer: `rows` rows of `row_bytes` bytes at any byte
  // alignment; each row starts `stride` bytes after the one before.
  typedef struct packed {
    address_t    addr;
    logic [31:0] row_bytes;
    logic [31:0] rows;
    logic [31:0] stride;
  } dma_desc_t;

  // Clients of the memory controller: the upper four bits of the AXI ID.
  localparam int unsigned ClientHost    = 0;
  // read channels (ID = channel + 1)
  localparam int unsigned NumReads      = 8;
  localparam int unsigned ReadCommand   = 0;
  localparam int unsigned ReadMatrixA   = 1;
  localparam int unsigned ReadMatrixB   = 2;
  localparam int unsigned ReadMatrixE   = 3;  // scales and bias, for the epilogue
  localparam int unsigned ReadVector    = 4;  // the first of four
  // write channels (ID = channel + 1)
  localparam int unsigned NumWrites     = 2;
  localparam int unsigned WriteMatrix   = 0;
  localparam int unsigned WriteVector   = 1;

endpackage
