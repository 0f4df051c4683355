// The ports of register_block. A wrapper has the inputs as its own; what the block drives are fields of a structure.
`ifndef REGISTER_BLOCK_SVH
`define REGISTER_BLOCK_SVH

`define REGISTER_BLOCK_INPUTS \
  input logic         clk_i, \
  input logic         rst_ni, \
  input logic [ 15:0] awaddr, \
  input logic         awvalid, \
  input logic [ 31:0] wdata, \
  input logic [  3:0] wstrb, \
  input logic         wvalid, \
  input logic         bready, \
  input logic [ 15:0] araddr, \
  input logic         arvalid, \
  input logic         rready, \
  input logic         ring_enable_clear, \
  input logic         ring_tail_clear, \
  input logic         ring_tail_set, \
  input logic [ 15:0] ring_tail_value, \
  input logic [ 15:0] ring_head, \
  input logic [  1:0] state, \
  input logic [  7:0] queue_level, \
  input logic         queue_full, \
  input logic [  7:0] error_code, \
  input logic [ 31:0] error_index, \
  input logic [ 63:0] error_addr, \
  input logic [ 31:0] retired, \
  input logic         irq_done, \
  input logic         irq_error, \
  input logic         irq_command, \
  input perf_events_t events

`define REGISTER_BLOCK_OUTPUTS \
  typedef struct packed { \
    logic awready, wready, arready, bvalid, rvalid; \
    logic [1:0] bresp, rresp; \
    logic [31:0] rdata; \
    logic soft_reset, clear_error, ring_enable, doorbell, ring_tail_write, irq; \
    logic [511:0] packet; \
    logic [31:0] ring_base, guard_base, guard_size, watchdog; \
    logic [2:0] ring_base_high, guard_base_high; \
    logic [15:0] ring_size, ring_tail; \
    logic [2:0] axi_prot; \
  } outputs_t;

// All but clock, reset and test_enable_i.
`define REGISTER_BLOCK_PORTS(Outputs) \
  .s_axil_awaddr      (awaddr), \
  .s_axil_awprot      ('0), \
  .s_axil_awvalid     (awvalid), \
  .s_axil_awready     (Outputs.awready), \
  .s_axil_wdata       (wdata), \
  .s_axil_wstrb       (wstrb), \
  .s_axil_wvalid      (wvalid), \
  .s_axil_wready      (Outputs.wready), \
  .s_axil_bresp       (Outputs.bresp), \
  .s_axil_bvalid      (Outputs.bvalid), \
  .s_axil_bready      (bready), \
  .s_axil_araddr      (araddr), \
  .s_axil_arprot      ('0), \
  .s_axil_arvalid     (arvalid), \
  .s_axil_arready     (Outputs.arready), \
  .s_axil_rdata       (Outputs.rdata), \
  .s_axil_rresp       (Outputs.rresp), \
  .s_axil_rvalid      (Outputs.rvalid), \
  .s_axil_rready      (rready), \
  .soft_reset_o       (Outputs.soft_reset), \
  .clear_error_o      (Outputs.clear_error), \
  .ring_enable_o      (Outputs.ring_enable), \
  .ring_enable_clear_i(ring_enable_clear), \
  .cmd_packet_o       (Outputs.packet), \
  .cmd_doorbell_o     (Outputs.doorbell), \
  .ring_base_o        (Outputs.ring_base), \
  .ring_base_high_o   (Outputs.ring_base_high), \
  .ring_size_o        (Outputs.ring_size), \
  .ring_tail_o        (Outputs.ring_tail), \
  .ring_tail_write_o  (Outputs.ring_tail_write), \
  .ring_tail_clear_i  (ring_tail_clear), \
  .ring_tail_set_i    (ring_tail_set), \
  .ring_tail_value_i  (ring_tail_value), \
  .ring_head_i        (ring_head), \
  .guard_base_o       (Outputs.guard_base), \
  .guard_base_high_o  (Outputs.guard_base_high), \
  .guard_size_o       (Outputs.guard_size), \
  .watchdog_o         (Outputs.watchdog), \
  .axi_prot_o         (Outputs.axi_prot), \
  .state_i            (state), \
  .queue_level_i      (queue_level), \
  .queue_full_i       (queue_full), \
  .error_code_i       (error_code), \
  .error_index_i      (error_index), \
  .error_addr_i       (error_addr), \
  .retired_i          (retired), \
  .irq_done_i         (irq_done), \
  .irq_error_i        (irq_error), \
  .irq_command_i      (irq_command), \
  .irq_o              (Outputs.irq), \
  .events_i           (events)

`endif
