// Checks a command packet and its extension, and turns them into what an
// engine needs. Every size is computed wide enough that no packet can make it
// overflow. One multiplier serves all products, one a clock.
//
// Order of the checks, first hit wins: dimensions; alignment of src1, src2,
// dst; strides; range of src1, src2, dst; overlap. (Opcode, flags and the
// extension's own fields are checked as the packets come, by head_error_o and
// extension_error_o.)
// Reset and abort state: idle.
module packet_checker
  import npu_pkg::*;
(
    input  logic       clk_i,
    input  logic       rst_ni,
    input  logic       abort_i,

    input  packet_t    packet_i,
    input  extension_t extension_i,       // all zero without one
    output error_e     head_error_o,      // of packet_i alone
    output error_e     extension_error_o, // of extension_i alone

    input  logic       start_i,           // pulse: check the rest
    output logic       done_o,            // pulse, with the results below
    output error_e     error_o,
    output logic [63:0] error_addr_o,
    output command_t   command_o          // valid from done_o until the next start_i
);
  localparam int unsigned Src1 = 0, Src2 = 1, Dst = 2;
  localparam logic [63:0] MaxCount = 64'hFFFF_FFFF;  // of a linear command's dimensions and their product

  logic is_matmul, is_add, is_memcpy, trans_a, trans_b;
  assign is_matmul = packet_i.opcode == OpMatmul;
  assign is_add    = packet_i.opcode == OpAddTensor;
  assign is_memcpy = packet_i.opcode == OpMemcpy;
  assign trans_a   = packet_i.flags[FlagTransA];
  assign trans_b   = packet_i.flags[FlagTransB];

  // ---- fields that need no arithmetic --------------------------------------------------
  logic [31:0] legal_flags;
  always_comb begin
    legal_flags = 32'd1 << FlagIrq;
    if (is_matmul || is_memcpy) legal_flags |= 32'd1 << FlagExt;
    if (is_matmul) legal_flags |= (32'd1 << FlagTransA) | (32'd1 << FlagTransB) | (32'd1 << FlagUseAlpha);

    head_error_o = ErrNone;
    if (!(is_matmul || is_add || is_memcpy || packet_i.opcode == OpNop || packet_i.opcode == OpSync)) begin
      head_error_o = ErrBadOpcode;
    end else if ((packet_i.flags & ~legal_flags) != '0 || packet_i.reserved != '0) begin
      head_error_o = ErrBadFlags;
    end

    extension_error_o = ErrNone;
    if (extension_i.magic != ExtensionMagic || extension_i.reserved != '0
        || extension_i.batch0[31:16] != '0 || extension_i.batch1[31:16] != '0
        || extension_i.rows > 32'(MaxDim)
        || (is_matmul && extension_i.rows != '0)
        || (is_memcpy && (extension_i.row_stride[Src2] != '0 || extension_i.batch0_stride[Src2] != '0
                          || extension_i.batch1_stride[Src2] != '0))) begin
      extension_error_o = ErrBadExtension;
    end
  end

  // ---- operands, once the dimensions are known to be good -------------------------------
  logic [31:0] count_q;                    // elements or bytes of a linear command's row
  logic [2:0][63:0] addr;
  logic [2:0][31:0] rows, stride, row_words;
  logic [2:0][35:0] row_bytes;
  logic [15:0] batch0, batch1;

  assign batch0 = (extension_i.batch0 == '0) ? 16'd1 : extension_i.batch0[15:0];
  assign batch1 = (extension_i.batch1 == '0) ? 16'd1 : extension_i.batch1[15:0];
  assign addr   = {packet_i.dst_addr, packet_i.src2_addr, packet_i.src1_addr};

  always_comb begin
    row_words = '0;
    if (is_matmul) begin
      rows[Src1]      = 32'(trans_a ? packet_i.k : packet_i.m);
      row_words[Src1] = 32'(trans_a ? packet_i.m : packet_i.k);
      rows[Src2]      = 32'(trans_b ? packet_i.n : packet_i.k);
      row_words[Src2] = 32'(trans_b ? packet_i.k : packet_i.n);
      rows[Dst]       = 32'(packet_i.m);
      row_words[Dst]  = 32'(packet_i.n);
    end else begin
      rows      = {3{(extension_i.rows == '0) ? 32'd1 : extension_i.rows}};
      row_words = {3{count_q}};
    end
    for (int unsigned i = 0; i < 3; i++) begin
      row_bytes[i] = is_memcpy ? 36'(row_words[i]) : {2'd0, row_words[i], 2'b00};
      // Only a linear command's row can be longer than a stride can say; it is
      // out of range then, whatever the stride.
      stride[i]    = (extension_i.row_stride[i] == '0) ? row_bytes[i][31:0] : extension_i.row_stride[i];
    end
  end

  logic stride_bad;
  always_comb begin
    stride_bad = (batch0 > 16'd1 && extension_i.batch0_stride[Dst] == '0)
                 || (batch1 > 16'd1 && extension_i.batch1_stride[Dst] == '0);
    if (is_matmul) begin
      for (int unsigned i = 0; i < 3; i++) begin
        stride_bad |= stride[i][1:0] != '0 || extension_i.batch0_stride[i][1:0] != '0
                      || extension_i.batch1_stride[i][1:0] != '0 || 36'(stride[i]) < row_bytes[i];
      end
    end else if (is_memcpy) begin
      stride_bad |= rows[Dst] > 32'd1 && 36'(stride[Dst]) < row_bytes[Dst];
    end
  end

  // ---- the sequence ------------------------------------------------------------------------
  typedef enum logic [3:0] {
    CheckIdle,
    CheckDims,
    CheckCount1,
    CheckCount2,
    CheckAlign,
    CheckStride,
    CheckExtent,   // three products an operand
    CheckRange,
    CheckOverlap
  } check_e;

  check_e state_q;
  logic [1:0] operand_q, term_q;
  logic [63:0] extent_q;
  logic [2:0][31:0] end_q;  // one past the last byte of each operand

  logic [63:0] product;
  logic [31:0] factor1, factor2;
  assign product = 64'(factor1) * 64'(factor2);

  always_comb begin
    factor1 = packet_i.m[31:0];
    factor2 = (packet_i.k == '0) ? 32'd1 : packet_i.k[31:0];
    if (state_q == CheckCount2) begin
      factor1 = count_q;
      factor2 = (packet_i.n == '0) ? 32'd1 : packet_i.n[31:0];
    end else if (state_q == CheckExtent) begin
      unique case (term_q)
        2'd0: begin
          factor1 = rows[operand_q] - 32'd1;
          factor2 = stride[operand_q];
        end
        2'd1: begin
          factor1 = 32'(batch0) - 32'd1;
          factor2 = extension_i.batch0_stride[operand_q];
        end
        default: begin
          factor1 = 32'(batch1) - 32'd1;
          factor2 = extension_i.batch1_stride[operand_q];
        end
      endcase
    end
  end

  logic matmul_dims_bad, linear_dims_bad, in_registers, in_weight, in_activation;
  logic [63:0] last_addr, current;
  logic [2:0] unaligned;
  logic overlap1, overlap2;

  function automatic logic dim_bad(input logic [63:0] dim);
    dim_bad = dim == '0 || dim > MaxDim;
  endfunction

  assign matmul_dims_bad = dim_bad(packet_i.m) || dim_bad(packet_i.k) || dim_bad(packet_i.n);
  assign linear_dims_bad = packet_i.m == '0 || packet_i.m > MaxCount || packet_i.k > MaxCount || packet_i.n > MaxCount;
  assign current       = addr[operand_q];
  assign in_registers  = current >= 64'(RegisterBase) && current <= 64'(RegisterLast);
  assign last_addr     = current + extent_q - 64'd1;
  assign in_weight     = current <= 64'(WeightLast) && last_addr <= 64'(WeightLast);
  assign in_activation = current >= 64'(ActivationBase) && current <= 64'(ActivationLast)
                         && last_addr <= 64'(ActivationLast);

  for (genvar i = 0; i < 3; i++) begin : g_align
    assign unaligned[i] = !is_memcpy && addr[i][1:0] != '0;
  end

  function automatic logic overlaps(input logic [31:0] a, input logic [31:0] a_end,
                                    input logic [31:0] b, input logic [31:0] b_end);
    overlaps = a < b_end && b < a_end;
  endfunction

  assign overlap1 = overlaps(addr[Dst][31:0], end_q[Dst], addr[Src1][31:0], end_q[Src1])
                    && !(is_add && addr[Dst] == addr[Src1]);
  assign overlap2 = !is_memcpy && overlaps(addr[Dst][31:0], end_q[Dst], addr[Src2][31:0], end_q[Src2])
                    && !(is_add && addr[Dst] == addr[Src2]);

  // Fails in the current clock with this error; ErrNone goes on.
  error_e fault;
  logic [63:0] fault_addr;
  always_comb begin
    fault      = ErrNone;
    fault_addr = '0;
    unique case (state_q)
      CheckDims: if (is_matmul ? matmul_dims_bad : linear_dims_bad) fault = ErrBadDimension;
      CheckCount1, CheckCount2: if (product > MaxCount) fault = ErrBadDimension;
      CheckAlign: begin
        if (unaligned != '0) fault = ErrMisaligned;
        fault_addr = unaligned[Src1] ? addr[Src1] : (unaligned[Src2] ? addr[Src2] : addr[Dst]);
      end
      CheckStride: if (stride_bad) fault = ErrBadExtension;
      CheckRange: begin
        if (in_registers) fault = ErrRegisterWindow;
        else if (!in_weight && !in_activation) fault = ErrOutOfRange;
        fault_addr = current;
      end
      CheckOverlap: begin
        if (overlap1 || overlap2) fault = ErrOverlap;
        fault_addr = addr[Dst];
      end
      default: fault = ErrNone;
    endcase
  end

  assign done_o       = state_q == CheckOverlap || fault != ErrNone;
  assign error_o      = fault;
  assign error_addr_o = fault_addr;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i || done_o) begin
      state_q <= CheckIdle;
    end else begin
      unique case (state_q)
        CheckIdle:   if (start_i) state_q <= CheckDims;
        CheckDims:   state_q <= is_matmul ? CheckAlign : CheckCount1;
        CheckCount1: state_q <= CheckCount2;
        CheckCount2: state_q <= CheckAlign;
        CheckAlign:  state_q <= CheckStride;
        CheckStride: state_q <= CheckExtent;
        CheckExtent: if (term_q == 2'd2) state_q <= CheckRange;
        CheckRange:  state_q <= (operand_q == 2'(Dst)) ? CheckOverlap : CheckExtent;
        default:     state_q <= CheckIdle;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    unique case (state_q)
      CheckCount1, CheckCount2: count_q <= product[31:0];
      CheckStride: begin
        operand_q <= 2'(Src1);
        term_q    <= '0;
        extent_q  <= 64'(row_bytes[Src1]);
      end
      CheckExtent: begin
        term_q   <= (term_q == 2'd2) ? '0 : term_q + 2'd1;
        extent_q <= extent_q + product;
      end
      CheckRange: begin
        end_q[operand_q] <= last_addr[31:0] + 32'd1;
        // MEMCPY has no second source.
        operand_q <= (operand_q == 2'(Src1) && !is_memcpy) ? 2'(Src2) : 2'(Dst);
        extent_q  <= 64'((operand_q == 2'(Src1) && !is_memcpy) ? row_bytes[Src2] : row_bytes[Dst]);
      end
      default: ;
    endcase
  end

  function automatic operand_t operand(input logic [31:0] start, input logic [31:0] row,
                                       input logic [31:0] inner, input logic [31:0] outer);
    operand = '{addr: start, row_stride: row, batch0_stride: inner, batch1_stride: outer};
  endfunction

  assign command_o = '{
          src1: operand(addr[Src1][31:0], stride[Src1], extension_i.batch0_stride[Src1], extension_i.batch1_stride[Src1]),
          src2: operand(addr[Src2][31:0], stride[Src2], extension_i.batch0_stride[Src2], extension_i.batch1_stride[Src2]),
          dst: operand(addr[Dst][31:0], stride[Dst], extension_i.batch0_stride[Dst], extension_i.batch1_stride[Dst]),
          batch0: batch0,
          batch1: batch1,
          m: packet_i.m[DimBits-1:0],
          k: packet_i.k[DimBits-1:0],
          n: packet_i.n[DimBits-1:0],
          trans_a: trans_a,
          trans_b: trans_b,
          use_alpha: packet_i.flags[FlagUseAlpha],
          alpha: packet_i.alpha,
          row_bytes: row_bytes[Dst][31:0],
          rows: rows[Dst],
          is_add: is_add
      };
endmodule
