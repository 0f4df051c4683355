// SPDX-License-Identifier: Apache-2.0
// The devices of the backend and their memory:
//     devices PLUGIN two|facts|supports|busy|none|preloaded
// two: of a server with two devices; facts: what the device says of itself; supports: which nodes and buffers it takes;
// busy: another program has NPU0; none: there is no server; preloaded: nobody loads the plugin but LD_PRELOAD.
// Exit status 1 and a line about it if something is wrong.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
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

long descriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
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

void two(ggml_backend_reg_t reg, long held_before) {
    const size_t count = size_t(1) << 18;
    expect("the number of devices", ggml_backend_reg_dev_count(reg) == 2);
    expect("a question leaves no connection", descriptors() == held_before);
    ggml_backend_dev_t devices[] = {ggml_backend_reg_dev_get(reg, 0), ggml_backend_reg_dev_get(reg, 1)};
    expect("the names", !std::strcmp(ggml_backend_dev_name(devices[0]), "NPU0") && !std::strcmp(ggml_backend_dev_name(devices[1]), "NPU1"));
    ggml_backend_t backends[] = {ggml_backend_dev_init(devices[0], nullptr), ggml_backend_dev_init(devices[1], nullptr)};
    if (!backends[0] || !backends[1])
        return expect("both devices at once", false);
    expect("a connection for each device", descriptors() == held_before + 2);
    expect("names of buffers", !std::strcmp(ggml_backend_buft_name(ggml_backend_dev_buffer_type(devices[1])), "NPU1"));
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            expect("the buffers of a device are its own", ggml_backend_dev_supports_buft(devices[i], ggml_backend_dev_buffer_type(devices[j])) == (i == j));
    expect("names of backends", !std::strcmp(ggml_backend_name(backends[1]), "NPU1") && ggml_backend_get_device(backends[1]) == devices[1]);
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

void facts(ggml_backend_reg_t reg) {
    ggml_backend_dev_t device = ggml_backend_reg_dev_get(reg, 0);
    ggml_backend_dev_props properties;
    ggml_backend_dev_get_props(device, &properties);
    size_t free = 0, total = 0;
    ggml_backend_dev_memory(device, &free, &total);
    expect("memory", properties.memory_free == free && properties.memory_total == total);
    expect("name", !std::strcmp(properties.name, "NPU0") && !std::strcmp(ggml_backend_dev_name(device), "NPU0"));
    expect("description", !std::strcmp(properties.description, ggml_backend_dev_description(device)));
    expect("type", properties.type == GGML_BACKEND_DEVICE_TYPE_GPU && ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_GPU);
    const ggml_backend_dev_caps & caps = properties.caps;
    expect("capabilities", caps.mmap_support && !caps.async && !caps.host_buffer && !caps.buffer_from_host_ptr && !caps.events);
    expect("registry", !std::strcmp(ggml_backend_reg_name(reg), "NPU") && ggml_backend_dev_backend_reg(device) == reg);
    expect("another function", !ggml_backend_reg_get_proc_address(reg, "ggml_backend_split_buffer_type"));
    auto * features = reinterpret_cast<ggml_backend_get_features_t>(ggml_backend_reg_get_proc_address(reg, "ggml_backend_get_features"));
    std::string found;
    for (ggml_backend_feature * each = features ? features(reg) : nullptr; each && each->name; each++)
        found += std::string(each->name) + "=" + each->value + " ";
    expect("features", found == "Q8_0=1 Q4_0=1 Q4_1=1 ");
    std::printf("%zu of %zu: %s\n", free, total, ggml_backend_dev_description(device));
}

void supports(ggml_backend_reg_t reg) {
    ggml_backend_dev_t device = ggml_backend_reg_dev_get(reg, 0);
    ggml_backend_t npu = ggml_backend_dev_init(device, nullptr);
    ggml_context * context = ggml_init({1 << 20, nullptr, true});
    ggml_tensor *x = ggml_new_tensor_2d(context, GGML_TYPE_F32, 256, 2), *same = ggml_dup_tensor(context, x);
    ggml_tensor * odd = ggml_new_tensor_2d(context, GGML_TYPE_Q5_0, 256, 4);
    ggml_tensor *scaled = ggml_scale(context, x, 2), *again = ggml_scale(context, same, 2), *other = ggml_scale(context, x, 3);
    ggml_tensor *refused = ggml_mul_mat(context, odd, x), *unnamed = ggml_argsort(context, x, GGML_SORT_ORDER_ASC);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, npu);
    for (int round = 0; round < 2; round++) {
        expect("a node", ggml_backend_dev_supports_op(device, scaled));
        expect("at another address", ggml_backend_dev_supports_op(device, again));
        expect("with another parameter", ggml_backend_dev_supports_op(device, other));
        expect("a type that the device does not have", !ggml_backend_dev_supports_op(device, refused));
        expect("an operation that it does not have", !ggml_backend_dev_supports_op(device, unnamed));
        for (ggml_tensor * view : {odd, ggml_reshape_1d(context, x, 512), ggml_transpose(context, odd), ggml_view_1d(context, odd, 32, 0)})
            expect("a view", ggml_backend_dev_supports_op(device, view));
    }
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    expect("buffers of the host", cpu && !ggml_backend_dev_supports_buft(device, ggml_backend_dev_buffer_type(cpu)));
    expect("nothing is asked for", !ggml_backend_dev_offload_op(device, scaled));
    ggml_backend_buffer_free(buffer);
    ggml_backend_free(npu);
    ggml_free(context);
}

void busy(ggml_backend_reg_t reg) {
    ggml_backend_dev_t device = ggml_backend_reg_dev_get(reg, 0);
    const long before = descriptors();
    for (int round = 0; round < 2; round++)
        expect("a device that is in use", !ggml_backend_dev_init(device, nullptr));
    expect("no buffer", !ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device), 64));
    size_t free = 1, total = 1;
    ggml_backend_dev_memory(device, &free, &total);
    expect("no memory", !free && !total);
    expect("no connection", descriptors() == before);
}

}  // namespace

int main(int count, char ** words) {
    if (count != 3)
        return 2;
    if (std::string(words[2]) == "preloaded") {
        expect("the devices", ggml_backend_dev_by_name("NPU0"));
        return !good;
    }
    const long held_before = descriptors();
    ggml_backend_reg_t reg = ggml_backend_load(words[1]);
    if (!reg)
        return 2;
    const std::string which = words[2];
    if (which == "two")
        two(reg, held_before);
    else if (which == "facts")
        facts(reg);
    else if (which == "supports")
        supports(reg);
    else if (which == "busy")
        busy(reg);
    else if (which == "none")
        expect("no device", !ggml_backend_reg_dev_count(reg));
    else
        return 2;
    return !good;
}
