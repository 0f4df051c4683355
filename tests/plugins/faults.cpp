// SPDX-License-Identifier: Apache-2.0
// A backend whose server refuses, answers wrongly or has ended:
//     faults PLUGIN memory|buffer|blocks|graph
// Exit status 1 and a line about it if the backend goes on as if nothing had happened.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

namespace {

bool good = true;

void expect(const char * what, bool true_) {
    std::printf("%s: %s\n", what, true_ ? "right" : "wrong");
    good = good && true_;
}

// Two figures that are not told.
void memory(ggml_backend_dev_t device) {
    size_t free = 1, total = 1;
    ggml_backend_dev_memory(device, &free, &total);
    expect("memory of which nothing is known", !free && !total);
}

// An address beyond the device's memory.
void buffer(ggml_backend_t npu) {
    expect("a buffer that the device does not have", !ggml_backend_alloc_buffer(npu, 64));
}

// A tensor in blocks that is not unpacked: nothing is set, nothing is got.
void blocks(ggml_backend_t npu, ggml_context * context) {
    ggml_tensor * tensor = ggml_new_tensor_2d(context, GGML_TYPE_Q8_0, 64, 16);
    ggml_backend_buffer_t held = ggml_backend_alloc_ctx_tensors(context, npu);
    std::vector<uint8_t> bytes(ggml_nbytes(tensor), 9);
    ggml_backend_tensor_set(tensor, bytes.data(), 1, 5);
    ggml_backend_tensor_get(tensor, bytes.data(), 0, bytes.size());
    expect("what is not read", bytes == std::vector<uint8_t>(bytes.size(), 9));
    ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
    ggml_backend_buffer_free(held);
}

// Two graphs, of which the first one is refused, and the second one never answered.
void graph(ggml_backend_t npu, ggml_context * context, ggml_backend_dev_t device) {
    ggml_tensor * x = ggml_new_tensor_1d(context, GGML_TYPE_F32, 16);
    ggml_tensor * scaled = ggml_scale(context, x, 2);
    ggml_backend_buffer_t held = ggml_backend_alloc_ctx_tensors(context, npu);
    ggml_cgraph * made = ggml_new_graph(context);
    ggml_build_forward_expand(made, scaled);
    for (int round = 0; round < 3; round++)
        expect("a graph that fails", ggml_backend_graph_compute(npu, made) == GGML_STATUS_FAILED);
    expect("what nobody can tell", !ggml_backend_dev_supports_op(device, scaled));
    ggml_backend_buffer_free(held);
}

}  // namespace

int main(int count, char ** words) {
    if (count != 3 || !ggml_backend_load(words[1]))
        return 2;
    ggml_backend_dev_t device = ggml_backend_dev_by_name("NPU0");
    ggml_backend_t npu = device ? ggml_backend_dev_init(device, nullptr) : nullptr;
    if (!npu)
        return 2;
    ggml_context * context = ggml_init({1 << 20, nullptr, true});
    const std::string which = words[2];
    if (which == "memory")
        memory(device);
    else if (which == "buffer")
        buffer(npu);
    else if (which == "blocks")
        blocks(npu, context);
    else if (which == "graph")
        graph(npu, context, device);
    else
        return 2;
    ggml_free(context);
    ggml_backend_free(npu);
    return !good;
}
