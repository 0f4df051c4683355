// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Checks a command packet and its extensions, and turns them into an engine's
// command. Sizes are computed so wide that no packet makes them overflow.
//
// Order of the checks, the first error wins: sizes of streams; dimensions; program
// entry; alignment of the sources and dst; strides; range of the sources and
// dst; protected range; overlap. (Opcode, flags and the extensions' own fields are
// checked as the packets arrive, by head_error_o and extension_error_o.)
// Reset and abort state: idle.
module packet_checker
  import npu_pkg::*;
  import vector_pkg::*;
#(
    parameter int unsigned ProgramWords = 4096, // words of program memory, a power of two from 1024 to 65536
    parameter bit          Blocks       = 1'b1  // the matrix engine takes weights in blocks
) (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        abort_i,

    input  packet_t     packet_i,
    input  packet_words_t extension_i [VectorExtensions],  // all zero where there is none
    input  logic [31:0] program_words_i,   // loaded words of program memory
    input  address_t    guard_base_i,      // no command writes this range
    input  logic [31:0] guard_size_i,      // bytes; 0: there is none
    output error_e      head_error_o,      // of packet_i alone
    output error_e      extension_error_o, // of extension_i alone

    input  logic        start_i,           // pulse: check the rest
    output logic        done_o,            // pulse, with the results below
    output error_e      error_o,
    output logic [63:0] error_addr_o,
    input  logic        taken_i,           // pulse: the results are no longer needed
    // valid from done_o to taken_i
    output extent_t [Operands-1:0] extents_o,
    output logic                  turned_o,      // the first operand of a MATMUL is the right one of matrix_o
    output matrix_command_t matrix_o,
    output vector_command_t vector_o
);
  // Operand order; the sources of a program fill the places between.
  localparam int unsigned Src1 = OperandLeft, Src2 = OperandRight, Columns = 2, RowScales = 3, Dst = OperandDst;

  logic is_matmul, is_add, is_memcpy, is_vector_op, is_gather, is_load, trans_a, trans_b;
  assign is_matmul    = packet_i.opcode == OpMatmul;
  assign is_add       = packet_i.opcode == OpAddTensor;
  assign is_memcpy    = packet_i.opcode == OpMemcpy;
  assign is_vector_op = packet_i.opcode == OpVector;
  assign is_gather    = packet_i.opcode == OpGather;
  assign is_load      = packet_i.opcode == OpLoadProgram;
  assign trans_a      = packet_i.flags[FlagTransA];
  assign trans_b      = packet_i.flags[FlagTransB];

  // ---- types and epilogue of a MATMUL ----------------------------------------------------
  matrix_type_e kind;
  result_type_e result;
  blocks_e blocks;
  logic row_scale, col_scale, bias, relu, columns_used, half_b, result_bad, blocks_bad, half_bad;
  logic [1:0] left_shift, right_shift, result_shift;  // log2 of an element's bytes
  assign kind         = matrix_type_e'(packet_i.flags[FlagDtype+:2]);
  assign blocks       = blocks_e'(packet_i.flags[FlagBlocks+:2]);
  assign result       = result_type_e'(packet_i.flags[FlagOut+:2]);
  assign row_scale    = packet_i.flags[FlagRowScale];
  assign col_scale    = packet_i.flags[FlagColScale];
  assign bias         = packet_i.flags[FlagBias];
  assign relu         = packet_i.flags[FlagRelu];
  assign columns_used = col_scale || bias;
  assign half_b       = packet_i.flags[FlagHalfB];
  assign left_shift   = type_shift(kind);
  assign right_shift  = type_shift(stored_type(kind, half_b));
  assign result_shift = (result == OutOwn) ? left_shift : 2'd2;
  // Only a product of int8 has an int32 result, and no epilogue changes it.
  assign result_bad   = packet_i.flags[FlagOut+:2] == 2'd3
                        || (result == OutInt32 && (kind != TypeInt8 || packet_i.flags[FlagUseAlpha] || row_scale
                                                   || columns_used || relu));

  // Weights in blocks have a type and a layout of their own, beside float32 or float16.
  assign blocks_bad   = blocks != BlocksNone && (!Blocks || !(kind inside {TypeFp32, TypeFp16}) || trans_a || trans_b
                                                 || packet_i.flags[FlagOut+:2] != 2'd0);

  // Elements of float16 are the right operand of nothing but float32.
  assign half_bad     = half_b && (kind != TypeFp32 || blocks != BlocksNone);

  // Address bits that must be zero.
  function automatic logic [5:0] below(input logic [1:0] shift);
    below = {4'd0, shift == 2'd2, shift != 2'd0};
  endfunction

  // ---- stream descriptors of a VECTOR command ------------------------------------------
  descriptor_t [Operands-1:0] descriptors;
  vector_extension_t vector_extension;
  assign vector_extension = {extension_i[2], extension_i[1], extension_i[0]};
  assign descriptors      = {vector_extension.descriptors_high, vector_extension.descriptors_low};

  // ---- a VECTOR command that scatters ---------------------------------------------------
  logic scatters, scatter_bad;
  logic [31:0] table_rows;
  assign table_rows  = is_vector_op ? vector_extension.table_rows : '0;
  assign scatters    = table_rows != '0;
  assign scatter_bad = scatters
                       && (64'(table_rows) > MaxTable || !descriptors[Indices].enable || descriptors[Indices].size != 2'd0
                           || descriptors[Indices].passes != 4'd1 || descriptors[Indices].pack
                           || descriptors[Indices].bcast || descriptors[Indices].segs != 20'd1
                           || descriptors[Indices].seg_len > 32'd2 || descriptors[Dst].segs != 20'd1);

  // ---- fields that need no arithmetic --------------------------------------------------
  extension_t extension;
  assign extension = extension_t'(extension_i[0]);

  logic [Operands-1:0] descriptor_bad;
  for (genvar i = 0; i < Operands; i++) begin : g_descriptors
    logic words_bad;
    assign words_bad = descriptors[i].reserved != '0 || descriptors[i].segs == '0 || descriptors[i].seg_len == '0
                       || descriptors[i].size == 2'd3
                       || (descriptors[i].bcast && (descriptors[i].segs != 20'd1 || descriptors[i].seg_len != 32'd1
                                                    || descriptors[i].pack));
    if (i == Dst) begin : g_output
      assign descriptor_bad[i] = words_bad || descriptors[i].passes != '0 || descriptors[i].bcast
                                 || !descriptors[i].enable;
    end else begin : g_input
      assign descriptor_bad[i] = descriptors[i].enable && (words_bad || descriptors[i].passes == '0);
    end
  end

  always_comb begin
    head_error_o = ErrNone;
    if (!is_opcode(packet_i.opcode)) begin
      head_error_o = ErrBadOpcode;
    end else if ((packet_i.flags & ~legal_flags(packet_i.opcode)) != '0 || packet_i.reserved != '0
                 || (is_matmul && (result_bad || blocks_bad || half_bad))) begin
      head_error_o = ErrBadFlags;
    end else if ((is_vector_op || (is_matmul && (columns_used || row_scale))) && !packet_i.flags[FlagExt]) begin
      head_error_o = ErrBadExtension;
    end

    extension_error_o = ErrNone;
    if (is_vector_op) begin
      if (vector_extension.magic1 != VectorExtensionMagic1 || vector_extension.magic2 != VectorExtensionMagic2
          || vector_extension.magic3 != VectorExtensionMagic3 || vector_extension.batch0 > 32'(MaxBatch)
          || vector_extension.batch1 > 32'(MaxBatch) || scatter_bad || descriptor_bad != '0
          || (!LargeMemory && {vector_extension.s2_addr_high, vector_extension.s3_addr_high} != '0)) begin
        extension_error_o = ErrBadExtension;
      end
    end else if (extension.magic != ExtensionMagic
                 || (extension.row_scales_high != '0 && !(LargeMemory && is_matmul && row_scale))
                 || (extension.column_vectors != '0 && !(is_matmul && columns_used))
                 || (extension.row_scales != '0 && !(is_matmul && row_scale))
                 || extension.batch0 > 32'(MaxBatch) || extension.batch1 > 32'(MaxBatch)
                 || extension.rows > 32'(MaxDim)
                 || (is_matmul && extension.rows != '0 && !(LargeMemory && columns_used))
                 || (is_memcpy && (extension.row_stride[1] != '0 || extension.batch0_stride[1] != '0
                                   || extension.batch1_stride[1] != '0))) begin
      extension_error_o = ErrBadExtension;
    end
  end

  // How many tiles of 2^bits cover a dimension.
  function automatic logic [31:0] tiles(input logic [31:0] size, input int unsigned bits);
    tiles = (size + (32'd1 << bits) - 32'd1) >> bits;
  endfunction

  // ---- operands, once the dimensions are known to be good -------------------------------
  // An operand consists of segments of seg_bytes, repeated over rows and batches.
  // Index of count and stride: [0] segments, [1] rows, [2] batch0, [3] batch1.
  typedef struct packed {
    logic            used;
    logic [63:0]     addr;
    logic [5:0]      unaligned;  // address or stride bits that must be zero
    logic [35:0]     seg_bytes;
    logic [3:0][31:0] count;
    logic [3:0][31:0] stride;
  } shape_t;

  logic [31:0] count_q;  // elements or bytes of a linear command's row
  logic [15:0] batch0, batch1;
  logic [31:0] repeats;
  shape_t [Operands-1:0] shapes;
  logic [31:0] batch0_word, batch1_word;

  assign batch0_word = is_vector_op ? vector_extension.batch0 : extension.batch0;
  assign batch1_word = is_vector_op ? vector_extension.batch1 : extension.batch1;
  assign batch0      = (batch0_word == '0) ? 16'd1 : batch0_word[15:0];
  assign batch1      = (batch1_word == '0) ? 16'd1 : batch1_word[15:0];
  assign repeats     = (packet_i.k == '0) ? 32'd1 : packet_i.k[31:0];

  logic counted;  // its size is a product of dimensions
  assign counted = is_add || is_memcpy;

  typedef enum logic [3:0] {
    CheckIdle,
    CheckSize,     // one stream a clock
    CheckDims,     // with CheckPlace's checks where no sizes are multiplied
    CheckCount1,
    CheckCount2,
    CheckPlace,    // alignment and strides
    CheckRange,    // one operand a clock
    CheckOverlap,
    CheckDone
  } check_e;

  check_e state_q;

  always_comb begin
    shapes = '0;
    if (state_q != CheckIdle) begin
      for (int unsigned i = 0; i < Operands; i++) begin
        shapes[i].count  = {32'(batch1), 32'(batch0), 32'd1, 32'd1};
        shapes[i].stride = '0;
      end
      shapes[0].addr   = packet_i.src1_addr;
      shapes[1].addr   = packet_i.src2_addr;
      shapes[2].addr   = {vector_extension.s2_addr_high, vector_extension.s2_addr};
      shapes[3].addr   = {vector_extension.s3_addr_high, vector_extension.s3_addr};
      shapes[Dst].addr = packet_i.dst_addr;
      shapes[0].used   = 1'b1;
      shapes[1].used   = !is_memcpy && !is_load;
      shapes[Dst].used = !is_load;
      if (is_vector_op) begin
        for (int unsigned i = 0; i < Operands; i++) begin
          shapes[i].used      = descriptors[i].enable;
          shapes[i].seg_bytes = {4'd0, descriptors[i].seg_len} << (2'd2 - descriptors[i].size);
          shapes[i].unaligned = {4'd0, descriptors[i].size == 2'd0, descriptors[i].size != 2'd2};
          shapes[i].count[0]  = 32'(descriptors[i].segs);
          shapes[i].count[1]  = packet_i.m[31:0];
          shapes[i].stride    = {descriptors[i].batch1_stride, descriptors[i].batch0_stride,
                                 descriptors[i].row_stride, descriptors[i].seg_stride};
        end
        // Any row of the table may be written.
        if (scatters) shapes[Dst].count[1] = table_rows;
      end else if (is_matmul || is_memcpy) begin
        for (int unsigned i = 0; i < 3; i++) begin
          shapes[(i == 2) ? Dst : i].stride = {extension.batch1_stride[i], extension.batch0_stride[i], 32'd0,
                                               extension.row_stride[i]};
        end
        if (is_matmul) begin
          shapes[Src1].count[0]  = 32'(trans_a ? packet_i.k : packet_i.m);
          shapes[Src1].seg_bytes = 36'(trans_a ? packet_i.m : packet_i.k) << left_shift;
          shapes[Src1].unaligned = below(left_shift);
          shapes[Src2].count[0]  = 32'(trans_b ? packet_i.n : packet_i.k);
          shapes[Src2].seg_bytes = 36'(trans_b ? packet_i.k : packet_i.n) << right_shift;
          shapes[Src2].unaligned = below(right_shift);
          if (blocks != BlocksNone) begin
            shapes[Src2].count[0]  = tiles(packet_i.n[31:0], $clog2(TileColumns));
            shapes[Src2].seg_bytes = 36'(tiles(packet_i.k[31:0], $clog2(TileDepth))) * 36'(tile_bytes(blocks));
            shapes[Src2].unaligned = '1;
          end
          shapes[Dst].count[0]   = 32'(packet_i.m);
          shapes[Dst].seg_bytes  = 36'(packet_i.n) << result_shift;
          shapes[Dst].unaligned  = below(result_shift);
          // The epilogue's vectors are the same for all batches.
          for (int unsigned i = Columns; i <= RowScales; i++) begin
            shapes[i].count     = {32'd1, 32'd1, 32'd1, 32'd1};
            shapes[i].unaligned = 6'd3;
          end
          shapes[Columns].used        = columns_used;
          shapes[Columns].addr        = {extension.rows, extension.column_vectors};
          shapes[Columns].seg_bytes   = 36'(packet_i.n) << ((col_scale && bias) ? 3 : 2);
          shapes[RowScales].used      = row_scale;
          shapes[RowScales].addr      = {extension.row_scales_high, extension.row_scales};
          shapes[RowScales].seg_bytes = 36'(packet_i.m) << 2;
        end else begin
          for (int unsigned i = 0; i < Operands; i++) begin
            shapes[i].count[0]  = (extension.rows == '0) ? 32'd1 : extension.rows;
            shapes[i].seg_bytes = 36'(count_q);
          end
        end
        // A dense row may be longer than a stride of 32 bits; such a row is out
        // of range, so the truncated stride has no effect.
        for (int unsigned i = 0; i < Operands; i++) begin
          if (shapes[i].stride[0] == '0) shapes[i].stride[0] = shapes[i].seg_bytes[31:0];
        end
      end else if (is_add) begin
        for (int unsigned i = 0; i < Operands; i++) begin
          shapes[i].seg_bytes = {2'd0, count_q, 2'b00};
          shapes[i].unaligned = 6'd3;
        end
      end else if (is_gather) begin
        shapes[Src1].count[0]  = packet_i.k[31:0];
        shapes[Src1].seg_bytes = 36'(packet_i.n);
        shapes[Src1].stride[0] = packet_i.n[31:0];
        shapes[Src2].seg_bytes = 36'(packet_i.m) << 2;
        shapes[Src2].unaligned = 6'd3;
        shapes[Dst].count[0]   = packet_i.m[31:0];
        shapes[Dst].seg_bytes  = 36'(packet_i.n);
        shapes[Dst].stride[0]  = packet_i.n[31:0];
      end else begin
        shapes[Src1].seg_bytes = 36'(packet_i.m) << 3;
        shapes[Src1].unaligned = 6'd7;
      end
      if (!is_vector_op && !is_matmul) begin
        shapes[2].used = 1'b0;
        shapes[3].used = 1'b0;
      end
    end
  end

  // Alignment and strides of all operands. A VECTOR command may have any stride
  // where the count is 1; the other commands may not.
  logic [Operands-1:0] misaligned;
  logic stride_bad;
  always_comb begin
    misaligned = '0;
    stride_bad = 1'b0;
    if (state_q == CheckDims || state_q == CheckPlace) begin
      for (int unsigned i = 0; i < Operands; i++) begin
        misaligned[i] = shapes[i].used && (shapes[i].addr[5:0] & shapes[i].unaligned) != '0;
        for (int unsigned t = 0; t < 4; t++) begin
          if (shapes[i].used && (!is_vector_op || shapes[i].count[t] > 32'd1)
              && (shapes[i].stride[t][5:0] & shapes[i].unaligned) != '0) begin
            // Only a VECTOR and a MATMUL command have strides of their own and aligned elements.
            stride_bad |= is_vector_op || is_matmul;
          end
          if (i == Dst && shapes[i].used && shapes[i].count[t] > 32'd1 && shapes[i].stride[t] == '0) stride_bad = 1'b1;
        end
        // Rows of a matrix, and segments of a destination, do not overlap.
        if (is_matmul && shapes[i].used && 36'(shapes[i].stride[0]) < shapes[i].seg_bytes) stride_bad = 1'b1;
        if (i == Dst && shapes[i].used && shapes[i].count[0] > 32'd1
            && 36'(shapes[i].stride[0]) < shapes[i].seg_bytes) stride_bad = 1'b1;
      end
      // Nor do rows of a table.
      if (scatters && table_rows != 32'd1 && 36'(shapes[Dst].stride[1]) < shapes[Dst].seg_bytes) stride_bad = 1'b1;
    end
  end

  // ---- the sequence ------------------------------------------------------------------------
  logic [2:0] operand_q;
  logic [Operands-1:0][31:0] length_q, row_granules_q;
  extent_t [Operands-1:0] extents_q;

  // The operand in hand: first its sizes are computed, then its extent.
  shape_t current;
  descriptor_t current_stream;
  logic [63:0] length, granules, stream_bytes, extent, last_addr, products;
  always_comb begin
    current        = shapes[operand_q];
    current_stream = descriptors[operand_q];
    length   = '0;
    granules = '0;
    extent   = '0;
    products = '0;
    stream_bytes = '0;
    if (state_q == CheckSize) begin
      length       = 64'(current_stream.segs) * 64'(current_stream.seg_len);
      stream_bytes = length << (2'd2 - current_stream.size);
      granules     = 64'(current_stream.segs) * ((64'(current_stream.seg_len) + 64'(Partials - 1)) >> $clog2(Partials));
      if (current_stream.pack) granules = (length + 64'(Partials - 1)) >> $clog2(Partials);
    end
    if (state_q == CheckRange) begin
      for (int unsigned t = 0; t < 4; t++)
        products += 64'(current.count[t] - 32'd1) * 64'(current.stride[t]);
      extent = products + 64'(current.seg_bytes);
    end
    last_addr = current.addr + extent - 64'd1;
  end

  logic in_registers, in_weight, in_activation;
  assign in_registers  = current.addr >= 64'(RegistersBase) && current.addr <= 64'(RegistersLast);
  // Whoever transfers a row counts its bytes in 32 bits. No longer row fits a small region.
  logic row_fits;
  assign row_fits      = !LargeMemory || current.seg_bytes[35:32] == '0;
  // verilator lint_off UNSIGNED
  // A small weight memory begins at address 0.
  assign in_weight     = current.addr >= 64'(WeightFirst) && current.addr <= 64'(WeightEnd)
                         && last_addr <= 64'(WeightEnd) && row_fits;
  // verilator lint_on UNSIGNED
  assign in_activation = current.addr >= 64'(ActivationFirst) && current.addr <= 64'(ActivationEnd)
                         && last_addr <= 64'(ActivationEnd) && row_fits;

  function automatic logic dim_bad(input logic [63:0] dim);
    dim_bad = dim == '0 || dim > MaxDim;
  endfunction

  logic dims_bad;
  always_comb begin
    if (is_matmul) dims_bad = dim_bad(packet_i.m) || dim_bad(packet_i.k) || dim_bad(packet_i.n)
                             || (blocks != BlocksNone && packet_i.k[$clog2(BlockValues)-1:0] != '0);
    else if (is_vector_op)
      dims_bad = dim_bad(packet_i.m) || packet_i.k > MaxDim || packet_i.n == '0 || packet_i.n > MaxCount;
    else if (is_gather)
      dims_bad = dim_bad(packet_i.m) || packet_i.k == '0 || packet_i.k > MaxTable || packet_i.n == '0
                 || packet_i.n > MaxTable;
    else if (is_load)
      dims_bad = packet_i.m == '0 || packet_i.m > 64'(ProgramWords) || packet_i.k > 64'(ProgramWords)
                 || packet_i.k + packet_i.m > 64'(ProgramWords);
    else
      dims_bad = packet_i.m == '0 || packet_i.m > MaxCount || packet_i.k > MaxCount || packet_i.n > MaxCount;
  end

  // A destination may overlap a source exactly: the same elements in the same order.
  logic [Operands-1:0] in_place;
  logic overlap;
  always_comb begin
    in_place = '0;
    overlap  = 1'b0;
    if (state_q == CheckOverlap) begin
      for (int unsigned i = 0; i < Dst; i++) begin
        if (is_add) in_place[i] = shapes[i].addr == shapes[Dst].addr;
        if (is_vector_op)
          in_place[i] = !scatters && shapes[i].addr == shapes[Dst].addr && batch0 == 16'd1 && batch1 == 16'd1
                        && descriptors[i].segs == 20'd1 && descriptors[Dst].segs == 20'd1
                        && descriptors[i].seg_len == descriptors[Dst].seg_len
                        && descriptors[i].size == descriptors[Dst].size && descriptors[i].passes == 4'd1
                        && (packet_i.m[31:0] == 32'd1
                            || (descriptors[i].row_stride == descriptors[Dst].row_stride
                                && 36'(descriptors[Dst].row_stride) >= shapes[Dst].seg_bytes));
        if (extents_q[i].used && extents_q[Dst].used && !in_place[i] && extents_q[i].first <= extents_q[Dst].last
            && extents_q[Dst].first <= extents_q[i].last) overlap = 1'b1;
      end
    end
  end

  logic [AddressBits:0] guard_end;
  logic guarded;
  assign guard_end = (AddressBits + 1)'(guard_base_i) + (AddressBits + 1)'(guard_size_i);
  assign guarded   = extents_q[Dst].used && (AddressBits + 1)'(extents_q[Dst].first) < guard_end
                     && extents_q[Dst].last >= guard_base_i && guard_size_i != '0;

  // The current clock's error; with ErrNone the checks go on.
  error_e fault;
  logic [63:0] fault_addr, product;
  always_comb begin
    product = 64'(packet_i.m[31:0]) * 64'(repeats);
    if (state_q == CheckCount2) product = 64'(count_q) * ((packet_i.n == '0) ? 64'd1 : 64'(packet_i.n[31:0]));
  end

  always_comb begin
    fault      = ErrNone;
    fault_addr = '0;
    unique case (state_q)
      CheckSize: if (current_stream.enable && stream_bytes[63:32] != '0) fault = ErrBadExtension;
      CheckDims, CheckPlace: begin
        if (state_q == CheckDims && dims_bad) begin
          fault = ErrBadDimension;
        end else if (state_q == CheckDims && is_vector_op && vector_extension.entry >= program_words_i) begin
          fault      = ErrBadProgram;
          fault_addr = 64'(vector_extension.entry);
        end else if (state_q == CheckPlace || !counted) begin
          if (misaligned != '0) fault = ErrMisaligned;
          else if (stride_bad) fault = ErrBadExtension;
          for (int unsigned i = Operands; i > 0; i--) if (misaligned[i-1]) fault_addr = shapes[i-1].addr;
        end
      end
      CheckCount1, CheckCount2: if (product > MaxCount) fault = ErrBadDimension;
      CheckRange: begin
        if (current.used) begin
          if (in_registers) fault = ErrRegisterWindow;
          else if (!in_weight && !in_activation) fault = ErrOutOfRange;
        end
        fault_addr = current.addr;
      end
      CheckOverlap: begin
        if (guarded) fault = ErrProtected;
        else if (overlap) fault = ErrOverlap;
        fault_addr = packet_i.dst_addr;
      end
      default: fault = ErrNone;
    endcase
  end

  assign done_o       = state_q == CheckOverlap || fault != ErrNone;
  assign error_o      = fault;
  assign error_addr_o = fault_addr;

  logic [2:0] next_operand;
  always_comb begin
    next_operand = 3'(Dst);
    for (int unsigned i = Dst; i > 0; i--) begin
      if (i > 32'(operand_q) && shapes[i].used) next_operand = 3'(i);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) begin
      state_q <= CheckIdle;
    end else if (start_i) begin
      state_q <= is_vector_op ? CheckSize : CheckDims;
    end else if (fault != ErrNone || taken_i) begin
      state_q <= CheckIdle;
    end else begin
      unique case (state_q)
        CheckSize:    if (operand_q == 3'(Dst)) state_q <= CheckDims;
        CheckDims:    state_q <= counted ? CheckCount1 : CheckRange;
        CheckCount1:  state_q <= CheckCount2;
        CheckCount2:  state_q <= CheckPlace;
        CheckPlace:   state_q <= CheckRange;
        CheckRange:   if (operand_q == 3'(Dst) || is_load) state_q <= CheckOverlap;
        CheckOverlap: state_q <= CheckDone;
        default: ;  // CheckDone holds the results
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      operand_q <= '0;
      extents_q <= '0;
    end
    unique case (state_q)
      CheckSize: begin
        operand_q                 <= (operand_q == 3'(Dst)) ? '0 : operand_q + 3'd1;
        length_q[operand_q]       <= current_stream.pack ? length[31:0] : current_stream.seg_len;
        row_granules_q[operand_q] <= granules[31:0];
      end
      CheckCount1, CheckCount2: count_q <= product[31:0];
      CheckDims, CheckPlace: operand_q <= '0;
      CheckRange: begin
        extents_q[operand_q] <= '{used: current.used, first: address_t'(current.addr), last: address_t'(last_addr)};
        operand_q            <= next_operand;
      end
      default: ;
    endcase
  end

  // ---- results ------------------------------------------------------------------------------
  assign extents_o = extents_q;

  operand_t [Operands-1:0] matrices;
  for (genvar i = 0; i < Operands; i++) begin : g_matrices
    assign matrices[i] = '{
            addr: address_t'(shapes[i].addr),
            row_stride: shapes[i].stride[0],
            batch0_stride: shapes[i].stride[2],
            batch1_stride: shapes[i].stride[3]
        };
  end

  // A product with one column is computed as its transpose, a single row, so the other operand streams through as
  // weights. The sums and their order are the same. Both vectors must be dense, and the epilogue must have no vectors.
  logic turned;
  assign turned_o = turned;
  assign turned = packet_i.n == 64'd1 && packet_i.m != 64'd1 && blocks == BlocksNone && !row_scale && !columns_used
                  && (trans_b || matrices[Src2].row_stride == 32'd1 << right_shift)
                  && matrices[Dst].row_stride == 32'd1 << result_shift;

  always_comb begin
    matrix_o = '0;
    if (state_q == CheckOverlap || state_q == CheckDone) begin
      matrix_o = '{
          src1: matrices[Src1],
          src2: matrices[Src2],
          dst: matrices[Dst],
          batch0: batch0,
          batch1: batch1,
          m: packet_i.m[DimBits-1:0],
          k: packet_i.k[DimBits-1:0],
          n: packet_i.n[DimBits-1:0],
          trans_a: trans_a,
          trans_b: trans_b || blocks != BlocksNone,  // a row of a tile runs along K
          kind: kind,
          src1_half: 1'b0,
          src2_half: half_b,
          blocks: blocks,
          result: result,
          use_alpha: packet_i.flags[FlagUseAlpha],
          row_scale: row_scale,
          col_scale: col_scale,
          bias: bias,
          relu: relu,
          alpha: packet_i.alpha,
          row_scales: address_t'(shapes[RowScales].addr),
          columns: address_t'(shapes[Columns].addr)
      };
      if (turned) begin
        matrix_o.src1      = matrices[Src2];
        matrix_o.src2      = matrices[Src1];
        matrix_o.m         = dim_t'(1);
        matrix_o.n         = packet_i.m[DimBits-1:0];
        matrix_o.trans_a   = 1'b0;
        matrix_o.trans_b   = !trans_a;
        matrix_o.src1_half = half_b;
        matrix_o.src2_half = 1'b0;
      end
    end
  end

  // A stride is zero where the count is 1.
  function automatic logic [31:0] stepped(input logic [31:0] count, input logic [31:0] stride);
    stepped = (count > 32'd1) ? stride : 32'd0;
  endfunction

  always_comb begin
    vector_o = '0;
    if (state_q == CheckOverlap || state_q == CheckDone) begin
      if (is_memcpy) vector_o.kind = KindCopy;
      else if (is_gather) vector_o.kind = KindGather;
      else if (is_load) vector_o.kind = KindLoad;
      else vector_o.kind = KindProgram;
      for (int unsigned i = 0; i < Operands; i++) begin
        vector_o.streams[i].addr          = address_t'(shapes[i].addr);
        vector_o.streams[i].seg_stride    = stepped(shapes[i].count[0], shapes[i].stride[0]);
        vector_o.streams[i].row_stride    = stepped(shapes[i].count[1], shapes[i].stride[1]);
        vector_o.streams[i].batch0_stride = stepped(shapes[i].count[2], shapes[i].stride[2]);
        vector_o.streams[i].batch1_stride = stepped(shapes[i].count[3], shapes[i].stride[3]);
        vector_o.streams[i].seg_bytes     = shapes[i].seg_bytes[31:0];
        vector_o.streams[i].segs          = shapes[i].count[0][24:0];
        vector_o.streams[i].enable        = shapes[i].used;
        if (is_vector_op) begin
          vector_o.streams[i].seg_len      = descriptors[i].seg_len;
          vector_o.streams[i].length       = length_q[i];
          vector_o.streams[i].segments     = descriptors[i].pack ? 25'd1 : 25'(descriptors[i].segs);
          vector_o.streams[i].row_granules = row_granules_q[i];
          vector_o.streams[i].passes       = descriptors[i].passes;
          vector_o.streams[i].size         = descriptors[i].size;
          vector_o.streams[i].bcast        = descriptors[i].bcast;
        end else begin
          vector_o.streams[i].seg_len      = count_q;
          vector_o.streams[i].length       = count_q;
          vector_o.streams[i].segments     = 25'd1;
          vector_o.streams[i].row_granules = 32'((33'(count_q) + 33'(Partials - 1)) >> $clog2(Partials));
          vector_o.streams[i].passes       = 4'd1;
        end
      end
      vector_o.rows    = is_vector_op ? packet_i.m[24:0] : 25'd1;
      vector_o.repeats = repeats[24:0];
      vector_o.cols    = is_add ? count_q : (is_gather ? packet_i.k[31:0] : packet_i.n[31:0]);
      vector_o.batch0  = batch0;
      vector_o.batch1  = batch1;
      vector_o.entry   = is_vector_op ? vector_extension.entry : (is_load ? packet_i.k[31:0] : BuiltinEntry);
      vector_o.table_rows = table_rows;
      vector_o.params  = {is_vector_op ? vector_extension.params : 224'd0, packet_i.alpha};
    end
  end

  logic unused;
  assign unused = &{1'b0, current.unaligned, current_stream.reserved, current_stream.bcast, current_stream.passes,
                    current_stream.seg_stride, current_stream.row_stride, current_stream.batch0_stride,
                    current_stream.batch1_stride, granules[63:32], stream_bytes[31:0], matrices[Columns],
                    matrices[RowScales]};

  `NPU_ASSERT_HANDSHAKE(PacketHolds, start_i || state_q != CheckIdle, taken_i || fault != ErrNone, packet_i,
                        "a packet changed while it was checked", abort_i)
  `NPU_ASSERT(RightOperand, !(done_o && error_o == ErrNone && is_matmul)
              || matrix_o.src2.addr == extents_o[turned_o ? OperandLeft : OperandRight].first,
              "the right operand of a product is not the one that turned_o tells")
endmodule
