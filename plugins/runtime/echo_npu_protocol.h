// SPDX-License-Identifier: Apache-2.0
// The messages of the device server, as docs/server.md describes them. runtime/echo_npu/server/protocol.py says the
// same in Python. All numbers are little-endian, as on every machine that this is built for.
#ifndef ECHO_NPU_PROTOCOL_H
#define ECHO_NPU_PROTOCOL_H

#include <stdint.h>

#define ECHO_NPU_PROTOCOL_VERSION 3
#define ECHO_NPU_MAX_MESSAGE (1u << 26)
#define ECHO_NPU_MAX_NODES (1u << 16)
#define ECHO_NPU_MAX_SOURCES 10
// Of a server.
#define ECHO_NPU_MAX_DEVICES 64
// That a server keeps for a client.
#define ECHO_NPU_MOST_GRAPHS 8
#define ECHO_NPU_DIMENSIONS 4
#define ECHO_NPU_PARAMETER_WORDS 16

enum echo_npu_kind {
    ECHO_NPU_HELLO = 1,
    ECHO_NPU_OPEN = 2,
    ECHO_NPU_MEMORY = 3,
    ECHO_NPU_ALLOCATE = 4,
    ECHO_NPU_FREE = 5,
    ECHO_NPU_PACK = 6,
    ECHO_NPU_UNPACK = 7,
    ECHO_NPU_COPY = 8,
    ECHO_NPU_SUPPORTS = 9,
    ECHO_NPU_GRAPH = 10,
    ECHO_NPU_RUN = 11,
    ECHO_NPU_COUNTERS = 12,
};

enum echo_npu_answer {
    ECHO_NPU_OK = 0,
    ECHO_NPU_BAD_MESSAGE = 1,
    ECHO_NPU_BAD_VERSION = 2,
    ECHO_NPU_DEVICE_IN_USE = 3,
    ECHO_NPU_OUT_OF_MEMORY = 4,
    ECHO_NPU_BAD_ARGUMENT = 5,
    ECHO_NPU_NOT_SUPPORTED = 6,
    ECHO_NPU_UNKNOWN_GRAPH = 7,
    ECHO_NPU_DEVICE_FAILED = 8,
    ECHO_NPU_NOT_A_NUMBER = 9,
};

enum echo_npu_graph_flag {
    ECHO_NPU_GRAPH_REFUSE_NAN = 1,
    ECHO_NPU_GRAPH_FUSE = 2,
};

enum echo_npu_tensor_flag {
    ECHO_NPU_TENSOR_INPUT = 1,
    ECHO_NPU_TENSOR_OUTPUT = 2,
};

// Of a request: kind; of an answer: status.
struct echo_npu_head {
    uint32_t kind;
    uint32_t zero;
    uint64_t bytes;
};

struct echo_npu_hello {
    uint32_t version;
    uint32_t devices;
};

struct echo_npu_opened {
    uint64_t bytes;
    char description[64];
};

struct echo_npu_memory {
    uint64_t free;
    uint64_t total;
    uint64_t largest;
};

struct echo_npu_blocks {
    char type[8];
    uint64_t address;
    uint64_t rows;
    uint64_t depth;
    uint64_t matrices;
};

struct echo_npu_range {
    uint64_t target;
    uint64_t source;
    uint64_t bytes;
};

struct echo_npu_counters {
    uint64_t busy_cycles;
    uint64_t commands;
    uint64_t graphs;
};

struct echo_npu_graph {
    uint64_t key;
    uint32_t nodes;
    uint32_t flags;
};

struct echo_npu_tensor {
    char type[8];
    uint64_t flags;
    uint64_t elements[ECHO_NPU_DIMENSIONS];
    uint64_t steps[ECHO_NPU_DIMENSIONS];
    uint64_t address;
    // Of a part of a tensor in blocks: the whole one, and the bytes from its start; else zeros.
    uint64_t whole[ECHO_NPU_DIMENSIONS];
    uint64_t offset;
    // Of a type that the device only moves: the bytes of an element, which may be a block of numbers; else 0.
    uint64_t item;
};

// The destination and the sources follow.
struct echo_npu_node {
    char op[32];
    int32_t parameters[ECHO_NPU_PARAMETER_WORDS];
    uint32_t sources;
    uint32_t zero;
};

#endif
