// Multiplies two matrices on the NPU:
//     cc -Iplugins/runtime examples/matmul.c plugins/runtime/*.c -pthread -lm -o matmul && ./matmul
// A device server is started if none runs: `echo-npu` on PATH, or the program that ECHO_NPU_COMMAND names.
#include <math.h>
#include <stdio.h>

#include "echo_npu_runtime.h"

enum { M = 5, K = 64, N = 24 };

int main(void) {
    static float a[M * K], b[K * N], c[M * N], wrong;
    for (int i = 0; i < M * K; i++) a[i] = (float)(i % 7 - 3);
    for (int i = 0; i < K * N; i++) b[i] = (float)(i % 5 - 2);

    void *da, *db, *dc;
    if (echoNpuMalloc(&da, sizeof a) || echoNpuMalloc(&db, sizeof b) || echoNpuMalloc(&dc, sizeof c) ||
        echoNpuMemcpy(da, a, sizeof a, echoNpuMemcpyHostToDevice) ||
        echoNpuMemcpy(db, b, sizeof b, echoNpuMemcpyHostToDevice) ||
        echoNpuMatMul(dc, da, db, M, K, N, echoNpuFloat32) ||
        echoNpuMemcpy(c, dc, sizeof c, echoNpuMemcpyDeviceToHost))
        return fprintf(stderr, "error: %s\n", echoNpuGetLastErrorMessage()), 1;

    for (int i = 0; i < M * N; i++) {
        float sum = 0;
        for (int k = 0; k < K; k++) sum += a[i / N * K + k] * b[k * N + i % N];
        wrong = fmaxf(wrong, fabsf(sum - c[i]));
    }
    printf("%d x %d x %d on the NPU, largest error %g\n", M, K, N, wrong);
    return wrong != 0;
}
