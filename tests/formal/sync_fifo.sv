// sync_fifo: an element that goes in comes out once, in order, and is offered as soon as those before it are gone.
`include "formal.svh"

module sync_fifo_formal #(
    parameter int unsigned Width = 8,
    parameter int unsigned Depth = 4,
    parameter bit          InRam = 1'b0
) (
    input logic             clk_i,
    input logic             rst_ni,
    input logic             clear_i,
    input logic             push_i,
    input logic [Width-1:0] data_i,
    input logic             pop_i,
    input logic             tag_i     // which element is followed: any one
);
  localparam int unsigned CountBits = $clog2(Depth) + 1;
  typedef logic [CountBits-1:0] count_t;

  logic [Width-1:0] data;
  logic             full, empty;
  count_t           count;

  sync_fifo #(
      .Width(Width),
      .Depth(Depth),
      .InRam(InRam)
  ) dut (
      .clk_i,
      .rst_ni,
      .clear_i,
      .push_i,
      .data_i,
      .pop_i,
      .data_o (data),
      .full_o (full),
      .empty_o(empty),
      .count_o(count)
  );

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET
  // Nobody pushes into a full queue.
  always_comb assume (!(push_i && full));
  // Nobody pops from an empty one.
  always_comb assume (!(pop_i && empty));

  // ---------------------------------------------------------------- the element that is followed
  count_t           inside_q;    // elements
  logic             tagged_q;
  count_t           ahead_q;     // elements before it
  logic [Width-1:0] tag_data_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || clear_i) begin
      inside_q <= '0;
      tagged_q <= 1'b0;
    end else begin
      inside_q <= inside_q + count_t'(push_i) - count_t'(pop_i);
      if (tagged_q) begin
        if (pop_i) ahead_q <= ahead_q - 1'b1;
        if (pop_i && ahead_q == '0) tagged_q <= 1'b0;
      end else if (push_i && tag_i) begin
        tagged_q   <= 1'b1;
        ahead_q    <= inside_q - count_t'(pop_i);
        tag_data_q <= data_i;
      end
    end
  end

  logic [CountBits-2:0] slot;
  assign slot = dut.read_q[CountBits-2:0] + ahead_q[CountBits-2:0];

  // ---------------------------------------------------------------- proven
  always_comb begin
    if (rst_ni) begin
      CountExact : assert (count == inside_q && inside_q <= count_t'(Depth));
      FullExact  : assert (full == (inside_q == count_t'(Depth)));
      EmptyExact : assert (empty == (inside_q == '0));
      if (tagged_q) begin
        TagKept  : assert (ahead_q < inside_q);
        TagOrder : assert (ahead_q != '0 || data == tag_data_q);
      end
      TagLeaves : cover (tagged_q && pop_i && ahead_q == '0);
      Fills     : cover (full);
    end
  end

`ifndef PROPERTIES_ONLY
  // What the induction needs: where the followed element waits.
  if (InRam) begin : g_ram
    always_comb begin
      if (rst_ni && tagged_q) TagSlot : assert (dut.g_ram.u_storage.storage_q[slot] == tag_data_q);
    end
  end else begin : g_registers
    always_comb begin
      if (rst_ni && tagged_q) TagSlot : assert (dut.g_registers.storage_q[slot] == tag_data_q);
    end
  end
`endif
endmodule
