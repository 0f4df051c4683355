// SPDX-License-Identifier: Apache-2.0
// A tiny llama makes tokens on the NPU and on the CPU through ggml's scheduler, with the same weights:
//     decode PLUGIN TOKENS [nan]
// The NPU has them in q4_1 and q8_0, the CPU as float32. With "nan" one weight is a NaN, and the graph must fail.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace {

constexpr int width = 64, head_size = 32, heads = 2, inner = 96, vocabulary = 96, layers = 2, context_size = 32;

struct model {
    bool in_blocks;
    ggml_backend_t main, cpu;
    ggml_context * context = ggml_init({1 << 20, nullptr, true});
    std::map<std::string, ggml_tensor *> weights;
    ggml_context * table = ggml_init({1 << 20, nullptr, true});  // stays on the CPU

    ggml_tensor * matrix(ggml_context * where, const std::string & name, ggml_type type, int depth, int rows) {
        return weights[name] = ggml_new_tensor_2d(where, in_blocks ? type : GGML_TYPE_F32, depth, rows);
    }

    model(bool in_blocks, ggml_backend_t main, ggml_backend_t cpu) : in_blocks(in_blocks), main(main), cpu(cpu) {
        matrix(table, "embedding", GGML_TYPE_Q8_0, width, vocabulary);
        matrix(context, "head", GGML_TYPE_Q8_0, width, vocabulary);
        weights["norm"] = ggml_new_tensor_1d(context, GGML_TYPE_F32, width);
        for (int layer = 0; layer < layers; layer++) {
            std::string at = std::to_string(layer);
            for (const char * name : {"q", "o"})
                matrix(context, name + at, GGML_TYPE_Q4_1, width, width);
            for (const char * name : {"k", "v"})
                matrix(context, name + at, GGML_TYPE_Q4_1, width, head_size);
            for (const char * name : {"gate", "up"})
                matrix(context, name + at, GGML_TYPE_Q4_1, width, inner);
            matrix(context, "down" + at, GGML_TYPE_Q4_1, inner, width);
            for (const char * name : {"norm", "norm_of_feed_forward"})
                weights[name + at] = ggml_new_tensor_1d(context, GGML_TYPE_F32, width);
            for (const char * name : {"keys", "values"})
                weights[name + at] = ggml_new_tensor_2d(context, GGML_TYPE_F16, head_size, context_size);
        }
        ggml_backend_buffer_clear(ggml_backend_alloc_ctx_tensors(context, main), 0);
        ggml_backend_buffer_set_usage(ggml_backend_alloc_ctx_tensors(table, cpu), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        uint32_t seed = 1;
        for (auto & [name, tensor] : weights) {
            if (tensor->type == GGML_TYPE_F16)
                continue;
            std::vector<float> values(ggml_nelements(tensor));
            for (float & value : values) {
                seed = seed * 1664525 + 1013904223;
                value = float(seed >> 8) / (1 << 23) - 1;
                if (tensor->ne[1] == 1)
                    value = 1 + value / 4;
            }
            if (tensor->ne[1] > 1) {  // as blocks, and back if the weights are to be those as float32
                ggml_type type = name == "head" || name == "embedding" ? GGML_TYPE_Q8_0 : GGML_TYPE_Q4_1;
                std::vector<uint8_t> blocks(ggml_row_size(type, tensor->ne[0]) * size_t(tensor->ne[1]));
                ggml_quantize_chunk(type, values.data(), blocks.data(), 0, tensor->ne[1], tensor->ne[0], nullptr);
                ggml_get_type_traits(type)->to_float(blocks.data(), values.data(), int64_t(values.size()));
                if (in_blocks) {
                    ggml_backend_tensor_set(tensor, blocks.data(), 0, blocks.size());
                    continue;
                }
            }
            ggml_backend_tensor_set(tensor, values.data(), 0, values.size() * sizeof(float));
        }
    }
};

struct decoded {
    ggml_status status;
    int splits;
    std::vector<float> logits;
};

decoded decode(model & m, int32_t token, int32_t position) {
    ggml_context * made = ggml_init({1 << 20, nullptr, true});
    ggml_cgraph * graph = ggml_new_graph(made);
    auto input = [&](ggml_type type, int count) {
        ggml_tensor * tensor = ggml_new_tensor_1d(made, type, count);
        ggml_set_input(tensor);
        return tensor;
    };
    ggml_tensor *tokens = input(GGML_TYPE_I32, 1), *positions = input(GGML_TYPE_I32, 1), *rows = input(GGML_TYPE_I64, 1);
    ggml_tensor * mask = input(GGML_TYPE_F16, context_size);
    auto w = [&](const std::string & name) { return m.weights.at(name); };
    auto normed = [&](ggml_tensor * x, const std::string & name) { return ggml_mul(made, ggml_rms_norm(made, x, 1e-5f), w(name)); };
    ggml_tensor * x = ggml_get_rows(made, w("embedding"), tokens);
    for (int layer = 0; layer < layers; layer++) {
        std::string at = std::to_string(layer);
        ggml_tensor * h = normed(x, "norm" + at);
        auto turned = [&](const char * name, int count) {
            ggml_tensor * made_of = ggml_reshape_3d(made, ggml_mul_mat(made, w(name + at), h), head_size, count, 1);
            return ggml_rope(made, made_of, positions, head_size, 0);
        };
        ggml_tensor * q = ggml_permute(made, turned("q", heads), 0, 2, 1, 3);
        ggml_tensor * k = ggml_reshape_2d(made, turned("k", 1), head_size, 1);
        ggml_tensor * v = ggml_mul_mat(made, w("v" + at), h);
        ggml_tensor * keys = ggml_set_rows(made, w("keys" + at), k, rows);
        ggml_tensor * values = ggml_set_rows(made, w("values" + at), v, rows);
        ggml_build_forward_expand(graph, keys);
        ggml_build_forward_expand(graph, values);
        auto cached = [&](ggml_tensor * cache) { return ggml_reshape_3d(made, cache, head_size, context_size, 1); };
        ggml_tensor * mixed = ggml_flash_attn_ext(
            made, q, cached(w("keys" + at)), cached(w("values" + at)), mask, 1 / std::sqrt(float(head_size)), 0, 0);
        x = ggml_add(made, x, ggml_mul_mat(made, w("o" + at), ggml_reshape_2d(made, mixed, width, 1)));
        h = normed(x, "norm_of_feed_forward" + at);
        ggml_tensor * gated = ggml_swiglu_split(made, ggml_mul_mat(made, w("gate" + at), h), ggml_mul_mat(made, w("up" + at), h));
        x = ggml_add(made, x, ggml_mul_mat(made, w("down" + at), gated));
    }
    ggml_tensor * logits = ggml_mul_mat(made, w("head"), normed(x, "norm"));
    ggml_set_output(logits);
    ggml_build_forward_expand(graph, logits);

    std::vector<ggml_backend_t> backends = {m.main};
    if (m.main != m.cpu)
        backends.push_back(m.cpu);
    ggml_backend_sched_t scheduler =
        ggml_backend_sched_new(backends.data(), nullptr, int(backends.size()), GGML_DEFAULT_GRAPH_SIZE, false, true);
    ggml_backend_sched_alloc_graph(scheduler, graph);
    int64_t row = position;
    std::vector<ggml_fp16_t> hidden(context_size);
    for (int each = 0; each < context_size; each++)
        hidden[size_t(each)] = ggml_fp32_to_fp16(each <= position ? 0 : -INFINITY);
    ggml_backend_tensor_set(tokens, &token, 0, sizeof token);
    ggml_backend_tensor_set(positions, &position, 0, sizeof position);
    ggml_backend_tensor_set(rows, &row, 0, sizeof row);
    ggml_backend_tensor_set(mask, hidden.data(), 0, hidden.size() * sizeof(ggml_fp16_t));
    decoded result = {ggml_backend_sched_graph_compute(scheduler, graph), ggml_backend_sched_get_n_splits(scheduler), {}};
    result.logits.resize(vocabulary);
    if (result.status == GGML_STATUS_SUCCESS)
        ggml_backend_tensor_get(logits, result.logits.data(), 0, vocabulary * sizeof(float));
    ggml_backend_sched_free(scheduler);
    ggml_free(made);
    return result;
}

}  // namespace

