// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// Register block: plain ports around the generated AXI4-Lite register file, and the performance counters.
//
// Reset state: all registers except the constants are 0; no pulse, no interrupt. Idle state: only the cycle counter
// moves. A write takes effect before its response is sent, so a read after the response returns the new value.
module register_block
  import npu_perf_pkg::*;
#(
    // Values of the capability registers; the block's function depends on none of them.
    parameter int unsigned ArrayRows       = 16,    // rows of the systolic array, 1 to 65535
    parameter int unsigned ArrayCols       = 16,    // columns of the systolic array, 1 to 65535
    parameter int unsigned VectorLanes     = 16,    // float32 lanes of the vector engine, 1 to 65535
    parameter int unsigned DataWidth       = 256,   // bits of the AXI data buses, 32 to 1024
    parameter int unsigned QueueDepth      = 16,    // commands in the window queue, 1 to 255
    parameter int unsigned ScratchABytes   = 0,     // on-chip bytes of a panel of the left operand
    parameter int unsigned ScratchBBytes   = 0,     // on-chip bytes of a panel of the right operand
    parameter int unsigned ScratchAccBytes = 0,     // on-chip bytes of accumulators
    parameter int unsigned VectorLength    = 256,   // elements of a vector register
    parameter int unsigned RowElements     = 8192,  // elements of a row register
    parameter int unsigned ProgramWords    = 4096,  // words of program memory
    parameter int unsigned WeightMib       = 256,   // MiB of weight memory, 1 to 65535
    parameter int unsigned ActivationMib   = 256,   // MiB of activation memory, 1 to 65535
    parameter bit          Blocks          = 1'b1   // the matrix engine takes weights in blocks
) (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic         test_enable_i,        // no clock rests
    // AXI4-Lite; addresses are offsets in the register window
    input  logic [ 15:0] s_axil_awaddr,
    input  logic [  2:0] s_axil_awprot,
    input  logic         s_axil_awvalid,
    output logic         s_axil_awready,
    input  logic [ 31:0] s_axil_wdata,
    input  logic [  3:0] s_axil_wstrb,
    input  logic         s_axil_wvalid,
    output logic         s_axil_wready,
    output logic [  1:0] s_axil_bresp,
    output logic         s_axil_bvalid,
    input  logic         s_axil_bready,
    input  logic [ 15:0] s_axil_araddr,
    input  logic [  2:0] s_axil_arprot,
    input  logic         s_axil_arvalid,
    output logic         s_axil_arready,
    output logic [ 31:0] s_axil_rdata,
    output logic [  1:0] s_axil_rresp,
    output logic         s_axil_rvalid,
    input  logic         s_axil_rready,
    // control
    output logic         soft_reset_o,         // pulse
    output logic         clear_error_o,        // pulse
    output logic         ring_enable_o,
    input  logic         ring_enable_clear_i,  // pulse: the soft reset is complete
    // command window
    output logic [511:0] cmd_packet_o,         // word 0 in bits 31:0
    output logic         cmd_doorbell_o,       // pulse: cmd_packet_o holds a command
    // command ring
    output logic [ 31:0] ring_base_o,
    output logic [  2:0] ring_base_high_o,     // address bits 34:32
    output logic [ 15:0] ring_size_o,
    output logic [ 15:0] ring_tail_o,
    output logic         ring_tail_write_o,    // pulse: ring_tail_o was written
    input  logic         ring_tail_clear_i,    // pulse
    input  logic         ring_tail_set_i,      // pulse: ring_tail_o becomes ring_tail_value_i
    input  logic [ 15:0] ring_tail_value_i,
    input  logic [ 15:0] ring_head_i,
    // limits
    output logic [ 31:0] guard_base_o,         // protected range, a multiple of 64
    output logic [  2:0] guard_base_high_o,    // address bits 34:32
    output logic [ 31:0] guard_size_o,         // bytes, a multiple of 64; 0: none
    output logic [ 31:0] watchdog_o,           // cycles that a command may take; 0: any number
    output logic [  2:0] axi_prot_o,           // AxPROT of the NPU's own accesses
    // status
    input  logic [  1:0] state_i,
    input  logic [  7:0] queue_level_i,
    input  logic         queue_full_i,
    input  logic [  7:0] error_code_i,
    input  logic [ 31:0] error_index_i,
    input  logic [ 63:0] error_addr_i,
    input  logic [ 31:0] retired_i,
    // interrupt
    input  logic         irq_done_i,           // pulse
    input  logic         irq_error_i,          // pulse
    input  logic         irq_command_i,        // pulse
    output logic         irq_o,
    // performance counters
    input  perf_events_t events_i
);

  localparam int unsigned WindowWords = 16;

  // The capability fields are 16 bits wide; the queue level is 8.
  if (ArrayRows == 0 || ArrayRows > 65535) begin : gen_bad_array_rows
    $fatal(1, "ArrayRows must be 1 to 65535");
  end
  if (ArrayCols == 0 || ArrayCols > 65535) begin : gen_bad_array_cols
    $fatal(1, "ArrayCols must be 1 to 65535");
  end
  if (VectorLanes == 0 || VectorLanes > 65535) begin : gen_bad_vector_lanes
    $fatal(1, "VectorLanes must be 1 to 65535");
  end
  if (DataWidth < 32 || DataWidth > 1024) begin : gen_bad_data_width
    $fatal(1, "DataWidth must be 32 to 1024");
  end
  if (QueueDepth == 0 || QueueDepth > 255) begin : gen_bad_queue_depth
    $fatal(1, "QueueDepth must be 1 to 255");
  end

  npu_regs_pkg::npu_regs__in_t  hwif_in;
  npu_regs_pkg::npu_regs__out_t hwif_out;
  perf_counts_t                 counts, shown;  // shown: what the registers read; still while they rest

  logic soft_reset;
  logic return_to_reset;
  logic ring_tail_write_q, doorbell_q;

  assign soft_reset = hwif_out.CONTROL.soft_reset.value;
  // Traffic that ends after the request may raise events, so state is cleared both at the request and at completion.
  assign return_to_reset = soft_reset || ring_enable_clear_i;

  // Traffic and events wake the registers. An access and its pulse end a few clocks behind the traffic, so the registers
  // stay awake for MostClocks more.
  localparam int unsigned MostClocks = 7;
  logic [2:0] left_q;
  logic wake, awake, regs_clk;
  assign wake = s_axil_awvalid || s_axil_wvalid || s_axil_arvalid || s_axil_bvalid || s_axil_rvalid
                || irq_done_i || irq_error_i || irq_command_i
                || ring_enable_clear_i || ring_tail_clear_i || ring_tail_set_i || !rst_ni;
  assign awake = wake || left_q != '0;
  always_ff @(posedge clk_i) begin
    if (wake) left_q <= 3'(MostClocks);
    else if (left_q != '0) left_q <= left_q - 3'd1;
  end
  clock_gate u_gate (
      .clk_i,
      .enable_i(awake),
      .test_enable_i,
      .clk_o   (regs_clk)
  );

  npu_regs u_regs (
      .clk  (regs_clk),
      .rst_n(rst_ni),
      .s_axil_awready,
      .s_axil_awvalid,
      .s_axil_awaddr,
      .s_axil_awprot,
      .s_axil_wready,
      .s_axil_wvalid,
      .s_axil_wdata,
      .s_axil_wstrb,
      .s_axil_bready,
      .s_axil_bvalid,
      .s_axil_bresp,
      .s_axil_arready,
      .s_axil_arvalid,
      .s_axil_araddr,
      .s_axil_arprot,
      .s_axil_rready,
      .s_axil_rvalid,
      .s_axil_rdata,
      .s_axil_rresp,
      .hwif_in,
      .hwif_out
  );

  perf_counters u_perf_counters (
      .clk_i,
      .rst_ni,
      .clear_i (hwif_out.CONTROL.clear_counters.value || return_to_reset),
      .events_i,
      .counts_o(counts)
  );

  assign shown = awake ? counts : '0;

  always_comb begin
    hwif_in.CAP_ARRAY.rows.next             = 16'(ArrayRows);
    hwif_in.CAP_ARRAY.cols.next             = 16'(ArrayCols);
    hwif_in.CAP_VECTOR.lanes.next           = 16'(VectorLanes);
    hwif_in.CAP_VECTOR.data_width.next      = 16'(DataWidth);
    hwif_in.CAP_TYPES.q8_0.next             = Blocks;
    hwif_in.CAP_TYPES.q4_0.next             = Blocks;
    hwif_in.CAP_TYPES.q4_1.next             = Blocks;
    hwif_in.CAP_QUEUE.depth.next            = 16'(QueueDepth);
    hwif_in.CAP_SCRATCH_A.bytes.next        = ScratchABytes;
    hwif_in.CAP_SCRATCH_B.bytes.next        = ScratchBBytes;
    hwif_in.CAP_SCRATCH_ACC.bytes.next      = ScratchAccBytes;
    hwif_in.CAP_VECTOR_LENGTH.elements.next = VectorLength;
    hwif_in.CAP_VECTOR_ROW.elements.next    = RowElements;
    hwif_in.CAP_PROGRAM.words.next          = ProgramWords;
    hwif_in.CAP_MEMORY.weight_mib.next      = 16'(WeightMib);
    hwif_in.CAP_MEMORY.activation_mib.next  = 16'(ActivationMib);
    hwif_in.CONTROL.ring_enable.hwclr       = return_to_reset;
    hwif_in.STATUS.state.next               = state_i;
    hwif_in.STATUS.queue_level.next         = queue_level_i;
    hwif_in.STATUS.queue_full.next          = queue_full_i;
    hwif_in.ERROR_CODE.code.next            = error_code_i;
    hwif_in.ERROR_INDEX.index.next          = error_index_i;
    hwif_in.ERROR_ADDR.address.next         = error_addr_i;
    hwif_in.RETIRED.count.next              = retired_i;
    hwif_in.IRQ_STATUS.done.hwset           = irq_done_i && !return_to_reset;
    hwif_in.IRQ_STATUS.error.hwset          = irq_error_i && !return_to_reset;
    hwif_in.IRQ_STATUS.command.hwset        = irq_command_i && !return_to_reset;
    hwif_in.IRQ_STATUS.done.hwclr           = return_to_reset;
    hwif_in.IRQ_STATUS.error.hwclr          = return_to_reset;
    hwif_in.IRQ_STATUS.command.hwclr        = return_to_reset;
    hwif_in.RING_HEAD.slot.next             = ring_head_i;
    hwif_in.RING_TAIL.slot.hwclr            = ring_tail_clear_i;
    hwif_in.RING_TAIL.slot.we               = ring_tail_set_i;
    hwif_in.RING_TAIL.slot.next             = ring_tail_value_i;
    // The window is cleared at the request only: the host may fill it again while the reset completes.
    for (int unsigned i = 0; i < WindowWords; i++) hwif_in.CMD_WINDOW[i].word.hwclr = soft_reset;
    hwif_in.CYCLES.count.next               = shown.cycles;
    hwif_in.BUSY_CYCLES.count.next          = shown.busy_cycles;
    hwif_in.MATRIX_BUSY.count.next          = shown.matrix_busy;
    hwif_in.VECTOR_BUSY.count.next          = shown.vector_busy;
    hwif_in.MACS.count.next                 = shown.macs;
    hwif_in.READ_BEATS.count.next           = shown.read_beats;
    hwif_in.WRITE_BEATS.count.next          = shown.write_beats;
    hwif_in.STALL_READ.count.next           = shown.stall_read;
    hwif_in.STALL_WRITE.count.next          = shown.stall_write;
    hwif_in.STALL_BUS.count.next            = shown.stall_bus;
    hwif_in.HOST_BEATS.count.next           = shown.host_beats;
    hwif_in.COMMANDS.count.next             = shown.commands;
  end

  always_comb begin
    for (int unsigned i = 0; i < WindowWords; i++) cmd_packet_o[32*i+:32] = hwif_out.CMD_WINDOW[i].word.value;
  end

  // The generated strobes are high in the cycle of the write; one cycle later the tail holds the new value, and the pulse
  // of a write of CONTROL in the cycle before is over. So writes act in their order, one in a cycle.
  always_ff @(posedge regs_clk) begin
    if (!rst_ni) begin
      ring_tail_write_q <= 1'b0;
      doorbell_q        <= 1'b0;
    end else begin
      ring_tail_write_q <= hwif_out.RING_TAIL.slot.swmod;
      doorbell_q        <= hwif_out.DOORBELL.submit.swmod;
    end
  end

  assign soft_reset_o      = soft_reset;
  assign clear_error_o     = hwif_out.CONTROL.clear_error.value;
  assign ring_enable_o     = hwif_out.CONTROL.ring_enable.value;
  assign cmd_doorbell_o    = doorbell_q;
  assign ring_base_o       = hwif_out.RING_BASE.address.value;
  assign ring_base_high_o  = hwif_out.RING_BASE_HIGH.address.value;
  assign ring_size_o       = hwif_out.RING_SIZE.slots.value;
  assign ring_tail_o       = hwif_out.RING_TAIL.slot.value;
  assign ring_tail_write_o = ring_tail_write_q;
  assign guard_base_o      = {hwif_out.GUARD_BASE.address.value, 6'd0};
  assign guard_base_high_o = hwif_out.GUARD_BASE_HIGH.address.value;
  assign guard_size_o      = {hwif_out.GUARD_SIZE.blocks.value, 6'd0};
  assign watchdog_o        = hwif_out.WATCHDOG.cycles.value;
  assign axi_prot_o        = hwif_out.AXI_PROT.prot.value;

  assign irq_o = (hwif_out.IRQ_STATUS.done.value && hwif_out.IRQ_ENABLE.done.value) ||
                 (hwif_out.IRQ_STATUS.error.value && hwif_out.IRQ_ENABLE.error.value) ||
                 (hwif_out.IRQ_STATUS.command.value && hwif_out.IRQ_ENABLE.command.value);

  `NPU_ASSERT_HANDSHAKE(BHolds, s_axil_bvalid, s_axil_bready, s_axil_bresp,
                        "a write response changed or was withdrawn before the host took it")
  `NPU_ASSERT_HANDSHAKE(RHolds, s_axil_rvalid, s_axil_rready, {s_axil_rdata, s_axil_rresp},
                        "read data changed or was withdrawn before the host took it")
  // A soft reset drops events; a write that clears a flag does not.
  `NPU_ASSERT_NEXT(DoneKept, irq_done_i && !return_to_reset, hwif_out.IRQ_STATUS.done.value,
                   "a done event did not set its flag, in the clock of a clear or in any other one")
  `NPU_ASSERT_NEXT(ErrorKept, irq_error_i && !return_to_reset, hwif_out.IRQ_STATUS.error.value,
                   "an error event did not set its flag, in the clock of a clear or in any other one")
  `NPU_ASSERT_NEXT(CommandKept, irq_command_i && !return_to_reset, hwif_out.IRQ_STATUS.command.value,
                   "a command event did not set its flag, in the clock of a clear or in any other one")
endmodule
