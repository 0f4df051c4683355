// Counts what each performance counter should count (docs/performance.md has the equations) and asserts that every read
// of a counter returns exactly that. So any test that reads a counter checks all clocks before the read.
//
// Beats are counted at the ports. Facts that no port shows come from the blocks themselves, before the device derives
// its events from them.
module counter_checker
  import board_pkg::*;
  import npu_pkg::*;
(
    input logic               clk_i,
    input logic               rst_ni,
    input logic               clear_i,           // all counts become 0; nothing of this clock counts
    // the device
    input logic [1:0]         state_i,           // as in STATUS
    input logic [31:0]        retired_i,         // as in RETIRED
    input logic               abort_i,           // the commands under way are aborted
    input logic [Engines-1:0] start_i,           // a command begins in an engine
    input logic [Engines-1:0] done_i,            // the oldest one of an engine has its result in memory
    input matrix_command_t    matrix_i,          // the product that begins
    input logic               matrix_walks_i,    // rows of a product are yet to enter the array
    input logic               matrix_fed_i,      // a row and its weights are at the array
    input logic               matrix_room_i,     // there is room for its sums and results
    input logic               vector_starved_i,  // the lanes, or a copy, wait for operand data
    input logic               vector_blocked_i,  // the lanes, or a copy, wait for room behind them
    // s_axi
    input logic               host_wvalid_i,
    input logic               host_wready_i,
    input logic               host_rvalid_i,
    input logic               host_rready_i,
    // m_axi
    input logic               awvalid_i,
    input logic               awready_i,
    input logic               wvalid_i,
    input logic               wready_i,
    input logic               arvalid_i,
    input logic               arready_i,
    input logic               rvalid_i,
    input logic               rready_i,
    // registers: a read takes its value in this clock
    input logic               sample_i,
    input logic [15:0]        sample_addr_i,
    input logic [31:0]        sample_data_i
);
  localparam logic [15:0] First = RegCycles, End = First + 16'(8 * Counters);

  logic [Counters-1:0][63:0] count_q;
  logic [1:0] inside_q [Engines];  // commands in an engine
  logic matrix_busy, host_read, host_write;
  assign matrix_busy = inside_q[EngineMatrix] != '0;
  assign host_read   = host_rvalid_i && host_rready_i;
  assign host_write  = host_wvalid_i && host_wready_i;

  always @(posedge clk_i) begin
    if (!rst_ni || clear_i) begin
      count_q <= '0;
    end else begin
      count_q[CounterCycles] <= count_q[CounterCycles] + 64'd1;
      if (state_i == StateBusy) count_q[CounterBusyCycles] <= count_q[CounterBusyCycles] + 64'd1;
      if (matrix_busy) count_q[CounterMatrixBusy] <= count_q[CounterMatrixBusy] + 64'd1;
      if (inside_q[EngineVector] != '0) count_q[CounterVectorBusy] <= count_q[CounterVectorBusy] + 64'd1;
      if (rvalid_i && rready_i) count_q[CounterReadBeats] <= count_q[CounterReadBeats] + 64'd1;
      if (wvalid_i && wready_i) count_q[CounterWriteBeats] <= count_q[CounterWriteBeats] + 64'd1;
      if ((matrix_busy && matrix_walks_i && !matrix_fed_i) || vector_starved_i)
        count_q[CounterStallRead] <= count_q[CounterStallRead] + 64'd1;
      if ((matrix_busy && matrix_fed_i && !matrix_room_i) || vector_blocked_i)
        count_q[CounterStallWrite] <= count_q[CounterStallWrite] + 64'd1;
      if ((arvalid_i && !arready_i) || (awvalid_i && !awready_i) || (wvalid_i && !wready_i))
        count_q[CounterStallBus] <= count_q[CounterStallBus] + 64'd1;
      if (host_read || host_write)
        count_q[CounterHostBeats] <= count_q[CounterHostBeats] + 64'(host_read) + 64'(host_write);
    end
  end

  always @(posedge clk_i) begin
    for (int unsigned i = 0; i < Engines; i++) begin
      if (!rst_ni || abort_i) inside_q[i] <= '0;
      else if (start_i[i] != done_i[i]) inside_q[i] <= start_i[i] ? inside_q[i] + 2'd1 : inside_q[i] - 2'd1;
    end
  end

  // COMMANDS is the increase of RETIRED since the clear, from its value after the clear's edge.
  logic [31:0] retired_before_q, commands;
  logic cleared_q;
  always @(posedge clk_i) begin
    cleared_q <= !rst_ni || clear_i;
    if (cleared_q) retired_before_q <= retired_i;
  end
  assign commands = cleared_q ? '0 : retired_i - retired_before_q;

  // ---- products: M * K * N * batch of every command that is complete -----------------------
  // A command under way has counted some part of its products. So had one that was aborted or that a clear interrupted.
  typedef struct packed {
    logic [63:0] macs;
    logic        partly;
  } product_t;
  product_t product_q [2];  // by the lowest bit of their numbers
  logic [1:0] accepted_q, finished_q;
  logic [63:0] complete_q, partial_q;  // sums of commands that count in full, and of those that may in part
  logic [63:0] under_way;
  assign under_way = ((inside_q[EngineMatrix] != '0) ? product_q[finished_q[0]].macs : '0)
                     + ((inside_q[EngineMatrix] == 2'd2) ? product_q[!finished_q[0]].macs : '0);

  always @(posedge clk_i) begin
    if (start_i[EngineMatrix]) begin
      product_q[accepted_q[0]] <= '{macs: 64'(matrix_i.m) * 64'(matrix_i.k) * 64'(matrix_i.n)
                                          * 64'(matrix_i.batch0) * 64'(matrix_i.batch1), partly: 1'b0};
      accepted_q <= accepted_q + 2'd1;
    end
    if (done_i[EngineMatrix]) begin
      finished_q <= finished_q + 2'd1;
      if (product_q[finished_q[0]].partly) partial_q <= partial_q + product_q[finished_q[0]].macs;
      else complete_q <= complete_q + product_q[finished_q[0]].macs;
    end
    if (!rst_ni || abort_i) begin
      accepted_q <= '0;
      finished_q <= '0;
      partial_q  <= partial_q + under_way;
    end
    if (!rst_ni || clear_i) begin
      complete_q <= '0;
      partial_q  <= '0;
      for (int unsigned i = 0; i < 2; i++) begin
        if (!(start_i[EngineMatrix] && accepted_q[0] == 1'(i))) product_q[i].partly <= 1'b1;
      end
    end
  end

  // ---- reads ---------------------------------------------------------------------------------
  // A read of the low word latches the high one. No reset clears the latch.
  logic [31:0] high_q [Counters];
  logic [Counters-1:0] kept_q;

  initial kept_q = '0;

  always @(posedge clk_i) begin
    if (sample_i && sample_addr_i >= First && sample_addr_i < End) begin
      automatic int unsigned which = 32'(sample_addr_i - First) >> 3;
      automatic logic [63:0] expected = (which == CounterCommands) ? 64'(commands) : count_q[which];
      if (which == CounterMacs) begin
        // The only number within the bounds that has this low word.
        expected = complete_q + 64'(32'(sample_data_i - complete_q[31:0]));
        if (rst_ni && !sample_addr_i[2])
          MacsExact : assert (expected - complete_q <= partial_q + under_way)
          else $error("MACS is %0d, of products that make %0d, and %0d of those that count in part", sample_data_i,
                      complete_q, partial_q + under_way);
      end
      if (!sample_addr_i[2]) begin
        kept_q[which] <= rst_ni;  // a read that meets the reset has no answer
        high_q[which] <= expected[63:32];
        if (rst_ni)
          LowExact : assert (sample_data_i == expected[31:0])
          else $error("counter %0d is %0d, but the board counted %0d", which, sample_data_i, expected[31:0]);
      end else if (rst_ni && kept_q[which]) begin
        HighExact : assert (sample_data_i == high_q[which])
        else $error("the high word of counter %0d is %0d, but the board counted %0d", which, sample_data_i, high_q[which]);
      end
    end
  end

  logic unused;
  assign unused = &{1'b0, matrix_i};
endmodule
