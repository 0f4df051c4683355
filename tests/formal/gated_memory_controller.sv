// memory_controller, whose arbiters and m_axi registers rest, beside one in which they never do: host, channels and memory
// see no difference, whatever they do.
`include "formal.svh"
`include "axi_types.svh"

module gated_memory_controller_formal
  import npu_pkg::*;
(
    input logic                 clk_i,
    input logic                 rst_ni,
    input logic [NumReads-1:0]  read_wish,   // what the channels want next
    input logic [NumWrites-1:0] write_wish,
    input logic [NumWrites-1:0] write_last,
    input logic [1:0]           address,
    input logic [2:0]           prot,
    input logic                 host_awvalid,
    input logic [3:0]           host_awid,
    input logic                 host_wvalid,
    input logic                 host_wlast,
    input logic [7:0]           host_wdata,
    input logic                 host_arvalid,
    input logic                 m_awready,
    input logic                 m_wready,
    input logic                 m_arready,
    input logic [7:0]           m_bid,
    input logic                 m_bvalid,
    input logic [7:0]           m_rid,
    input logic                 m_rvalid
);
  localparam int unsigned DataWidth = 16;
  localparam int unsigned Gated     = 0;
  localparam int unsigned Open      = 1;
  `AXI_TYPES(4, DataWidth)

  logic rd_next [NumReads], rd_desc_valid [NumReads], rd_ready [NumReads];
  logic wr_desc_valid [NumWrites], wr_valid [NumWrites];
  dma_desc_t rd_desc [NumReads], wr_desc [NumWrites];
  logic [DataWidth-1:0] wr_data [NumWrites];
  for (genvar i = 0; i < NumReads; i++) begin : g_reads
    assign rd_next[i]       = 1'b0;
    assign rd_desc_valid[i] = read_wish[i];
    assign rd_ready[i]      = 1'b1;
    assign rd_desc[i]       = '{addr: 32'(address), default: '0};
  end
  for (genvar i = 0; i < NumWrites; i++) begin : g_writes
    assign wr_desc_valid[i] = write_wish[i];
    assign wr_valid[i]      = write_last[i];
    assign wr_desc[i]       = '{addr: 32'(address), default: '0};
    assign wr_data[i]       = DataWidth'(address);
  end

  typedef struct packed {
    logic host_awready, host_wready, host_bvalid, host_arready, host_rvalid;
    logic [7:0] awid, arid, awlen, arlen;
    logic [31:0] awaddr, araddr;
    logic [2:0] awsize, arsize, awprot, arprot;
    logic [1:0] awburst, arburst;
    logic awvalid, wvalid, wlast, bready, arvalid, rready;
    logic [DataWidth-1:0] wdata;
    logic [DataWidth/8-1:0] wstrb;
  } outputs_t;
  outputs_t outputs [2];

  for (genvar i = 0; i < 2; i++) begin : g_block
    memory_controller #(
        .DataWidth       (DataWidth),
        .WritesAhead     (4),
        .axi_address_t   (axi_address_t),
        .axi_write_data_t(axi_write_data_t),
        .axi_response_t  (axi_response_t),
        .axi_read_data_t (axi_read_data_t)
    ) dut (
        .clk_i,
        .rst_ni,
        .test_enable_i     (1'(i == Open)),
        .prot_i            (prot),
        .abort_i           (1'b0),
        .idle_o            (),
        .write_idle_o      (),
        .rd_next_i         (rd_next),
        .error_o           (),
        .error_write_o     (),
        .error_addr_o      (),
        .fetch_error_o     (),
        .fetch_error_addr_o(),
        .rd_desc_valid_i   (rd_desc_valid),
        .rd_desc_ready_o   (),
        .rd_desc_i         (rd_desc),
        .rd_valid_o        (),
        .rd_ready_i        (rd_ready),
        .rd_data_o         (),
        .rd_row_last_o     (),
        .wr_desc_valid_i   (wr_desc_valid),
        .wr_desc_ready_o   (),
        .wr_desc_i         (wr_desc),
        .wr_valid_i        (wr_valid),
        .wr_ready_o        (),
        .wr_data_i         (wr_data),
        .host_aw_i         ('{id: host_awid, addr: 32'(address), default: '0}),
        .host_awvalid_i    (host_awvalid),
        .host_awready_o    (outputs[i].host_awready),
        .host_w_i          ('{data: DataWidth'(host_wdata), strb: '1, last: host_wlast}),
        .host_wvalid_i     (host_wvalid),
        .host_wready_o     (outputs[i].host_wready),
        .host_b_o          (),
        .host_bvalid_o     (outputs[i].host_bvalid),
        .host_ar_i         ('{id: host_awid, addr: 32'(address), default: '0}),
        .host_arvalid_i    (host_arvalid),
        .host_arready_o    (outputs[i].host_arready),
        .host_r_o          (),
        .host_rvalid_o     (outputs[i].host_rvalid),
        .m_axi_awid        (outputs[i].awid),
        .m_axi_awaddr      (outputs[i].awaddr),
        .m_axi_awlen       (outputs[i].awlen),
        .m_axi_awsize      (outputs[i].awsize),
        .m_axi_awburst     (outputs[i].awburst),
        .m_axi_awprot      (outputs[i].awprot),
        .m_axi_awvalid     (outputs[i].awvalid),
        .m_axi_awready     (m_awready),
        .m_axi_wdata       (outputs[i].wdata),
        .m_axi_wstrb       (outputs[i].wstrb),
        .m_axi_wlast       (outputs[i].wlast),
        .m_axi_wvalid      (outputs[i].wvalid),
        .m_axi_wready      (m_wready),
        .m_axi_bid         (m_bid),
        .m_axi_bresp       ('0),
        .m_axi_bvalid      (m_bvalid),
        .m_axi_bready      (outputs[i].bready),
        .m_axi_arid        (outputs[i].arid),
        .m_axi_araddr      (outputs[i].araddr),
        .m_axi_arlen       (outputs[i].arlen),
        .m_axi_arsize      (outputs[i].arsize),
        .m_axi_arburst     (outputs[i].arburst),
        .m_axi_arprot      (outputs[i].arprot),
        .m_axi_arvalid     (outputs[i].arvalid),
        .m_axi_arready     (m_arready),
        .m_axi_rid         (m_rid),
        .m_axi_rdata       ('0),
        .m_axi_rresp       ('0),
        .m_axi_rlast       (1'b1),
        .m_axi_rvalid      (m_rvalid),
        .m_axi_rready      (outputs[i].rready)
    );
  end

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET
  always_comb assume (clk_i);

  logic used_q;  // something was on its way to memory since reset
  always_ff @(posedge clk_i) used_q <= rst_ni && (used_q || g_block[Gated].dut.bus_busy);

  // ---------------------------------------------------------------- proven
  always_comb begin
    if (rst_ni) begin
      SameOutputs : assert (outputs[Gated] == outputs[Open]);
      Rests       : cover (used_q && !g_block[Gated].dut.bus_busy);
      WakesAgain  : cover (used_q && outputs[Gated].awvalid && outputs[Gated].arvalid && outputs[Gated].wvalid);
    end
  end
endmodule
