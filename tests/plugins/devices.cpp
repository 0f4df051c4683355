// SPDX-License-Identifier: Apache-2.0
// The devices of the backend and their memory:
//     devices PLUGIN two|busy|preloaded
// two: of a server with two devices; busy: another program has NPU0; preloaded: nobody loads the plugin but LD_PRELOAD.
// Exit status 1 and a line about it if something is wrong.
#include <cstdio>
#include <cstring>
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

size_t free_of(ggml_backend_dev_t device) {
    size_t free = 0, total = 0;
    ggml_backend_dev_memory(device, &free, &total);
    expect("the memory", total > 0 && free <= total);
    return free;
}

ggml_tensor * on(ggml_backend_t backend, ggml_context * context, ggml_backend_buffer_t * buffer, size_t elements) {
    ggml_tensor * made = ggml_new_tensor_1d(context, GGML_TYPE_F32, int64_t(elements));
    ggml_tallocr place;
    *buffer = ggml_backend_alloc_buffer(backend, elements * sizeof(float));
    place = ggml_tallocr_new(*buffer);
    if (ggml_tallocr_alloc(&place, made) != GGML_STATUS_SUCCESS)
        good = false;
    return made;
}

void two(ggml_backend_reg_t reg) {
    const size_t count = size_t(1) << 18;
    expect("the number of devices", ggml_backend_reg_dev_count(reg) == 2);
    auto * features = reinterpret_cast<ggml_backend_get_features_t>(
        ggml_backend_reg_get_proc_address(reg, "ggml_backend_get_features"));
    ggml_backend_feature * feature = features ? features(reg) : nullptr;
    expect("the features", feature && feature->name && feature->value);
    ggml_backend_dev_t devices[] = {ggml_backend_reg_dev_get(reg, 0), ggml_backend_reg_dev_get(reg, 1)};
    expect("the names", !std::strcmp(ggml_backend_dev_name(devices[0]), "NPU0") && !std::strcmp(ggml_backend_dev_name(devices[1]), "NPU1"));
    ggml_backend_t backends[] = {ggml_backend_dev_init(devices[0], nullptr), ggml_backend_dev_init(devices[1], nullptr)};
    if (!backends[0] || !backends[1])
        return expect("both devices at once", false);
    const size_t before[] = {free_of(devices[0]), free_of(devices[1])};
    ggml_init_params room = {size_t(1) << 20, nullptr, true};
    ggml_context * context = ggml_init(room);
    ggml_backend_buffer_t buffers[2];
    ggml_tensor * first = on(backends[0], context, &buffers[0], count);
    expect("a buffer takes memory of its device", free_of(devices[0]) + count * sizeof(float) <= before[0]);
    expect("and of no other", free_of(devices[1]) == before[1]);
    ggml_tensor * second = on(backends[1], context, &buffers[1], count);

    ggml_backend_buffer_clear(buffers[0], 0x41);
    ggml_backend_buffer_clear(buffers[1], 0);
    std::vector<unsigned char> bytes(count * sizeof(float)), wanted(bytes.size(), 0x41);
    ggml_backend_tensor_get(first, bytes.data(), 0, bytes.size());
    expect("a buffer that is cleared", bytes == wanted);
    ggml_backend_tensor_get(second, bytes.data(), 0, bytes.size());
    expect("one of the other device", bytes == std::vector<unsigned char>(bytes.size(), 0));

    std::vector<float> values(count);
    for (size_t i = 0; i < count; i++)
        values[i] = float(i % 1000) - 300;
    ggml_backend_tensor_set(second, values.data(), 0, count * sizeof(float));
    ggml_backend_tensor_copy(second, first);
    std::vector<float> got(count);
    ggml_backend_tensor_get(first, got.data(), 0, count * sizeof(float));
    expect("a copy from the other device", got == values);
    ggml_backend_tensor_get(second, got.data(), 0, count * sizeof(float));
    expect("what was copied", got == values);

    ggml_backend_tensor_set(first, std::vector<float>(count, 1).data(), 0, count * sizeof(float));
    ggml_tensor * twice = ggml_scale_inplace(context, second, 2);
    ggml_cgraph * graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, twice);
    ggml_backend_view_init(twice);
    expect("a graph on the second device", ggml_backend_graph_compute(backends[1], graph) == GGML_STATUS_SUCCESS);
    for (float & value : values)
        value *= 2;
    ggml_backend_tensor_get(second, got.data(), 0, count * sizeof(float));
    expect("its result", got == values);
    ggml_backend_tensor_get(first, got.data(), 0, count * sizeof(float));
    expect("the first device's memory", got == std::vector<float>(count, 1));

    const size_t held = free_of(devices[1]);  // a graph needs memory of its own
    for (ggml_backend_buffer_t buffer : buffers)
        ggml_backend_buffer_free(buffer);
    expect("a buffer that is freed", free_of(devices[0]) == before[0] && free_of(devices[1]) >= held + count * sizeof(float));
    ggml_free(context);
    for (ggml_backend_t backend : backends)
        ggml_backend_free(backend);
}

}  // namespace

int main(int count, char ** words) {
    if (count != 3)
        return 2;
    if (std::string(words[2]) == "preloaded") {
        expect("the devices", ggml_backend_dev_by_name("NPU0"));
        return !good;
    }
    ggml_backend_reg_t reg = ggml_backend_load(words[1]);
    if (!reg)
        return 2;
    if (std::string(words[2]) == "two")
        two(reg);
    else
        expect("a device that is in use", !ggml_backend_dev_init(ggml_backend_reg_dev_get(reg, 0), nullptr));
    return !good;
}
