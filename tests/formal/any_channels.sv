// The channels of a memory_controller that is proven: any that keep their contract. An address that is offered stays, and
// the data of a write whose address was taken is at hand. Their choices come in with their descriptors.
module dma_read
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth   = 256,
    parameter int unsigned BufferBeats = 128
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 abort_i,
    input  logic                 desc_valid_i,
    output logic                 desc_ready_o,
    input  dma_desc_t            desc_i,
    output logic                 data_valid_o,
    input  logic                 data_ready_i,
    output logic [DataWidth-1:0] data_o,
    output logic                 data_row_last_o,
    output logic                 ar_valid_o,
    input  logic                 ar_ready_i,
    output logic [31:0]          ar_addr_o,
    output logic [7:0]           ar_len_o,
    input  logic                 r_valid_i,
    input  logic [DataWidth-1:0] r_data_i,
    input  logic [1:0]           r_resp_i,
    input  logic                 r_last_i,
    output logic                 idle_o,
    output logic                 error_o,
    output logic [31:0]          error_addr_o
);
  always_ff @(posedge clk_i) begin
    if (!rst_ni) ar_valid_o <= 1'b0;
    else if (!ar_valid_o || ar_ready_i) ar_valid_o <= desc_valid_i;
    if (!ar_valid_o || ar_ready_i) ar_addr_o <= desc_i.addr;
  end
  assign ar_len_o = '0;
  assign {desc_ready_o, data_valid_o, data_o, data_row_last_o, idle_o, error_o, error_addr_o} = '0;
endmodule

module dma_write
  import npu_pkg::*;
#(
    parameter int unsigned DataWidth   = 256,
    parameter int unsigned BufferBeats = 64,
    parameter int unsigned Bursts      = 64
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic                   abort_i,
    input  logic                   desc_valid_i,
    output logic                   desc_ready_o,
    input  dma_desc_t              desc_i,
    input  logic                   data_valid_i,
    output logic                   data_ready_o,
    input  logic [DataWidth-1:0]   data_i,
    output logic                   aw_valid_o,
    input  logic                   aw_ready_i,
    output logic [31:0]            aw_addr_o,
    output logic [7:0]             aw_len_o,
    output logic                   w_valid_o,
    input  logic                   w_ready_i,
    output logic [DataWidth-1:0]   w_data_o,
    output logic [DataWidth/8-1:0] w_strb_o,
    output logic                   w_last_o,
    input  logic                   b_valid_i,
    input  logic [1:0]             b_resp_i,
    output logic                   idle_o,
    output logic                   error_o,
    output logic [31:0]            error_addr_o
);
  logic [4:0] owed_q;  // bursts whose address was taken and whose last beat was not
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      aw_valid_o <= 1'b0;
      owed_q     <= '0;
    end else begin
      if (!aw_valid_o || aw_ready_i) aw_valid_o <= desc_valid_i;
      owed_q <= owed_q + 5'(aw_valid_o && aw_ready_i) - 5'(w_valid_o && w_ready_i && w_last_o);
    end
    if (!aw_valid_o || aw_ready_i) aw_addr_o <= desc_i.addr;
  end
  assign w_valid_o = owed_q != '0;
  assign w_last_o  = data_valid_i;  // after any number of beats
  assign w_data_o  = data_i;
  assign w_strb_o  = '1;
  assign aw_len_o  = '0;
  assign {desc_ready_o, data_ready_o, idle_o, error_o, error_addr_o} = '0;
endmodule
