// SPDX-License-Identifier: Apache-2.0
// The channels of an AXI4 port as packed structs, for one width of IDs and one of data. A module whose ports carry them
// takes them as type parameters, so both sides of a connection have the same type.
`ifndef AXI_TYPES_SVH
`define AXI_TYPES_SVH

`define AXI_TYPES(IdWidth, DataWidth) \
  typedef struct packed { \
    logic [(IdWidth)-1:0] id; \
    logic [31:0]          addr; \
    logic [7:0]           len; \
    logic [2:0]           size; \
    logic [1:0]           burst; \
    logic [2:0]           prot; \
  } axi_address_t; \
  typedef struct packed { \
    logic [(DataWidth)-1:0]   data; \
    logic [(DataWidth)/8-1:0] strb; \
    logic                     last; \
  } axi_write_data_t; \
  typedef struct packed { \
    logic [(IdWidth)-1:0] id; \
    logic [1:0]           resp; \
  } axi_response_t; \
  typedef struct packed { \
    logic [(IdWidth)-1:0]   id; \
    logic [(DataWidth)-1:0] data; \
    logic [1:0]             resp; \
    logic                   last; \
  } axi_read_data_t;

`endif
