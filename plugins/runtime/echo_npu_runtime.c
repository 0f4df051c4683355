// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "echo_npu_runtime.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "echo_npu_link.h"

// A device pointer: a bit that no host pointer has, the device, the address.
#define DEVICE_BIT (UINT64_C(1) << 62)
#define ADDRESS_BITS 40
// No tensor has so many elements along a dimension.
#define MOST_COUNT_BITS 40

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct echo_npu_link links[ECHO_NPU_MAX_DEVICES];  // open where `memory` is set
static _Thread_local int current;
static _Thread_local char last_message[1024];

__attribute__((format(printf, 2, 3))) static echoNpuError failed(echoNpuError error, const char *format, ...) {
    va_list more;
    va_start(more, format);
    vsnprintf(last_message, sizeof last_message, format, more);
    va_end(more);
    return error;
}

static echoNpuError translated(int status, const struct echo_npu_link *link) {
    switch (status) {
        case ECHO_NPU_OK: return echoNpuSuccess;
        case ECHO_NPU_BAD_VERSION: return failed(echoNpuErrorVersion, "%s", link->message);
        case ECHO_NPU_DEVICE_IN_USE: return failed(echoNpuErrorDeviceInUse, "%s", link->message);
        case ECHO_NPU_OUT_OF_MEMORY: return failed(echoNpuErrorMemory, "%s", link->message);
        case ECHO_NPU_BAD_ARGUMENT: return failed(echoNpuErrorArgument, "%s", link->message);
        case ECHO_NPU_NOT_SUPPORTED: return failed(echoNpuErrorNotSupported, "%s", link->message);
        case ECHO_NPU_DEVICE_FAILED: return failed(echoNpuErrorDevice, "%s", link->message);
        default: return failed(echoNpuErrorServer, "%s", link->message);
    }
}

const char *echoNpuGetErrorString(echoNpuError error) {
    switch (error) {
        case echoNpuSuccess: return "success";
        case echoNpuErrorServer: return "the device server does not run or has ended";
        case echoNpuErrorVersion: return "the device server speaks another version of the protocol";
        case echoNpuErrorDeviceInUse: return "another program has the device";
        case echoNpuErrorMemory: return "out of device memory";
        case echoNpuErrorArgument: return "an argument that cannot be";
        case echoNpuErrorNotSupported: return "the device does not compute this";
        case echoNpuErrorDevice: return "the device failed";
    }
    return "unknown error";
}

const char *echoNpuGetLastErrorMessage(void) {
    return last_message;
}

// --- devices and pointers ---------------------------------------------------------------------------------------------

static int is_device(const void *pointer) {
    return ((uint64_t)(uintptr_t)pointer & DEVICE_BIT) != 0;
}

static uint64_t address_of(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer & ((UINT64_C(1) << ADDRESS_BITS) - 1);
}

static unsigned device_of(const void *pointer) {
    return ((uint64_t)(uintptr_t)pointer & ~DEVICE_BIT) >> ADDRESS_BITS;
}

// Open a device; the lock is held.
static echoNpuError opened(unsigned device, struct echo_npu_link **found) {
    if (device >= ECHO_NPU_MAX_DEVICES)
        return failed(echoNpuErrorArgument, "no device %u: no server has more than %d", device, ECHO_NPU_MAX_DEVICES);
    struct echo_npu_link *link = *found = &links[device];
    if (link->memory)
        return echoNpuSuccess;
    int status = echo_npu_link_connect(link, 1);
    if (!status)
        status = echo_npu_link_open(link, device);
    if (status)
        echo_npu_link_close(link);
    return translated(status, link);
}

// The link of a range of device memory; the lock is held.
static echoNpuError range(const void *pointer, uint64_t bytes, struct echo_npu_link **found) {
    if (!is_device(pointer))
        return failed(echoNpuErrorArgument, "%p is no device pointer", pointer);
    unsigned device = device_of(pointer);
    if (device >= ECHO_NPU_MAX_DEVICES || !links[device].memory)
        return failed(echoNpuErrorArgument, "%p is a pointer of device %u, which is not open", pointer, device);
    *found = &links[device];
    if (!echo_npu_link_holds(&links[device], address_of(pointer), bytes))
        return failed(echoNpuErrorArgument, "%p: %llu bytes leave the memory of device %u", pointer,
                      (unsigned long long)bytes, device);
    return echoNpuSuccess;
}

static echoNpuError ask(struct echo_npu_link *link, int kind, const void *data, size_t bytes, void *answer, size_t most) {
    struct echo_npu_part part = {data, bytes};
    size_t got = 0;
    int status = echo_npu_link_ask(link, kind, &part, 1, answer, most, &got);
    if (!status && got != most)
        return failed(echoNpuErrorServer, "the device server answers a request of kind %d with %zu bytes, expected %zu", kind,
                      got, most);
    return translated(status, link);
}

