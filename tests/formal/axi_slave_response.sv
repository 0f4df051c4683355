// axi_slave, response times: with neighbours that never make it wait, every burst of up to two beats is answered within
// `WriteLimit` or `ReadLimit` clocks, forwarded or refused, whatever precedes it.
`include "formal.svh"
`include "axi_slave.svh"
`include "axi_types.svh"

module axi_slave_response_formal #(
    parameter int unsigned DataWidth  = 16,
    parameter int unsigned WriteLimit = 12,
    parameter int unsigned ReadLimit  = 10
) (
    input logic                   clk_i,
    input logic                   rst_ni,
    input logic [           31:0] s_awaddr,
    input logic [            1:0] s_awburst,
    input logic                   s_awvalid,
    input logic [  DataWidth-1:0] s_wdata,
    input logic                   s_wlast,
    input logic [           31:0] s_araddr,
    input logic                   s_arlen,
    input logic [            1:0] s_arburst,
    input logic                   s_arvalid,
    input logic                   m_rlast,
    input logic                   tag_aw,     // which burst is followed: any one of each direction
    input logic                   tag_ar
);
  localparam int unsigned MaxOutstanding = 2;
  typedef logic [3:0] count_t;

  `AXI_TYPES(1, DataWidth)
  axi_address_t    s_aw, m_aw, s_ar, m_ar;
  axi_write_data_t s_w, m_w;
  axi_response_t   s_b, m_b;
  axi_read_data_t  s_r, m_r;

  assign s_aw = '{addr: s_awaddr, len: 8'd1, size: 3'd1, burst: s_awburst, default: '0};
  assign s_w  = '{data: s_wdata, strb: '1, last: s_wlast};
  assign m_b  = '0;
  assign s_ar = '{addr: s_araddr, len: {7'd0, s_arlen}, size: 3'd1, burst: s_arburst, default: '0};
  assign m_r  = '{last: m_rlast, default: '0};

  // Host and memory always take what is offered; the host always offers data.
  logic s_wvalid, s_bready, m_awready, m_wready, s_rready, m_arready;
  assign {s_wvalid, s_bready, m_awready, m_wready, s_rready, m_arready} = '1;

  logic s_awready, s_wready, s_bvalid, s_arready, s_rvalid;
  logic m_awvalid, m_wvalid, m_bvalid, m_bready, m_arvalid, m_rvalid, m_rready;

  axi_slave #(
      .DataWidth       (DataWidth),
      .IdWidth         (1),
      .MaxOutstanding  (MaxOutstanding),
      .axi_address_t   (axi_address_t),
      .axi_write_data_t(axi_write_data_t),
      .axi_response_t  (axi_response_t),
      .axi_read_data_t (axi_read_data_t)
  ) dut (
      .clk_i,
      .rst_ni,
      .busy_o(),
      `AXI_SLAVE_WRITES,
      `AXI_SLAVE_READS
  );

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET

  // Each burst of the host has two beats.
  logic second_beat_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) second_beat_q <= 1'b0;
    else if (s_wready) second_beat_q <= !second_beat_q;
  end
  always_comb assume (s_wlast == second_beat_q);

  // The memory answers a write in the clock after it has the address and the last beat, and a read, of one or two
  // beats, from the clock after its address on, without a pause.
  count_t owed_address_q, owed_data_q, owed_read_q;
  logic   second_read_q, b_go, r_go;
  assign m_bvalid = owed_address_q != '0 && owed_data_q != '0;
  assign m_rvalid = owed_read_q != '0;
  assign b_go     = m_bvalid && m_bready;
  assign r_go     = m_rvalid && m_rready;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      owed_address_q <= '0;
      owed_data_q    <= '0;
      owed_read_q    <= '0;
      second_read_q  <= 1'b0;
    end else begin
      owed_address_q <= owed_address_q + count_t'(m_awvalid) - count_t'(b_go);
      owed_data_q    <= owed_data_q + count_t'(m_wvalid && m_w.last) - count_t'(b_go);
      owed_read_q    <= owed_read_q + count_t'(m_arvalid) - count_t'(r_go && m_rlast);
      if (r_go) second_read_q <= !m_rlast;
    end
  end
  always_comb assume (!second_read_q || m_rlast);

  // ---------------------------------------------------------------- the bursts that are followed
  count_t     writes_q, reads_q;              // bursts without an answer
  logic       write_q, read_q;
  count_t     write_ahead_q, read_ahead_q;    // bursts before the followed one
  logic [4:0] write_clocks_q, read_clocks_q;  // since its address was taken

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      writes_q       <= '0;
      reads_q        <= '0;
      write_q        <= 1'b0;
      read_q         <= 1'b0;
      write_clocks_q <= '0;
      read_clocks_q  <= '0;
    end else begin
      writes_q <= writes_q + count_t'(s_awvalid && s_awready) - count_t'(s_bvalid);
      reads_q  <= reads_q + count_t'(s_arvalid && s_arready) - count_t'(s_rvalid && s_r.last);
      if (write_q) begin
        write_clocks_q <= write_clocks_q + 1'b1;
        if (s_bvalid) write_ahead_q <= write_ahead_q - 1'b1;
        if (s_bvalid && write_ahead_q == '0) write_q <= 1'b0;
      end else if (s_awvalid && s_awready && tag_aw) begin
        write_q        <= 1'b1;
        write_ahead_q  <= writes_q - count_t'(s_bvalid);
        write_clocks_q <= 5'd1;
      end
      if (read_q) begin
        read_clocks_q <= read_clocks_q + 1'b1;
        if (s_rvalid && s_r.last) read_ahead_q <= read_ahead_q - 1'b1;
        if (s_rvalid && s_r.last && read_ahead_q == '0) read_q <= 1'b0;
      end else if (s_arvalid && s_arready && tag_ar) begin
        read_q        <= 1'b1;
        read_ahead_q  <= reads_q - count_t'(s_rvalid && s_r.last);
        read_clocks_q <= 5'd1;
      end
    end
  end

  // ---------------------------------------------------------------- proven
  always_comb begin
    if (rst_ni) begin
      WriteInTime : assert (!write_q || write_clocks_q <= 5'(WriteLimit));
      ReadInTime  : assert (!read_q || read_clocks_q <= 5'(ReadLimit));

      WriteAnswered : cover (write_q && s_bvalid && write_ahead_q == '0);
      ReadAnswered  : cover (read_q && s_rvalid && s_r.last && read_ahead_q == '0);
    end
  end
endmodule
