// SPDX-License-Identifier: Apache-2.0
// A connection to the device server. A thread at a time may use one.
#ifndef ECHO_NPU_LINK_H
#define ECHO_NPU_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "echo_npu_protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

// Beside the statuses of an answer: the server does not run, or has ended.
#define ECHO_NPU_NO_SERVER (-1)

struct echo_npu_link {
    int fd;                 // -1 once the connection has ended
    unsigned devices;       // of the server
    uint8_t *memory;        // of the device, once it is open; the index is the address
    uint64_t bytes;         // of it
    char description[64];   // of the device
    char message[1024];     // of the latest error
};

// Connect to the server of this user, and start one if none runs and `start` is not 0: the program in ECHO_NPU_COMMAND,
// else echo-npu on PATH, with ECHO_NPU_DEVICES devices (1) on ECHO_NPU_BACKEND. It ends by itself some seconds after its
// last client. Return a status.
int echo_npu_link_connect(struct echo_npu_link *link, int start);

// Take a device. Return a status.
int echo_npu_link_open(struct echo_npu_link *link, unsigned device);

// A part of a request.
struct echo_npu_part {
    const void *data;
    size_t bytes;
};

// Send a request of several parts and wait for its answer, of which at most `most` bytes are stored; *got is its length.
// Return a status.
int echo_npu_link_ask(struct echo_npu_link *link, int kind, const struct echo_npu_part *parts, size_t count, void *answer,
                      size_t most, size_t *got);

// Whether so many bytes from an address on are inside the memory of an open device.
static inline int echo_npu_link_holds(const struct echo_npu_link *link, uint64_t address, uint64_t bytes) {
    return bytes <= link->bytes && address <= link->bytes - bytes;
}

// Give everything back.
void echo_npu_link_close(struct echo_npu_link *link);

#ifdef __cplusplus
}
#endif

#endif
