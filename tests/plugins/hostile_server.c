// SPDX-License-Identifier: Apache-2.0
// The C library against a server that answers what it likes: hostile_server SOCKET SEED ANSWERS. Built with sanitizers, it
// ends with an error where the library reads, writes or leaks what it must not, and it never hangs.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "echo_npu_protocol.h"
#include "echo_npu_runtime.h"

enum { MEMORY = 1 << 16, MOST_CONTENT = 3000, MOST_CLIENTS = 8 };

static int listener;
static unsigned long answers;  // that were given; read when the server's turn has ended

static uint64_t chance(uint64_t *state, uint64_t below) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (*state >> 11) % below;
}

static uint64_t any_number(uint64_t *state) {
    static const uint64_t edges[] = {0, 1, 64, MEMORY - 1, MEMORY, MEMORY + 1, UINT64_C(1) << 40, UINT64_C(1) << 63, UINT64_MAX};
    uint64_t which = chance(state, 2 * (sizeof edges / sizeof edges[0]));
    return which < sizeof edges / sizeof edges[0] ? edges[which] : chance(state, MEMORY);
}

static int memory_of(uint64_t size) {
    int fd = memfd_create("hostile", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)size) < 0)
        abort();
    return fd;
}

// Read a request; return its kind, or -1 when the client has gone.
static int asked(int fd) {
    struct echo_npu_head head;
    if (recv(fd, &head, sizeof head, MSG_WAITALL) != (ssize_t)sizeof head)
        return -1;
    for (uint64_t left = head.bytes; left;) {
        char dropped[512];
        ssize_t got = recv(fd, dropped, left < sizeof dropped ? (size_t)left : sizeof dropped, 0);
        if (got <= 0)
            return -1;
        left -= (uint64_t)got;
    }
    return (int)head.kind;
}

// What an honest server would say; then some of it is changed. Return 0 when this connection is to end.
static int answer(int fd, int kind, uint64_t *state) {
    union {
        struct echo_npu_hello hello;
        struct echo_npu_opened opened;
        uint64_t number;
        unsigned char bytes[MOST_CONTENT];
    } content;
    for (size_t i = 0; i < sizeof content.bytes; i++)
        content.bytes[i] = (unsigned char)chance(state, 256);
    struct echo_npu_head head = {ECHO_NPU_OK, 0, 0};
    int files[3] = {-1, -1, -1}, given = 0;
    if (kind == ECHO_NPU_HELLO) {
        content.hello = (struct echo_npu_hello){ECHO_NPU_PROTOCOL_VERSION, 2};
        head.bytes = sizeof content.hello;
    } else if (kind == ECHO_NPU_OPEN) {
        content.opened.bytes = MEMORY;
        head.bytes = sizeof content.opened;
        files[given++] = memory_of(chance(state, 20) ? MEMORY : chance(state, MEMORY));
    } else if (kind == ECHO_NPU_ALLOCATE) {
        content.number = any_number(state);
        head.bytes = sizeof content.number;
    }
    size_t sent = (size_t)head.bytes;
    // OPEN stands before everything else, so the way there is mostly smooth.
    if (!chance(state, kind <= ECHO_NPU_OPEN ? 12 : 3)) {
        switch (chance(state, 8)) {
            case 0:
                head.kind = (uint32_t)chance(state, 12);
                if (chance(state, 2)) // the text of an error
                    sent = (size_t)(head.bytes = chance(state, MOST_CONTENT));
                break;
            case 1: head.kind = (uint32_t)any_number(state); break;
            case 2: head.zero = (uint32_t)any_number(state); break;
            case 3: sent = (size_t)(head.bytes = chance(state, MOST_CONTENT)); break;
            case 4: head.bytes = any_number(state); break;
            case 5: sent = (size_t)chance(state, head.bytes + 1); break;
            case 6: content.bytes[chance(state, 80)] ^= (unsigned char)(1 + chance(state, 255)); break;
            default: files[given++] = memory_of(chance(state, MEMORY)); break;
        }
    }
    sent = sent < sizeof content.bytes ? sent : sizeof content.bytes;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof files)];
    } control;
    struct iovec data = {&head, chance(state, 200) ? sizeof head : (size_t)chance(state, sizeof head)};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (given && chance(state, 50)) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE((size_t)given * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN((size_t)given * sizeof(int));
        memcpy(CMSG_DATA(&control.header), files, (size_t)given * sizeof(int));
    }
    int whole = sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)sizeof head;
    whole = whole && (!sent || send(fd, content.bytes, sent, MSG_NOSIGNAL) == (ssize_t)sent);
    for (int i = 0; i < given; i++)
        close(files[i]);
    answers++;
    // A server that owes bytes goes away: a client waits for one that lives.
    return whole && sent == head.bytes;
}

