// Elementwise engine: two read streams, float32 lanes, one write stream.
//
// ADD_TENSOR: dst = src1 + alpha * src2, one rounded product and one rounded
// sum an element. MEMCPY: the first read stream goes straight to the write
// stream, any byte alignment, rows and batches with strides.
// Reset and abort state: idle.
module vector_engine
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth = 256,
    parameter int unsigned Lanes     = 16    // float32 lanes
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,

    input  logic                 start_i,    // pulse while idle
    input  command_t             command_i,  // stable from start_i to done_o
    output logic                 busy_o,
    output logic                 done_o,     // pulse: the result is in memory

    // memory controller: two sources, one destination
    output logic                 src1_desc_valid_o,
    input  logic                 src1_desc_ready_i,
    output dma_desc_t            src1_desc_o,
    input  logic                 src1_valid_i,
    output logic                 src1_ready_o,
    input  logic [DataWidth-1:0] src1_data_i,
    input  logic                 src1_row_last_i,
    output logic                 src2_desc_valid_o,
    input  logic                 src2_desc_ready_i,
    output dma_desc_t            src2_desc_o,
    input  logic                 src2_valid_i,
    output logic                 src2_ready_o,
    input  logic [DataWidth-1:0] src2_data_i,
    input  logic                 src2_row_last_i,
    output logic                 dst_desc_valid_o,
    input  logic                 dst_desc_ready_i,
    output dma_desc_t            dst_desc_o,
    output logic                 dst_valid_o,
    input  logic                 dst_ready_i,
    output logic [DataWidth-1:0] dst_data_o,
    input  logic                 dst_idle_i,

    // performance events
    output logic                 stall_read_o,  // the lanes wait for operands
    output logic                 stall_write_o  // the lanes wait for room behind them
);
  logic busy_q;
  assign busy_o = busy_q;

  // ---- one transfer a batch and stream --------------------------------------------------
  // Each stream asks for its batches by itself: reads run ahead of writes.
  localparam int unsigned Src1 = 0, Src2 = 1, Dst = 2, Streams = 3;
  operand_t operands [Streams];
  logic [Streams-1:0] desc_valid, desc_ready, asked_all;
  dma_desc_t desc [Streams];

  assign operands[Src1] = command_i.src1;
  assign operands[Src2] = command_i.src2;
  assign operands[Dst]  = command_i.dst;

  for (genvar s = 0; s < Streams; s++) begin : g_stream
    batch_walker u_walker (
        .clk_i,
        .rst_ni,
        .abort_i,
        .start_i     (start_i && (s != Src2 || command_i.is_add)),
        .operand_i   (operands[s]),
        .batch0_i    (command_i.batch0),
        .batch1_i    (command_i.batch1),
        .rows_i      (command_i.rows),
        .row_bytes_i (command_i.row_bytes),
        .desc_valid_o(desc_valid[s]),
        .desc_ready_i(desc_ready[s]),
        .desc_o      (desc[s])
    );
    assign asked_all[s] = !desc_valid[s];
  end

  assign src1_desc_valid_o = desc_valid[Src1];
  assign src2_desc_valid_o = desc_valid[Src2];
  assign dst_desc_valid_o  = desc_valid[Dst];
  assign src1_desc_o = desc[Src1];
  assign src2_desc_o = desc[Src2];
  assign dst_desc_o  = desc[Dst];
  assign desc_ready  = {dst_desc_ready_i, src2_desc_ready_i, src1_desc_ready_i};

  // ---- lanes --------------------------------------------------------------------------------
  logic add, lanes_in_valid, lanes_in_ready, lanes_out_valid, copy_valid;
  logic [DataWidth-1:0] lanes_out;

  assign add            = command_i.is_add;
  assign lanes_in_valid = busy_q && add && src1_valid_i && src2_valid_i;
  assign copy_valid     = busy_q && !add && src1_valid_i;

  vector_lanes #(
      .DataWidth(DataWidth),
      .Lanes    (Lanes)
  ) u_lanes (
      .clk_i,
      .rst_ni,
      .abort_i,
      .alpha_i    (command_i.alpha),
      .in_valid_i (lanes_in_valid),
      .in_ready_o (lanes_in_ready),
      .in_last_i  (src1_row_last_i),
      .src1_i     (src1_data_i),
      .src2_i     (src2_data_i),
      .out_valid_o(lanes_out_valid),
      .out_ready_i(dst_ready_i),
      .out_o      (lanes_out)
  );

  assign src1_ready_o = add ? (lanes_in_valid && lanes_in_ready) : (busy_q && dst_ready_i);
  assign src2_ready_o = lanes_in_valid && lanes_in_ready;
  assign dst_valid_o  = add ? lanes_out_valid : copy_valid;
  assign dst_data_o   = add ? lanes_out : src1_data_i;

  // ---- state --------------------------------------------------------------------------------
  logic announced;  // every transfer has been handed over, so the write channel's idle is the end
  assign announced = &asked_all;
  assign done_o    = busy_q && announced && dst_idle_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) busy_q <= 1'b0;
    else if (start_i) busy_q <= 1'b1;
    else if (done_o) busy_q <= 1'b0;
  end

  assign stall_read_o  = busy_q && !dst_valid_o && !(&asked_all && dst_idle_i);
  assign stall_write_o = dst_valid_o && !dst_ready_i;

  logic unused;
  assign unused = &{1'b0, src2_row_last_i, command_i};
endmodule
