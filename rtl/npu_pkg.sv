// Types and constants shared by the NPU: address map, command set, error
// codes, and the descriptors that engines hand to the memory controller.
package npu_pkg;

  // ---- address map (physical, byte addresses) --------------------------------
  // weight memory starts at 0
  localparam logic [31:0] WeightLast       = 32'h0FFF_FFFF;
  localparam logic [31:0] ActivationBase   = 32'h1000_0000;
  localparam logic [31:0] ActivationLast   = 32'h1FFF_FFFF;
  localparam logic [31:0] RegisterBase     = 32'h2000_0000;
  localparam logic [31:0] RegisterLast     = 32'h2000_FFFF;

  // ---- command packets -------------------------------------------------------
  localparam int unsigned PacketBits  = 512;

  // Byte offset / field, little-endian, 64 bytes. The first field is the last
  // member because a packed struct starts at its most significant bit.
  //   0 opcode | 4 flags | 8 src1 | 16 src2 | 24 dst | 32 M | 40 K | 48 N | 56 alpha | 60 reserved
  typedef struct packed {
    logic [31:0] reserved;
    logic [31:0] alpha;
    logic [63:0] n;
    logic [63:0] k;
    logic [63:0] m;
    logic [63:0] dst_addr;
    logic [63:0] src2_addr;
    logic [63:0] src1_addr;
    logic [31:0] flags;
    logic [31:0] opcode;
  } packet_t;

  // The extension packet: strides in bytes, 0 = dense (rows) or broadcast
  // (batches). Operand order inside an array: [0] src1, [1] src2, [2] dst.
  typedef struct packed {
    logic [31:0]      reserved;       // w15
    logic [31:0]      row_scales;     // w14, address
    logic [31:0]      columns;        // w13, address of the column vectors
    logic [2:0][31:0] batch1_stride;  // w10..w12
    logic [31:0]      batch1;         // w9, outer count
    logic [2:0][31:0] batch0_stride;  // w6..w8
    logic [31:0]      rows;           // w5
    logic [2:0][31:0] row_stride;     // w2..w4
    logic [31:0]      batch0;         // w1, inner count
    logic [31:0]      magic;          // w0
  } extension_t;

  localparam logic [31:0] ExtensionMagic = 32'h3154_5845;  // "EXT1"

  // A VECTOR command has three extension packets; docs/vector.md lists their words.
  localparam int unsigned VectorExtensions = 3;
  typedef logic [15:0][31:0] packet_words_t;
  localparam logic [31:0] VectorMagic1 = 32'h3158_4556;  // "VEX1"
  localparam logic [31:0] VectorMagic2 = 32'h3258_4556;  // "VEX2"
  localparam logic [31:0] VectorMagic3 = 32'h3358_4556;  // "VEX3"

  typedef enum logic [31:0] {
    OpNop         = 32'h00,
    OpMatmul      = 32'h01,
    OpAddTensor   = 32'h02,
    OpMemcpy      = 32'h03,
    OpVector      = 32'h04,
    OpGather      = 32'h05,
    OpLoadProgram = 32'h06,
    OpSync        = 32'hFF
  } opcode_e;

  localparam int unsigned FlagTransA   = 0;
  localparam int unsigned FlagTransB   = 1;
  localparam int unsigned FlagUseAlpha = 2;
  localparam int unsigned FlagType     = 4;   // two bits, matrix_type_e
  localparam int unsigned FlagOut      = 8;   // two bits, result_type_e
  localparam int unsigned FlagRowScale = 10;
  localparam int unsigned FlagColScale = 11;
  localparam int unsigned FlagBias     = 12;
  localparam int unsigned FlagRelu     = 13;
  localparam int unsigned FlagIrq      = 30;
  localparam int unsigned FlagExt      = 31;

  typedef enum logic [1:0] {
    StateIdle  = 2'd0,
    StateBusy  = 2'd1,
    StateDone  = 2'd2,
    StateError = 2'd3
  } state_e;

  typedef enum logic [7:0] {
    ErrNone           = 8'd0,
    ErrBadOpcode      = 8'd1,
    ErrBadFlags       = 8'd2,
    ErrBadDimension   = 8'd3,
    ErrMisaligned     = 8'd4,
    ErrOutOfRange     = 8'd5,
    ErrRegisterWindow = 8'd6,
    ErrOverlap        = 8'd7,
    ErrBadExtension   = 8'd8,
    ErrReadResponse   = 8'd9,
    ErrWriteResponse  = 8'd10,
    ErrQueueFull      = 8'd11,
    ErrRingConfig     = 8'd12,
    ErrRingIndex      = 8'd13,
    ErrBadProgram     = 8'd14,
    ErrBadIndex       = 8'd15
  } error_e;

  // Largest matrix dimension.
  localparam int unsigned DimBits = 25;
  typedef logic [DimBits-1:0] dim_t;
  localparam logic [63:0] MaxDim = 64'd1 << (DimBits - 1);

  // ---- data types of a matrix product ----------------------------------------
  typedef enum logic [1:0] {
    TypeFp32 = 2'd0,
    TypeBf16 = 2'd1,
    TypeFp16 = 2'd2,
    TypeInt8 = 2'd3
  } matrix_type_e;

  typedef enum logic [1:0] {
    OutFloat = 2'd0,  // float32
    OutOwn   = 2'd1,  // the operands' type
    OutInt32 = 2'd2
  } result_type_e;

  // log2 of an operand's element in bytes.
  function automatic logic [1:0] type_shift(input matrix_type_e kind);
    unique case (kind)
      TypeFp32: type_shift = 2'd2;
      TypeInt8: type_shift = 2'd0;
      default:  type_shift = 2'd1;
    endcase
  endfunction

  // ---- what an engine gets: a checked command --------------------------------
  // A matrix, repeated over two batch dimensions.
  typedef struct packed {
    logic [31:0] addr;
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
    matrix_type_e kind;           // of both operands
    result_type_e result;
    logic        use_alpha;
    logic        row_scale;
    logic        col_scale;
    logic        bias;
    logic        relu;
    logic [31:0] alpha;
    logic [31:0] row_scales;      // address: M float32
    logic [31:0] columns;         // address: N float32 of scales, then N of bias, those in use
  } matrix_command_t;

  // The bytes from the first to the last of each operand of a command: sources
  // first, the destination last.
  localparam int unsigned Operands = 5;
  localparam int unsigned OperandDst = Operands - 1;
  typedef struct packed {
    logic        used;
    logic [31:0] first;
    logic [31:0] last;
  } extent_t;

  localparam int unsigned Engines      = 2;
  localparam int unsigned EngineMatrix = 0;
  localparam int unsigned EngineVector = 1;
  // Whose a bus error is: an engine's oldest command, or the one that the
  // matrix engine fetches behind it.
  localparam int unsigned ErrorOwners    = 3;
  localparam int unsigned OwnerMatrixNext = 2;

  // ---- memory controller descriptors -----------------------------------------
  // A two-dimensional transfer: `rows` rows of `row_bytes` bytes, the start of a
  // row `stride` bytes after that of the row before, any byte alignment.
  typedef struct packed {
    logic [31:0] addr;
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