static void *serve(void *seed) {
    uint64_t state = *(uint64_t *)seed;
    struct pollfd ends[MOST_CLIENTS + 1] = {{listener, POLLIN, 0}};
    nfds_t open = 1;
    while (poll(ends, open, -1) > 0 && !(ends[0].revents & ~POLLIN)) {
        for (nfds_t i = open - 1; i; i--) {
            if (!ends[i].revents)
                continue;
            int kind = asked(ends[i].fd);
            if (kind >= 0 && answer(ends[i].fd, kind, &state))
                continue;
            close(ends[i].fd);
            ends[i] = ends[--open];
        }
        if (ends[0].revents && open <= MOST_CLIENTS)
            ends[open++] = (struct pollfd){accept(listener, NULL, NULL), POLLIN, 0};
    }
    while (--open)
        close(ends[open].fd);
    return NULL;
}

static int open_descriptors(void) {
    int open = 0;
    for (int fd = 0; fd < 1024; fd++)
        open += fcntl(fd, F_GETFD) >= 0;
    return open;
}

// Sizes that nobody has: products of them leave every type.
static echoNpuError compute_any(void *held, uint64_t *state) {
    int64_t n[5];
    for (int i = 0; i < 5; i++)
        n[i] = chance(state, 3) ? (int64_t)any_number(state) : -(int64_t)chance(state, INT64_MAX);
    switch (chance(state, 5)) {
        case 0: return echoNpuBatchMatMul(held, held, held, n[0], n[1], n[2], n[3], (echoNpuType)chance(state, 4));
        case 1: return echoNpuSoftmax(held, held, n[0], n[1]);
        case 2: return echoNpuRMSNorm(held, held, held, 1e-5f, n[0], n[1]);
        case 3: return echoNpuSDPA(held, held, held, held, 1, n[0], n[1], n[2], n[3], n[4]);
        default: return echoNpuAddTensor(held, held, held, (float)chance(state, 3), n[0]);
    }
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    uint64_t seed = strtoull(words[2], NULL, 10), state = seed * 2 + 1, other = seed * 2 + 3;
    unsigned long wanted = strtoul(words[3], NULL, 10);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", words[1]);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 8) < 0)
        return 2;
    setenv("ECHO_NPU_SOCKET", words[1], 1);
    setenv("ECHO_NPU_COMMAND", "/nonexistent", 1);
    int descriptors = open_descriptors();
    pthread_t server;
    pthread_create(&server, NULL, serve, &state);
    static char here[256];
    unsigned long calls = 0, worked = 0;
    for (void *held = NULL; __atomic_load_n(&answers, __ATOMIC_RELAXED) < wanted; calls++) {
        int number;
        size_t bytes = (size_t)chance(&other, sizeof here);
        echoNpuError error;
        switch (chance(&other, 10)) {
            case 0: error = echoNpuMalloc(&held, (size_t)any_number(&other)); break;
            case 1: error = echoNpuMalloc(&held, bytes); break;
            case 2: error = echoNpuMemcpy(held, here, held ? bytes : 0, echoNpuMemcpyDefault); break;
            case 3: error = echoNpuMemcpy(here, held, held ? bytes : 0, echoNpuMemcpyDefault); break;
            case 4: error = held ? echoNpuMemset(held, 1, (size_t)any_number(&other)) : echoNpuFree(held); break;
            case 5: error = echoNpuMatMul(held, held, held, 2, 3, (int64_t)bytes, echoNpuFloat32); break;
            case 6: error = echoNpuFree(held); break;
            case 8: error = compute_any(held, &other); break;
            case 7: error = echoNpuSetDevice((int)chance(&other, 3)); break;
            default: error = chance(&other, 10) ? echoNpuGetDeviceCount(&number) : echoNpuReset(); break;
        }
        worked += !error;
        if (error && (!*echoNpuGetLastErrorMessage() || !*echoNpuGetErrorString(error)))
            return 3;
        if (error == echoNpuErrorServer)
            echoNpuReset();
    }
    for (int device = 0; device < 2; device++) {
        // The server may refuse this as well; the device would stay open.
        for (int tries = 0; echoNpuSetDevice(device); tries++)
            if (tries == 1000)
                return 5;
        echoNpuReset();
    }
    shutdown(listener, SHUT_RDWR);
    pthread_join(server, NULL);
    if (open_descriptors() != descriptors)
        return 4;
    close(listener);
    printf("%lu answers, %lu calls, %lu worked\n", answers, calls, worked);
    return !worked || worked == calls;
}
