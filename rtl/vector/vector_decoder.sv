// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// Decodes an instruction from its fields alone: which operands it reads, and
// whether opcode and operands are legal. Purely combinational.
module vector_decoder
  import vector_pkg::*;
(
    input  instruction_t instruction_i,
    output logic         uses_a_o,
    output logic         uses_b_o,
    output logic         uses_c_o,
    output logic         control_o,     // no datapath
    output logic         fold_o,
    output logic         accumulate_o,  // the destination's old value is an operand
    output logic         special_o,    // e^a, 1/a or 1/sqrt(a)
    output logic         illegal_o      // opcode or operands are illegal
);
  vop_e opcode;
  assign opcode = vop_e'(instruction_i.opcode);

  logic known, arithmetic, three, two, accumulates, aset, source_bad, dst_bad;

  // An operand that an instruction of the lanes can read.
  function automatic logic readable(input logic [5:0] code);
    readable = is_vector(code) || is_stream(code) || is_row(code) || code == OperandIota || is_uniform(code);
  endfunction

  always_comb begin
    known       = 1'b1;
    arithmetic  = 1'b1;
    two         = 1'b0;
    three       = 1'b0;
    accumulates = 1'b0;
    fold_o      = 1'b0;
    aset        = 1'b0;
    special_o   = 1'b0;
    control_o   = 1'b0;
    unique case (opcode)
      VopAdd, VopMin, VopMax, VopIadd, VopImin, VopImax, VopAnd, VopOr: begin
        two         = 1'b1;
        accumulates = 1'b1;
      end
      VopFma, VopFnma: begin
        two         = 1'b1;
        three       = 1'b1;
        accumulates = 1'b1;
      end
      VopFms, VopSel: begin
        two   = 1'b1;
        three = 1'b1;
      end
      VopSub, VopMul, VopScale, VopCmpEq, VopCmpLt, VopCmpLe, VopCmpUn, VopClass, VopIsub, VopXor, VopShl, VopShr,
      VopSar, VopIcmpEq, VopIcmpLt:
      two = 1'b1;
      VopGetMant, VopGetExp, VopF2i, VopF2iz, VopI2f, VopF2h, VopH2f, VopF2b, VopMov, VopSwap: ;
      VopExp, VopRcp, VopRsqrt: special_o = 1'b1;
      VopAset: begin
        arithmetic = 1'b0;
        aset       = 1'b1;
      end
      VopFoldAdd, VopFoldMin, VopFoldMax, VopFoldIadd, VopFoldImin, VopFoldImax: begin
        arithmetic = 1'b0;
        fold_o     = 1'b1;
      end
      VopChunks, VopRepeat, VopNext, VopAdvance, VopEnd: begin
        arithmetic = 1'b0;
        control_o  = 1'b1;
      end
      default: known = 1'b0;
    endcase

    accumulate_o = arithmetic && is_acc(instruction_i.dst);
    uses_a_o     = !control_o;
    uses_b_o     = two && !(accumulate_o && !three);
    uses_c_o     = three && !accumulate_o;

    source_bad = arithmetic && (!readable(instruction_i.a) || (uses_b_o && !readable(instruction_i.b))
                                || (uses_c_o && !readable(instruction_i.c)));
    if (opcode == VopSwap)
      source_bad |= !is_vector(instruction_i.a) && !is_stream(instruction_i.a) && !is_row(instruction_i.a);
    if (aset) source_bad = !is_uniform(instruction_i.a);
    if (fold_o) source_bad = !is_acc(instruction_i.a);

    dst_bad = arithmetic && !is_vector(instruction_i.dst) && !is_scalar(instruction_i.dst)
              && !is_row(instruction_i.dst) && instruction_i.dst != OperandOut
              && !(accumulates && is_acc(instruction_i.dst));
    if (aset) dst_bad = !is_acc(instruction_i.dst);
    if (fold_o) dst_bad = !is_scalar(instruction_i.dst);

    illegal_o = !known || source_bad || dst_bad;
  end

  logic unused;
  assign unused = &{1'b0, instruction_i.one, instruction_i.imm};
endmodule