echoNpuError echoNpuGetDeviceCount(int *count) {
    struct echo_npu_link link;
    *count = 0;
    int status = echo_npu_link_connect(&link, 1);
    if (!status)
        *count = (int)link.devices;
    echoNpuError result = translated(status, &link);
    echo_npu_link_close(&link);
    return result;
}

echoNpuError echoNpuSetDevice(int device) {
    int count;
    echoNpuError error = echoNpuGetDeviceCount(&count);
    if (error)
        return error;
    if (device < 0 || device >= count || device >= ECHO_NPU_MAX_DEVICES)
        return failed(echoNpuErrorArgument, "no device %d: the server has %d", device, count);
    current = device;
    return echoNpuSuccess;
}

echoNpuError echoNpuGetDevice(int *device) {
    *device = current;
    return echoNpuSuccess;
}

echoNpuError echoNpuReset(void) {
    pthread_mutex_lock(&lock);
    if (links[current].memory)
        echo_npu_link_close(&links[current]);
    pthread_mutex_unlock(&lock);
    return echoNpuSuccess;
}

// --- memory -----------------------------------------------------------------------------------------------------------

echoNpuError echoNpuMalloc(void **pointer, size_t bytes) {
    struct echo_npu_link *link = NULL;
    uint64_t number = bytes;
    unsigned device = (unsigned)current;
    *pointer = NULL;
    pthread_mutex_lock(&lock);
    echoNpuError error = opened(device, &link);
    if (!error)
        error = ask(link, ECHO_NPU_ALLOCATE, &number, sizeof number, &number, sizeof number);
    if (!error && !echo_npu_link_holds(link, number, bytes))
        error = failed(echoNpuErrorServer, "the device server gave memory that the device does not have");
    pthread_mutex_unlock(&lock);
    if (!error)
        *pointer = (void *)(uintptr_t)(DEVICE_BIT | (uint64_t)device << ADDRESS_BITS | number);
    return error;
}

echoNpuError echoNpuFree(void *pointer) {
    struct echo_npu_link *link = NULL;
    if (!pointer)
        return echoNpuSuccess;
    uint64_t number = address_of(pointer);
    pthread_mutex_lock(&lock);
    echoNpuError error = range(pointer, 0, &link);
    if (!error)
        error = ask(link, ECHO_NPU_FREE, &number, sizeof number, NULL, 0);
    pthread_mutex_unlock(&lock);
    return error;
}

// The host's view of one end of a copy; the lock is held.
static echoNpuError end_of_copy(void *end, size_t bytes, void **host) {
    struct echo_npu_link *link = NULL;
    if (!is_device(end)) {
        *host = end;
        return echoNpuSuccess;
    }
    echoNpuError error = range(end, bytes, &link);
    if (!error)
        *host = link->memory + address_of(end);
    return error;
}

static const char *side(const void *pointer) {
    return is_device(pointer) ? "a device pointer" : "a host pointer";
}

