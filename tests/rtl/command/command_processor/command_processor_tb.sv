// command_processor between a host, a memory that holds the ring, and two engines, all of which are native code
// (command_processor_check.cpp). It chooses the inputs of a clock in the middle of the one before, and sees what the
// device makes of them just before the clock ends.
module command_processor_tb
  import npu_pkg::*;
  import vector_pkg::*;
#(
    parameter int unsigned DataWidth  = 256,
    parameter int unsigned QueueDepth = 16
) (
    input logic clk
);
  // Inputs, in this order, as words.
  localparam int unsigned Words = 32;
  typedef bit [Words-1:0][31:0] inputs_t;

  import "DPI-C" function void cp_drive(output inputs_t inputs, output bit [PacketBits-1:0] packet,
                                        output bit [DataWidth-1:0] beat);
  import "DPI-C" function int cp_check(input bit [31:0] pulses, input bit [31:0] levels, input int ring,
                                       input int retired, input int error_index, input longint error_addr, input int matrix_dst,
                                       input int vector_dst, input int vector_entry, input int desc_addr,
                                       input int desc_bytes);
  import "DPI-C" function void cp_begin(input int magic1, input int magic2, input int magic3, input longint offset);

  // Where memory is large, the operands lie around a multiple of 4 GiB, and the ring above it.
  localparam address_t Seam = address_t'(36'h2_0000_0000);
  localparam address_t Offset = LargeMemory ? Seam - address_t'(32'h10_2200) : '0;
  initial cp_begin(VectorExtensionMagic1, VectorExtensionMagic2, VectorExtensionMagic3, longint'(Offset));

  inputs_t in;
  bit [PacketBits-1:0] packet;
  bit [DataWidth-1:0] beat;
  // No registers of the device: they are what it sees from the middle of a clock on.
  always @(negedge clk) cp_drive(in, packet, beat);

  logic [15:0] head, tail;
  logic tail_set;
  logic reset_done, queue_full, irq_done, irq_error, irq_command, retire, vector_retire, abort;
  logic desc_valid, data_ready;
  logic [1:0] state;
  logic [7:0] level, code;
  logic [31:0] index, retired;
  logic [63:0] address;
  logic [Engines-1:0] start;
  dma_desc_t desc;
  matrix_command_t matrix;
  logic [1:0] held;
  vector_command_t vector;
  address_t error_addr [ErrorOwners];
  for (genvar i = 0; i < ErrorOwners; i++) begin : g_addr
    assign error_addr[i] = address_t'(in[12+i]);
  end

  // The unit's clock rests while awake_o is low.
  logic awake, unit_clk;
  clock_gate gate (
      .clk_i        (clk),
      .enable_i     (awake || !in[0][0]),
      .test_enable_i(1'b0),
      .clk_o        (unit_clk)
  );

  command_processor #(
      .DataWidth (DataWidth),
      .QueueDepth(QueueDepth)
  ) dut (
      .clk_i               (unit_clk),
      .rst_ni              (in[0][0]),
      .awake_o             (awake),
      .free_clk_i          (clk),
      .soft_reset_i        (in[0][1]),
      .clear_error_i       (in[0][2]),
      .cmd_packet_i        (packet),
      .cmd_doorbell_i      (in[0][3]),
      .ring_enable_i       (in[0][4]),
      .ring_base_i         (address_t'(in[1]) + Offset),
      .ring_size_i         (in[2][15:0]),
      .ring_tail_i         (in[3][15:0]),
      .ring_tail_write_i   (in[0][5]),
      .ring_tail_set_o     (tail_set),
      .ring_tail_o         (tail),
      .ring_head_o         (head),
      .guard_base_i        ('0),
      .guard_size_i        (32'd0),
      .watchdog_i          (in[9]),
      .reset_done_o        (reset_done),
      .state_o             (state),
      .queue_level_o       (level),
      .queue_full_o        (queue_full),
      .error_code_o        (code),
      .error_index_o       (index),
      .error_addr_o        (address),
      .retired_o           (retired),
      .irq_done_o          (irq_done),
      .irq_error_o         (irq_error),
      .irq_command_o       (irq_command),
      .retire_o            (retire),
      .vector_retire_o     (vector_retire),
      .abort_o             (abort),
      .memory_idle_i       (in[0][6]),
      .memory_error_i      (in[4][ErrorOwners-1:0]),
      .memory_error_write_i(in[5][ErrorOwners-1:0]),
      .memory_error_addr_i (error_addr),
      .fetch_error_i       (in[0][7]),
      .fetch_error_addr_i  (address_t'(in[6])),
      .desc_valid_o        (desc_valid),
      .desc_ready_i        (in[0][8]),
      .desc_o              (desc),
      .data_valid_i        (in[0][9]),
      .data_ready_o        (data_ready),
      .data_i              (beat),
      .start_o             (start),
      .matrix_ready_i      (in[0][10]),
      .matrix_command_o    (matrix),
      .matrix_held_o       (held),
      .vector_command_o    (vector),
      .done_i              (in[7][Engines-1:0]),
      .vector_fault_i      (in[0][11]),
      .vector_fault_index_i(in[0][12]),
      .vector_fault_addr_i (address_t'(in[8])),
      .program_words_i     (in[10]),
      .program_ready_i     (in[0][14])
  );

  // Only this signal shows the phase in which a bad packet is found.
  logic refuses;
  assign refuses = dut.fault != ErrNone;

  vector_command_t vector_before;
  always_ff @(posedge clk) vector_before <= vector;

  always @(posedge clk) begin
    if (in[0][13]) $finish;
    else if (cp_check({12'd0, vector != vector_before, vector.kind, held, tail_set, refuses, data_ready, desc_valid, vector_retire, retire, irq_command, irq_error, irq_done,
                       reset_done, abort, queue_full, start[EngineVector], start[EngineMatrix], 1'b0},
                      {14'd0, code, level, state}, int'({tail, head}), int'(retired), int'(index), longint'(address),
                      int'(matrix.dst.addr - Offset), int'(vector.streams[OperandDst].addr - Offset), int'(vector.entry),
                      int'(desc.addr - Offset),
                      int'(desc.row_bytes)) != 0) $fatal(1, "the command processor does what it must not");
  end
endmodule
