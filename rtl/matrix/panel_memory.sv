// SPDX-License-Identifier: Apache-2.0
`default_nettype none
`include "npu_assert.svh"

// On-chip memory of an operand's panels, with entries of Tile 32-bit words. Even
// and odd tiles are in two banks, so two neighbouring tiles can be written in
// one clock. A write may be limited to some bytes of every word. Read data
// follows its address by one clock. Contents are undefined until written.
module panel_memory #(
    parameter int unsigned Tile     = 16,  // rows and columns of the array, a power of two from 4 to 64
    parameter int unsigned AddrBits = 10   // of an entry, at least $clog2(Tile) + 2: a tile for each bank and parity
) (
    input  logic                clk_i,
    input  logic                rst_ni,        // for an assertion alone
    input  logic [1:0]          write_i,       // [0] the entry at write_addr_i, [1] its neighbour one tile on
    input  logic [AddrBits-1:0] write_addr_i,
    input  logic [Tile*32-1:0]  write_data_i [2],
    input  logic [3:0]          write_bytes_i, // of each word
    input  logic                read_i,
    input  logic [AddrBits-1:0] read_addr_i,
    output logic [Tile*32-1:0]  read_data_o
);
  localparam int unsigned LaneBits = $clog2(Tile);

  logic [Tile*32-1:0] read_data [2];
  logic read_bank_q;

  always_ff @(posedge clk_i) begin
    if (read_i) read_bank_q <= read_addr_i[LaneBits];
  end
  assign read_data_o = read_data[read_bank_q];

  `NPU_ASSERT(TwoBanks, !(write_i[1] && write_addr_i[LaneBits]),
              "the neighbour of an entry in bank 1 would replace it: two entries in one bank")

  for (genvar bank = 0; bank < 2; bank++) begin : g_bank
    logic write;
    logic [Tile*32-1:0] data;
    // The neighbour of an entry in bank 0 has the same address in bank 1.
    assign write = (write_i[0] && write_addr_i[LaneBits] == 1'(bank)) || (bank == 1 && write_i[1]);
    assign data  = (bank == 1 && write_i[1]) ? write_data_i[1] : write_data_i[0];

    ram_1r1w #(
        .Width     (Tile * 32),
        .Depth     (1 << (AddrBits - 1)),
        .Lanes     (4),
        .PieceWidth(8)
    ) u_memory (
        .clk_i,
        .rst_ni,
        .write_i     (write ? write_bytes_i : '0),
        .write_addr_i({write_addr_i[AddrBits-1:LaneBits+1], write_addr_i[LaneBits-1:0]}),
        .write_data_i(data),
        .read_i      (read_i && read_addr_i[LaneBits] == 1'(bank)),
        .read_addr_i ({read_addr_i[AddrBits-1:LaneBits+1], read_addr_i[LaneBits-1:0]}),
        .read_data_o (read_data[bank])
    );
  end
endmodule