echoNpuError echoNpuMemcpy(void *target, const void *source, size_t bytes, echoNpuMemcpyKind kind) {
    int found = 2 * is_device(source) + is_device(target);
    if (kind != echoNpuMemcpyDefault && (int)kind != found)
        return failed(echoNpuErrorArgument, "a copy of kind %d contradicts its pointers: the source, %p, is %s, the target, %p, is %s",
                      (int)kind, source, side(source), target, side(target));
    void *to, *from;
    pthread_mutex_lock(&lock);
    echoNpuError error = end_of_copy(target, bytes, &to);
    if (!error)
        error = end_of_copy((void *)source, bytes, &from);
    if (!error && found == echoNpuMemcpyDeviceToDevice && device_of(source) == device_of(target)) {
        struct echo_npu_range copy = {address_of(target), address_of(source), bytes};
        error = ask(&links[device_of(target)], ECHO_NPU_COPY, &copy, sizeof copy, NULL, 0);
    } else if (!error && bytes) {
        memmove(to, from, bytes);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

echoNpuError echoNpuMemset(void *pointer, int value, size_t bytes) {
    struct echo_npu_link *link = NULL;
    pthread_mutex_lock(&lock);
    echoNpuError error = range(pointer, bytes, &link);
    if (!error)
        memset(link->memory + address_of(pointer), value, bytes);
    pthread_mutex_unlock(&lock);
    return error;
}

// --- operations -------------------------------------------------------------------------------------------------------

static const char *const type_names[] = {"f32", "f16", "bf16"};
static const uint64_t type_bytes[] = {4, 2, 2};

struct job {
    struct echo_npu_graph graph;
    struct echo_npu_node node;
    struct echo_npu_tensor tensors[4];
};

// A tensor of three dimensions, the innermost first, each with its step in bytes.
static struct echo_npu_tensor tensor(const void *pointer, echoNpuType type, int64_t n0, int64_t n1, int64_t n2,
                                     uint64_t step0, uint64_t step1, uint64_t step2) {
    struct echo_npu_tensor made = {.elements = {(uint64_t)n0, (uint64_t)n1, (uint64_t)n2, 1},
                                   .steps = {step0, step1, step2, step2 * (uint64_t)n2},
                                   .address = address_of(pointer)};
    snprintf(made.type, sizeof made.type, "%s", type_names[type]);
    return made;
}

static struct echo_npu_tensor matrix(const void *pointer, int64_t columns, int64_t rows) {
    uint64_t row = 4 * (uint64_t)columns;
    return tensor(pointer, echoNpuFloat32, columns, rows, 1, 4, row, row * (uint64_t)rows);
}

// An argument of a function, with its name in echo_npu_runtime.h.
struct argument {
    const char *name;
    const void *pointer;
};

// Whether all arguments are on one device.
static echoNpuError together(const char *op, const struct argument *arguments, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!is_device(arguments[i].pointer))
            return failed(echoNpuErrorArgument, "%s: %s, %p, is no device pointer", op, arguments[i].name, arguments[i].pointer);
    for (uint32_t i = 1; i < count; i++)
        if (device_of(arguments[i].pointer) != device_of(arguments[0].pointer))
            return failed(echoNpuErrorArgument, "%s: the operands are not on one device: %s is on %u, %s on %u", op,
                          arguments[0].name, device_of(arguments[0].pointer), arguments[i].name,
                          device_of(arguments[i].pointer));
    return echoNpuSuccess;
}

// Whether a tensor may have so many elements along an axis.
static echoNpuError counted(const char *op, const char *name, int axis, int64_t elements) {
    if (elements < 1 || elements >> MOST_COUNT_BITS)
        return failed(echoNpuErrorArgument, "%s: %s has %lld elements along axis %d, the innermost one being 0", op, name,
                      (long long)elements, axis);
    return echoNpuSuccess;
}

// Compute a node whose tensors are set: the result, then `sources` operands. They are the arguments, in that order.
static echoNpuError compute(struct job *job, const char *op, uint32_t sources, const struct argument *arguments) {
    struct echo_npu_link *link = NULL;
    echoNpuError error = together(op, arguments, 1 + sources);
    for (uint32_t i = 0; i <= sources; i++)
        for (int axis = 0; axis < ECHO_NPU_DIMENSIONS && !error; axis++) {
            error = counted(op, arguments[i].name, axis, (int64_t)job->tensors[i].elements[axis]);
            if (!error && job->tensors[i].steps[axis] >> MOST_COUNT_BITS)
                error = failed(echoNpuErrorArgument, "%s: %s is larger than any device memory", op, arguments[i].name);
        }
    if (error)
        return error;
    job->graph.nodes = 1;
    job->node.sources = sources;
    snprintf(job->node.op, sizeof job->node.op, "%s", op);
    size_t bytes = offsetof(struct job, tensors) + (1 + sources) * sizeof job->tensors[0];
    pthread_mutex_lock(&lock);
    error = range(arguments[0].pointer, 0, &link);
    if (!error)
        error = ask(link, ECHO_NPU_GRAPH, job, bytes, NULL, 0);
    pthread_mutex_unlock(&lock);
    return error;
}

static int32_t word(float value) {
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

echoNpuError echoNpuBatchMatMul(void *c, const void *a, const void *b, int64_t batch, int64_t m, int64_t k, int64_t n,
                                echoNpuType type) {
    if (type < echoNpuFloat32 || type > echoNpuBFloat16)
        return failed(echoNpuErrorArgument, "no type has the number %d", (int)type);
    // Unsigned: sizes that cannot be, which compute() refuses, may leave every type.
    uint64_t size = type_bytes[type], row_a = size * (uint64_t)k, row_b = size * (uint64_t)n, row_c = 4 * (uint64_t)n;
    struct job job = {0};
    job.tensors[0] = tensor(c, echoNpuFloat32, n, m, batch, 4, row_c, row_c * (uint64_t)m);
    // The device takes b as [n, k] of any steps.
    job.tensors[1] = tensor(b, type, k, n, batch, row_b, size, row_b * (uint64_t)k);
    job.tensors[2] = tensor(a, type, k, m, batch, size, row_a, row_a * (uint64_t)m);
    return compute(&job, "MUL_MAT", 2, (const struct argument[]){{"c", c}, {"b", b}, {"a", a}});
}

echoNpuError echoNpuMatMul(void *c, const void *a, const void *b, int64_t m, int64_t k, int64_t n, echoNpuType type) {
    return echoNpuBatchMatMul(c, a, b, 1, m, k, n, type);
}

static echoNpuError binary(const char *op, void *c, const void *a, const void *b, int64_t count) {
    struct job job = {.tensors = {matrix(c, count, 1), matrix(a, count, 1), matrix(b, count, 1)}};
    return compute(&job, op, 2, (const struct argument[]){{"c", c}, {"a", a}, {"b", b}});
}

static echoNpuError unary(const char *op, void *y, const void *x, float parameter, int64_t columns, int64_t rows) {
    struct job job = {.node.parameters[0] = word(parameter), .tensors = {matrix(y, columns, rows), matrix(x, columns, rows)}};
    return compute(&job, op, 1, (const struct argument[]){{"y", y}, {"x", x}});
}

echoNpuError echoNpuAddTensor(void *c, const void *a, const void *b, float alpha, int64_t count) {
    void *scaled = c;
    if (alpha == 1.0f)
        return binary("ADD", c, a, b, count);
    echoNpuError error = together("ADD", (const struct argument[]){{"c", c}, {"a", a}, {"b", b}}, 3);
    if (!error)
        error = counted("ADD", "c", 0, count);
    if (error)
        return error;
    if (c == a) {  // a is still needed
        int before = current;
        current = (int)device_of(c);
        error = echoNpuMalloc(&scaled, 4 * (size_t)count);
        current = before;
        if (error)
            return error;
    }
    error = echoNpuScale(scaled, b, alpha, count);
    if (!error)
        error = binary("ADD", c, a, scaled, count);
    if (scaled != c)
        echoNpuFree(scaled);
    return error;
}

#define BINARY(name, op)                                                              \
    echoNpuError echoNpu##name(void *c, const void *a, const void *b, int64_t count) { \
        return binary(op, c, a, b, count);                                            \
    }
BINARY(Sub, "SUB")
BINARY(Mul, "MUL")
BINARY(Div, "DIV")

#define UNARY(name, op)                                                \
    echoNpuError echoNpu##name(void *y, const void *x, int64_t count) { \
        return unary(op, y, x, 0.0f, count, 1);                        \
    }
