// Rules of every AXI channel: VALID is low in reset and one clock longer, a transfer that is offered stays the same
// until it is taken, and it does not wait longer than the receiver promises.
`include "axi_rule.svh"

module axi_channel_checker #(
    parameter string       Protocol     = "AXI4",
    parameter string       Channel      = "AW",
    parameter bit          FromManager  = 1'b1,          // who drives VALID
    parameter string       Manager      = "manager",     // names of both sides in messages
    parameter string       Subordinate  = "subordinate",
    parameter int unsigned ControlWidth = 1,             // bits, at least 1
    parameter int unsigned DataWidth    = 1,
    parameter int          MaxWait      = -1             // clocks that VALID may wait for READY; negative: no bound
) (
    input  logic                    clk_i,
    input  logic                    rst_ni,
    input  logic                    valid_i,
    input  logic                    ready_i,
    input  logic [ControlWidth-1:0] control_i,
    input  logic [   DataWidth-1:0] data_i,
    input  logic                    excused_i,  // another party makes the receiver wait: this clock does not count
    output logic                    first_o     // a new transfer is offered
);
  localparam string Driver       = FromManager ? Manager : Subordinate;
  localparam string Receiver     = FromManager ? Subordinate : Manager;
  localparam string DriverRule   = {FromManager ? "ERRM_" : "ERRS_", Channel};
  localparam string ReceiverRule = {FromManager ? "RECS_" : "RECM_", Channel};

  logic                    active_q;    // there was a reset: before it everything is random
  logic                    in_reset_q;  // at the last clock edge
  logic                    waiting_q;
  logic [ControlWidth-1:0] control_q;   // what waits
  logic [   DataWidth-1:0] data_q;
  int                      waited_q;

  assign first_o = valid_i && !waiting_q;

  initial {active_q, in_reset_q, waiting_q} = '0;

  // An idle channel needs no checks.
  always @(posedge clk_i) begin
    if (valid_i || waiting_q || in_reset_q || !rst_ni) begin
      if (in_reset_q) begin
        `AXI_RULE(DriverRule, VALID_RESET, Driver, !valid_i,
                  "VALID must be low in reset, and in the first clock after it")
      end
      in_reset_q <= !rst_ni && active_q;  // at the first clock edge of all, some registers may still be random
      if (!rst_ni) begin
        active_q  <= 1'b1;
        waiting_q <= 1'b0;
      end else if (active_q) begin
        if (waiting_q) begin
          `AXI_RULE(DriverRule, VALID_STABLE, Driver, valid_i, "VALID must stay high until READY")
          `AXI_RULE(DriverRule, PAYLOAD_STABLE, Driver, !valid_i || (control_i == control_q && data_i == data_q),
                    "what VALID offers must not change before READY")
        end
        waiting_q <= valid_i && !ready_i;
        if (valid_i && !ready_i) begin
          if (!waiting_q) begin
            control_q <= control_i;
            data_q    <= data_i;
          end
          if (MaxWait >= 0) begin
            automatic int waited = (waiting_q ? waited_q : 0) + (excused_i ? 0 : 1);
            `AXI_RULE(ReceiverRule, READY_MAX_WAIT, Receiver, waited <= MaxWait,
                      "READY must not take longer than was promised")
            waited_q <= waited;
          end
        end
      end
    end
  end

  // For simulators with X: a handshake and its control bits are never unknown. Data may be.
  always @(posedge clk_i) begin
    if (rst_ni && active_q) begin
      Known : assert (!$isunknown({valid_i, ready_i}) && !(valid_i && $isunknown(control_i)))
      else $error("%s_%sX: the %s: a bit is unknown", Protocol, Channel, Driver);
    end
  end

  logic unused;
  assign unused = &{1'b0, excused_i, waited_q};
endmodule
