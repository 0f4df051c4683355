// register_block, whose registers rest, beside one whose registers never do: the host and the device see no difference.
`include "formal.svh"

module gated_register_block_formal
  import npu_perf_pkg::*;
(
    input logic         clk_i,
    input logic         rst_ni,
    input logic [ 15:0] awaddr,
    input logic         awvalid,
    input logic [ 31:0] wdata,
    input logic [  3:0] wstrb,
    input logic         wvalid,
    input logic         bready,
    input logic [ 15:0] araddr,
    input logic         arvalid,
    input logic         rready,
    input logic         ring_enable_clear,
    input logic         ring_tail_clear,
    input logic         ring_tail_set,
    input logic [ 15:0] ring_tail_value,
    input logic [ 15:0] ring_head,
    input logic [  1:0] state,
    input logic [  7:0] queue_level,
    input logic         queue_full,
    input logic [  7:0] error_code,
    input logic [ 31:0] error_index,
    input logic [ 63:0] error_addr,
    input logic [ 31:0] retired,
    input logic         irq_done,
    input logic         irq_error,
    input logic         irq_command,
    input perf_events_t events
);
  localparam int unsigned Gated = 0;
  localparam int unsigned Open  = 1;

  typedef struct packed {
    logic awready, wready, arready, bvalid, rvalid;
    logic [1:0] bresp, rresp;
    logic [31:0] rdata;
    logic soft_reset, clear_error, ring_enable, doorbell, ring_tail_write, irq;
    logic [511:0] packet;
    logic [31:0] ring_base, guard_base, guard_size, watchdog;
    logic [15:0] ring_size, ring_tail;
    logic [2:0] axi_prot;
  } outputs_t;
  outputs_t outputs [2];

  for (genvar i = 0; i < 2; i++) begin : g_block
    register_block dut (
        .clk_i,
        .rst_ni,
        .test_enable_i      (1'(i == Open)),
        .s_axil_awaddr      (awaddr),
        .s_axil_awprot      ('0),
        .s_axil_awvalid     (awvalid),
        .s_axil_awready     (outputs[i].awready),
        .s_axil_wdata       (wdata),
        .s_axil_wstrb       (wstrb),
        .s_axil_wvalid      (wvalid),
        .s_axil_wready      (outputs[i].wready),
        .s_axil_bresp       (outputs[i].bresp),
        .s_axil_bvalid      (outputs[i].bvalid),
        .s_axil_bready      (bready),
        .s_axil_araddr      (araddr),
        .s_axil_arprot      ('0),
        .s_axil_arvalid     (arvalid),
        .s_axil_arready     (outputs[i].arready),
        .s_axil_rdata       (outputs[i].rdata),
        .s_axil_rresp       (outputs[i].rresp),
        .s_axil_rvalid      (outputs[i].rvalid),
        .s_axil_rready      (rready),
        .soft_reset_o       (outputs[i].soft_reset),
        .clear_error_o      (outputs[i].clear_error),
        .ring_enable_o      (outputs[i].ring_enable),
        .ring_enable_clear_i(ring_enable_clear),
        .cmd_packet_o       (outputs[i].packet),
        .cmd_doorbell_o     (outputs[i].doorbell),
        .ring_base_o        (outputs[i].ring_base),
        .ring_size_o        (outputs[i].ring_size),
        .ring_tail_o        (outputs[i].ring_tail),
        .ring_tail_write_o  (outputs[i].ring_tail_write),
        .ring_tail_clear_i  (ring_tail_clear),
        .ring_tail_set_i    (ring_tail_set),
        .ring_tail_value_i  (ring_tail_value),
        .ring_head_i        (ring_head),
        .guard_base_o       (outputs[i].guard_base),
        .guard_size_o       (outputs[i].guard_size),
        .watchdog_o         (outputs[i].watchdog),
        .axi_prot_o         (outputs[i].axi_prot),
        .state_i            (state),
        .queue_level_i      (queue_level),
        .queue_full_i       (queue_full),
        .error_code_i       (error_code),
        .error_index_i      (error_index),
        .error_addr_i       (error_addr),
        .retired_i          (retired),
        .irq_done_i         (irq_done),
        .irq_error_i        (irq_error),
        .irq_command_i      (irq_command),
        .irq_o              (outputs[i].irq),
        .events_i           (events)
    );
  end

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET
  always_comb assume (clk_i);

  // ---------------------------------------------------------------- proven
  always_comb begin
    if (rst_ni) begin
      SameOutputs : assert (outputs[Gated] == outputs[Open]);
      Rests       : cover (!g_block[Gated].dut.awake);
      WakesAgain  : cover (g_block[Gated].dut.left_q == '0 && irq_done);
    end
  end
endmodule
