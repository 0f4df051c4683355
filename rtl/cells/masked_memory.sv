// SPDX-License-Identifier: Apache-2.0
`default_nettype none

// On-chip memory of entries of 32-bit words with one write and one read port.
// A write goes to the same bytes of every word. Read data follows its address
// by one clock. Contents are undefined until written.
module masked_memory #(
    parameter int unsigned Words = 16,  // words of an entry, at least 1
    parameter int unsigned Depth = 1024 // entries, at least 2
) (
    input  logic                     clk_i,
    input  logic                     write_i,
    input  logic [$clog2(Depth)-1:0] write_addr_i,
    input  logic [Words*32-1:0]      write_data_i,
    input  logic [3:0]               write_bytes_i,
    input  logic                     read_i,
    input  logic [$clog2(Depth)-1:0] read_addr_i,
    output logic [Words*32-1:0]      read_data_o
);
  logic [Words*32-1:0] storage_q [Depth];

  always_ff @(posedge clk_i) begin
    // Most writes are of whole entries, and one assignment simulates faster than a loop over bytes.
    if (write_i && write_bytes_i == 4'hF) begin
      storage_q[write_addr_i] <= write_data_i;
    end else if (write_i) begin
      for (int unsigned i = 0; i < Words * 4; i++) begin
        if (write_bytes_i[i[1:0]]) storage_q[write_addr_i][i*8+:8] <= write_data_i[i*8+:8];
      end
    end
    if (read_i) read_data_o <= storage_q[read_addr_i];
  end
endmodule
