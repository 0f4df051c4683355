// Names the transfers of one operand of a linear command, one for each batch,
// inner batches first.
// Reset and abort state: none.
module batch_walker
  import npu_pkg::*;
(
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        abort_i,
    input  logic        start_i,      // pulse, with the operand
    input  operand_t    operand_i,    // stable until the last transfer is taken
    input  logic [15:0] batch0_i,
    input  logic [15:0] batch1_i,
    input  logic [31:0] rows_i,
    input  logic [31:0] row_bytes_i,
    output logic        desc_valid_o,
    input  logic        desc_ready_i,
    output dma_desc_t   desc_o
);
  logic valid_q, last0, last1;
  logic [15:0] batch0_q, batch1_q;
  logic [31:0] addr_q, outer_q;

  assign last0 = batch0_q == 16'd1;
  assign last1 = batch1_q == 16'd1;
  assign desc_valid_o = valid_q;
  assign desc_o = '{addr: addr_q, row_bytes: row_bytes_i, rows: rows_i, stride: operand_i.row_stride};

  always_ff @(posedge clk_i) begin
    if (!rst_ni || abort_i) valid_q <= 1'b0;
    else if (start_i) valid_q <= 1'b1;
    else if (desc_ready_i && last0 && last1) valid_q <= 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      batch0_q <= batch0_i;
      batch1_q <= batch1_i;
      addr_q   <= operand_i.addr;
      outer_q  <= operand_i.addr;
    end else if (valid_q && desc_ready_i) begin
      batch0_q <= last0 ? batch0_i : batch0_q - 16'd1;
      addr_q   <= last0 ? outer_q + operand_i.batch1_stride : addr_q + operand_i.batch0_stride;
      if (last0) begin
        batch1_q <= batch1_q - 16'd1;
        outer_q  <= outer_q + operand_i.batch1_stride;
      end
    end
  end
endmodule
