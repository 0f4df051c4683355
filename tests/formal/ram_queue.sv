// ram_queue: an element that goes in comes out once, in order, unchanged, and shows as soon as the memory can have it.
`include "formal.svh"

module ram_queue_formal #(
    parameter int unsigned Width = 4,
    parameter int unsigned Depth = 4
) (
    input logic             clk_i,
    input logic             rst_ni,
    input logic             valid_i,
    input logic [Width-1:0] data_i,
    input logic             ready_i,
    input logic             tag_i     // which element is followed: any one
);
  localparam int unsigned IndexBits = $clog2(Depth);
  typedef logic [IndexBits+1:0] count_t;

  logic             ready, valid, push, pop;
  logic [Width-1:0] data;
  assign push = valid_i && ready;
  assign pop  = valid && ready_i;

  ram_queue #(
      .Width(Width),
      .Depth(Depth)
  ) dut (
      .clk_i,
      .rst_ni,
      .valid_i,
      .ready_o(ready),
      .data_i,
      .valid_o(valid),
      .ready_i,
      .data_o (data)
  );

  // ---------------------------------------------------------------- assumed
  `FORMAL_RESET

  // ---------------------------------------------------------------- the element that is followed
  count_t           inside_q;  // elements
  logic             tagged_q, pushed_q;
  count_t           ahead_q;   // elements before it
  logic [Width-1:0] tag_data_q;
  logic             kept;

  always_ff @(posedge clk_i) begin
    pushed_q <= rst_ni && push;
    if (!rst_ni) begin
      inside_q <= '0;
      tagged_q <= 1'b0;
    end else begin
      inside_q <= inside_q + count_t'(push) - count_t'(pop);
      if (tagged_q) begin
        if (pop) ahead_q <= ahead_q - 1'b1;
        if (pop && ahead_q == '0) tagged_q <= 1'b0;
      end else if (push && tag_i) begin
        tagged_q   <= 1'b1;
        ahead_q    <= inside_q - count_t'(pop);
        tag_data_q <= data_i;
      end
    end
  end

  stream_rule #(.Width(Width)) u_out (.clk_i, .rst_ni, .valid_i(valid), .ready_i, .payload_i(data), .kept_o(kept));

  logic [IndexBits-1:0] slot;  // of the memory
  assign slot = dut.read_q[IndexBits-1:0] + IndexBits'(ahead_q) - IndexBits'(valid);

  // ---------------------------------------------------------------- proven
  always_comb begin
    if (rst_ni) begin
      OutputStable : assert (kept);
      TakesDepth   : assert (ready || inside_q >= count_t'(Depth));
      // Of all elements only the newest may still be on its way into the memory.
      ShowsAtOnce  : assert (valid || inside_q == count_t'(pushed_q));
      NothingElse  : assert (!valid || inside_q != '0);
      if (tagged_q) begin
        TagKept  : assert (ahead_q < inside_q);
        TagOrder : assert (!valid || ahead_q != '0 || data == tag_data_q);
      end
`ifndef PROPERTIES_ONLY
      // What the induction needs: how many there are, and where the followed element waits.
      InsideIs : assert (inside_q == count_t'(dut.stored) + count_t'(valid) && dut.stored <= Depth);
      TagSlot  : assert (!tagged_q || (valid && ahead_q == '0) || dut.u_storage.storage_q[slot] == tag_data_q);
`endif
      TagLeaves : cover (tagged_q && pop && ahead_q == '0);
      Fills     : cover (!ready);
    end
  end
endmodule