int main(int count, char ** words) {
    if (count < 3 || !ggml_backend_load(words[1]))
        return 2;
    ggml_backend_dev_t device = ggml_backend_dev_by_name("NPU0");
    ggml_backend_t npu = device ? ggml_backend_dev_init(device, nullptr) : nullptr, cpu = ggml_backend_cpu_init();
    if (!npu)
        return 2;
    std::printf("%s: %s\n", ggml_backend_dev_name(device), ggml_backend_dev_description(device));
    model here(true, npu, cpu), there(false, cpu, cpu);
    if (count > 3) {
        float nan = NAN;
        ggml_backend_tensor_set(here.weights.at("norm"), &nan, 0, sizeof nan);
        ggml_status status = decode(here, 1, 0).status;
        std::printf("status %d\n", status);
        return status != GGML_STATUS_FAILED;
    }
    int32_t token = 1;
    for (int32_t position = 0; position < std::atoi(words[2]); position++) {
        decoded got = decode(here, token, position), wanted = decode(there, token, position);
        if (got.status != GGML_STATUS_SUCCESS)
            return 1;
        double error = 0, size = 0;
        int best[2] = {0, 0};
        for (int each = 0; each < vocabulary; each++) {
            error += std::pow(got.logits[size_t(each)] - wanted.logits[size_t(each)], 2);
            size += std::pow(wanted.logits[size_t(each)], 2);
            best[0] = got.logits[size_t(each)] > got.logits[size_t(best[0])] ? each : best[0];
            best[1] = wanted.logits[size_t(each)] > wanted.logits[size_t(best[1])] ? each : best[1];
        }
        std::printf("token %d, the CPU's %d, splits %d, error %s\n", best[0], best[1], got.splits, error < 1e-6 * size ? "small" : "large");
        token = best[1];
    }
    return 0;
}
