// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// The vector engine's programs: a memory that LOAD_PROGRAM fills, and the
// built-in program of ADD_TENSOR. A read takes one clock.
//
// Only loaded words are ever executed. A load that starts behind the end of the
// defined words first fills the gap with an illegal instruction. After an
// aborted load its words are filled in the same way. Filling takes one clock a
// word.
// Reset state: nothing is loaded. An abort ends a load; completed loads stay.
module program_memory
  import vector_pkg::*;
#(
    parameter int unsigned Words = 4096  // of 64 bits each, a power of two from 16
) (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic         abort_i,

    // a load: begin, write, complete
    output logic         ready_o,         // a load may begin
    input  logic         begin_i,         // pulse, with ready_o
    input  logic [31:0]  begin_first_i,   // with begin_i: the load's first word
    input  logic [31:0]  begin_end_i,     // with begin_i: the load's last word + 1
    output logic         writable_o,      // a load has begun, and the gap before it is filled
    input  logic         write_i,         // with writable_o
    input  logic [31:0]  write_address_i,
    input  logic [63:0]  write_data_i,
    input  logic         complete_i,      // pulse, after the last write
    output logic [31:0]  loaded_o,        // words from 0 to the highest one ever loaded

    input  logic         read_i,
    input  logic [31:0]  read_address_i,
    output instruction_t instruction_o,   // after read_i
    output logic         executable_o     // with instruction_o: it is defined or built in
);
  localparam int unsigned AddressBits = $clog2(Words);
  localparam logic [63:0] Illegal     = '1;  // no opcode has these bits

  typedef logic [AddressBits:0] mark_t;  // a word, or the end of the memory

  // ---- what is defined ------------------------------------------------------------------
  // A program may begin below loaded_q. Each word below filled_q is loaded, illegal, or still to be swept.
  mark_t loaded_q, filled_q, sweep_q, sweep_end_q, first_q, end_q, swept_to, read_mark;
  logic open_q;  // a load has begun
  logic sweeping, filling;

  assign loaded_o   = 32'(loaded_q);
  assign sweeping   = sweep_q < sweep_end_q;
  assign filling    = open_q && filled_q < first_q;
  assign ready_o    = !open_q && !sweeping;
  assign writable_o = open_q && !filling;
  assign swept_to   = (end_q < filled_q) ? end_q : filled_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i || complete_i) open_q <= 1'b0;
    else if (begin_i) open_q <= 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (begin_i) begin
      first_q <= mark_t'(begin_first_i);
      end_q   <= mark_t'(begin_end_i);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      loaded_q <= '0;
      filled_q <= '0;
    end else if (complete_i) begin
      if (end_q > loaded_q) loaded_q <= end_q;
      if (end_q > filled_q) filled_q <= end_q;
    end else if (filling) begin
      filled_q <= filled_q + mark_t'(1);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      sweep_q     <= '0;
      sweep_end_q <= '0;
    end else if (abort_i && open_q && !complete_i) begin
      sweep_q     <= first_q;
      sweep_end_q <= swept_to;
    end else if (sweeping) begin
      sweep_q <= sweep_q + mark_t'(1);
    end
  end

  // ---- memory -----------------------------------------------------------------------------
  logic [63:0] word, write_data;
  logic [AddressBits-1:0] write_address;

  always_comb begin
    write_address = write_address_i[AddressBits-1:0];
    write_data    = write_data_i;
    if (sweeping || filling) begin
      write_address = AddressBits'(sweeping ? sweep_q : filled_q);
      write_data    = Illegal;
    end
  end

  // dst = s0 + p0 * s1
  function automatic instruction_t builtin(input logic [2:0] number);
    builtin = '0;
    unique case (number)
      3'd0: builtin.opcode = VopChunks;
      3'd1: builtin = '{opcode: VopMul, one: 1'b0, dst: OperandVector, a: OperandStream + 6'd1, b: OperandParam,
                        c: '0, imm: '0};
      3'd2: builtin = '{opcode: VopAdd, one: 1'b0, dst: OperandOut, a: OperandStream, b: OperandVector,
                        c: '0, imm: '0};
      3'd3: builtin = '{opcode: VopNext, one: 1'b0, dst: '0, a: '0, b: '0, c: '0, imm: 32'b0011};
      default: builtin.opcode = VopEnd;
    endcase
  endfunction

  // The memory has its own output register, so the choice is registered as well and made behind it.
  logic built_in, built_in_q, to_be_swept, defined;
  logic [2:0] number_q;
  assign built_in    = read_address_i[31];
  assign read_mark   = mark_t'(read_address_i[AddressBits-1:0]);
  assign to_be_swept = sweeping && read_mark >= sweep_q && read_mark < sweep_end_q;
  assign defined     = read_address_i < loaded_o && !to_be_swept;

  // Only defined words are read: what is being filled or swept may show anything.
  ram_1r1w #(
      .Width(64),
      .Depth(Words)
  ) u_memory (
      .clk_i,
      .rst_ni,
      .write_i     (write_i || sweeping || filling),
      .write_addr_i(write_address),
      .write_data_i(write_data),
      .read_i      (read_i && defined),
      .read_addr_i (read_address_i[AddressBits-1:0]),
      .read_data_o (word)
  );

  always_ff @(posedge clk_i) begin
    if (read_i) begin
      built_in_q   <= built_in;
      number_q     <= read_address_i[2:0];
      executable_o <= built_in || defined;
    end
  end

  assign instruction_o = built_in_q ? builtin(number_q) : instruction_t'(word);

  logic unused;
  assign unused = &{1'b0, begin_first_i[31:AddressBits+1], begin_end_i[31:AddressBits+1],
                    write_address_i[31:AddressBits]};

  if (Words < 16 || (Words & (Words - 1)) != 0) begin : g_bad_words
    $fatal(1, "program_memory: Words must be a power of two of at least 16");
  end

  `NPU_ASSERT(OneWriter, !(write_i && !writable_o), "a word was written outside of a load")
  `NPU_ASSERT(BeginsInTurn, !(begin_i && !ready_o), "a load began while the memory was not ready for it")
endmodule
