// Which bursts the host window forwards, in the specification's words and not in the RTL's: legal AXI4 on a bus of
// `DataBytes` bytes, in the 512 MiB of weight and activation memory. Expects `DataBytes` in scope.
`ifndef AXI_RULES_SVH
`define AXI_RULES_SVH

`define AXI_FORWARDED_FUNCTION \
  function automatic logic forwarded(input logic [31:0] addr, input logic [7:0] len, input logic [2:0] size, \
                                     input logic [1:0] burst); \
    logic [31:0] beat_bytes, first, last; \
    beat_bytes = 32'd1 << size; \
    first      = addr & ~(beat_bytes - 32'd1); \
    last       = first + beat_bytes * (32'(len) + 32'd1) - 32'd1; \
    if (beat_bytes > 32'(DataBytes) || addr >= 32'h2000_0000) return 1'b0; \
    case (burst) \
      2'b00:   return len < 8'd16; \
      2'b01:   return first[31:12] == last[31:12]; \
      2'b10:   return (len == 8'd1 || len == 8'd3 || len == 8'd7 || len == 8'd15) && addr == first; \
      default: return 1'b0; \
    endcase \
  endfunction

`endif
