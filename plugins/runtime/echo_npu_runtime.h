// SPDX-License-Identifier: Apache-2.0
// NPUs for C programs: memory, products, vector operations. docs/c_library.md describes it.
//
// A device pointer is no host pointer: only these functions take it. Arithmetic on it is allowed. All functions may be
// called from any thread. They return echoNpuSuccess or an error, of which echoNpuGetLastErrorMessage has the words, and
// have finished when they return.
#ifndef ECHO_NPU_RUNTIME_H
#define ECHO_NPU_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum echoNpuError {
    echoNpuSuccess = 0,
    echoNpuErrorServer = 1,        // no device server, or it has ended
    echoNpuErrorVersion = 2,       // the server speaks another version of the protocol
    echoNpuErrorDeviceInUse = 3,   // another program has the device
    echoNpuErrorMemory = 4,        // out of device memory
    echoNpuErrorArgument = 5,      // an argument that cannot be
    echoNpuErrorNotSupported = 6,  // the device does not compute this
    echoNpuErrorDevice = 7,        // the device failed
} echoNpuError;

typedef enum echoNpuMemcpyKind {
    echoNpuMemcpyHostToHost = 0,
    echoNpuMemcpyHostToDevice = 1,
    echoNpuMemcpyDeviceToHost = 2,
    echoNpuMemcpyDeviceToDevice = 3,
    echoNpuMemcpyDefault = 4,  // as the pointers say
} echoNpuMemcpyKind;

typedef enum echoNpuType { echoNpuFloat32 = 0, echoNpuFloat16 = 1, echoNpuBFloat16 = 2 } echoNpuType;

const char *echoNpuGetErrorString(echoNpuError error);
// Of this thread's latest error; valid until the next one.
const char *echoNpuGetLastErrorMessage(void);

// Devices are those of the running server; without one, one is started. Each thread has a current device, at first 0.
echoNpuError echoNpuGetDeviceCount(int *count);
echoNpuError echoNpuSetDevice(int device);
echoNpuError echoNpuGetDevice(int *device);
// Give the current device back, with everything on it.
echoNpuError echoNpuReset(void);

// Memory of the current device. A pointer names its device, so the other functions need no current one.
echoNpuError echoNpuMalloc(void **pointer, size_t bytes);
echoNpuError echoNpuFree(void *pointer);
// The ranges of a copy within a device lie apart.
echoNpuError echoNpuMemcpy(void *target, const void *source, size_t bytes, echoNpuMemcpyKind kind);
echoNpuError echoNpuMemset(void *pointer, int value, size_t bytes);

// c[m,n] = a[m,k] @ b[k,n], row-major; a and b of one type, c float32.
echoNpuError echoNpuMatMul(void *c, const void *a, const void *b, int64_t m, int64_t k, int64_t n, echoNpuType type);
// The same for each of `batch` matrices, which lie one after another.
echoNpuError echoNpuBatchMatMul(void *c, const void *a, const void *b, int64_t batch, int64_t m, int64_t k, int64_t n,
                                echoNpuType type);
// c = a + alpha * b, `count` elements of float32; c may be a or b.
echoNpuError echoNpuAddTensor(void *c, const void *a, const void *b, float alpha, int64_t count);

// float32, `count` elements; the result may be an operand.
echoNpuError echoNpuSub(void *c, const void *a, const void *b, int64_t count);
echoNpuError echoNpuMul(void *c, const void *a, const void *b, int64_t count);
echoNpuError echoNpuDiv(void *c, const void *a, const void *b, int64_t count);
echoNpuError echoNpuScale(void *y, const void *x, float scale, int64_t count);
echoNpuError echoNpuNeg(void *y, const void *x, int64_t count);
echoNpuError echoNpuAbs(void *y, const void *x, int64_t count);
echoNpuError echoNpuReLU(void *y, const void *x, int64_t count);
echoNpuError echoNpuSqrt(void *y, const void *x, int64_t count);
echoNpuError echoNpuRsqrt(void *y, const void *x, int64_t count);
echoNpuError echoNpuReciprocal(void *y, const void *x, int64_t count);
echoNpuError echoNpuExp(void *y, const void *x, int64_t count);
echoNpuError echoNpuLog(void *y, const void *x, int64_t count);
echoNpuError echoNpuSin(void *y, const void *x, int64_t count);
echoNpuError echoNpuCos(void *y, const void *x, int64_t count);
echoNpuError echoNpuTanh(void *y, const void *x, int64_t count);
echoNpuError echoNpuSigmoid(void *y, const void *x, int64_t count);
echoNpuError echoNpuSiLU(void *y, const void *x, int64_t count);
echoNpuError echoNpuGELU(void *y, const void *x, int64_t count);

// float32 [rows, columns], along the columns; the result may be the operand. `weight` has `columns` elements, or is NULL.
echoNpuError echoNpuSoftmax(void *y, const void *x, int64_t rows, int64_t columns);
echoNpuError echoNpuRMSNorm(void *y, const void *x, const void *weight, float eps, int64_t rows, int64_t columns);
// out[heads,tokens,width] = softmax(scale * q @ k^T) @ v with q of the same shape and k, v [kvHeads,keys,width], float32.
// Query head h uses key head h / (heads / kvHeads).
echoNpuError echoNpuSDPA(void *out, const void *q, const void *k, const void *v, float scale, int64_t heads,
                         int64_t kvHeads, int64_t tokens, int64_t keys, int64_t width);

#ifdef __cplusplus
}
#endif

#endif