UNARY(Neg, "NEG")
UNARY(Abs, "ABS")
UNARY(ReLU, "RELU")
UNARY(Sqrt, "SQRT")
UNARY(Rsqrt, "RSQRT")
UNARY(Reciprocal, "RECIPROCAL")
UNARY(Exp, "EXP")
UNARY(Log, "LOG")
UNARY(Sin, "SIN")
UNARY(Cos, "COS")
UNARY(Tanh, "TANH")
UNARY(Sigmoid, "SIGMOID")
UNARY(SiLU, "SILU")
UNARY(GELU, "GELU_ERF")

echoNpuError echoNpuScale(void *y, const void *x, float scale, int64_t count) {
    return unary("SCALE", y, x, scale, count, 1);
}

echoNpuError echoNpuSoftmax(void *y, const void *x, int64_t rows, int64_t columns) {
    return unary("SOFT_MAX", y, x, 1.0f, columns, rows);
}

echoNpuError echoNpuRMSNorm(void *y, const void *x, const void *weight, float eps, int64_t rows, int64_t columns) {
    // Before y is written.
    echoNpuError error =
        together("RMS_NORM", (const struct argument[]){{"y", y}, {"x", x}, {"weight", weight}}, weight ? 3 : 2);
    if (!error)
        error = unary("RMS_NORM", y, x, eps, columns, rows);
    if (error || !weight)
        return error;
    struct job job = {.tensors = {matrix(y, columns, rows), matrix(y, columns, rows), matrix(weight, columns, 1)}};
    return compute(&job, "MUL", 2, (const struct argument[]){{"y", y}, {"y", y}, {"weight", weight}});
}

echoNpuError echoNpuSDPA(void *out, const void *q, const void *k, const void *v, float scale, int64_t heads,
                         int64_t kvHeads, int64_t tokens, int64_t keys, int64_t width) {
    uint64_t row = 4 * (uint64_t)width;
    struct job job = {.node.parameters[0] = word(scale)};
    job.tensors[0] = tensor(out, echoNpuFloat32, width, heads, tokens, 4, row * (uint64_t)tokens, row);
    job.tensors[1] = tensor(q, echoNpuFloat32, width, tokens, heads, 4, row, row * (uint64_t)tokens);
    job.tensors[2] = tensor(k, echoNpuFloat32, width, keys, kvHeads, 4, row, row * (uint64_t)keys);
    job.tensors[3] = tensor(v, echoNpuFloat32, width, keys, kvHeads, 4, row, row * (uint64_t)keys);
    return compute(&job, "FLASH_ATTN_EXT", 3, (const struct argument[]){{"out", out}, {"q", q}, {"k", k}, {"v", v}});
}
