// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// On-chip memory with one write and one read port. Read data follows its address
// by one clock. Contents are undefined until written.
module tile_memory #(
    parameter int unsigned Width = 512,  // bits of an entry, at least 1
    parameter int unsigned Depth = 1024  // entries, at least 2
) (
    input  logic                     clk_i,
    input  logic                     write_i,
    input  logic [$clog2(Depth)-1:0] write_addr_i,
    input  logic [Width-1:0]         write_data_i,
    input  logic                     read_i,
    input  logic [$clog2(Depth)-1:0] read_addr_i,
    output logic [Width-1:0]         read_data_o
);
  logic [Width-1:0] storage_q [Depth];

  always_ff @(posedge clk_i) begin
    if (write_i) storage_q[write_addr_i] <= write_data_i;
    if (read_i) read_data_o <= storage_q[read_addr_i];
  end
endmodule
