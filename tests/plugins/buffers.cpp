// SPDX-License-Identifier: Apache-2.0
// Buffers of a device and what of them a call touches:
//     buffers PLUGIN neighbours|parts|sizes|empty|threads|large
// Exit status 1 and a line about it if something is wrong.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

namespace {

bool good = true;
ggml_backend_t npu;

void expect(const char * what, bool true_) {
    std::printf("%s: %s\n", what, true_ ? "right" : "wrong");
    good = good && true_;
}

ggml_context * new_context() {
    return ggml_init({1 << 20, nullptr, true});
}

std::vector<uint8_t> read(const ggml_tensor * tensor) {
    std::vector<uint8_t> bytes(ggml_nbytes(tensor));
    ggml_backend_tensor_get(tensor, bytes.data(), 0, bytes.size());
    return bytes;
}

// Three buffers one behind the other: what clears one leaves the others, and clears all of it.
void neighbours() {
    ggml_context * context = new_context();
    ggml_backend_buffer_t buffers[3];
    ggml_tensor * tensors[3];
    for (int i = 0; i < 3; i++) {
        tensors[i] = ggml_new_tensor_1d(context, GGML_TYPE_I8, 100);
        buffers[i] = ggml_backend_alloc_buffer(npu, 100);
        ggml_backend_tensor_alloc(buffers[i], tensors[i], ggml_backend_buffer_get_base(buffers[i]));
        ggml_backend_buffer_clear(buffers[i], uint8_t(10 + i));
    }
    auto * first = static_cast<char *>(ggml_backend_buffer_get_base(buffers[0]));
    auto * second = static_cast<char *>(ggml_backend_buffer_get_base(buffers[1]));
    expect("one behind the other", second == first + 128);
    ggml_backend_buffer_clear(buffers[1], 0xa5);
    ggml_backend_buffer_clear(buffers[0], 0x5a);
    expect("the first one", read(tensors[0]) == std::vector<uint8_t>(100, 0x5a));
    expect("the middle one", read(tensors[1]) == std::vector<uint8_t>(100, 0xa5));
    expect("the last one", read(tensors[2]) == std::vector<uint8_t>(100, 12));
    for (ggml_backend_buffer_t buffer : buffers)
        ggml_backend_buffer_free(buffer);
    ggml_free(context);
}

// Bytes of a tensor that is not in blocks, and of a view of it: set, got, filled and copied.
void parts() {
    ggml_context * context = new_context();
    ggml_tensor *whole = ggml_new_tensor_2d(context, GGML_TYPE_F16, 30, 7), *other = ggml_new_tensor_2d(context, GGML_TYPE_F16, 30, 2);
    ggml_tensor * behind = ggml_new_tensor_1d(context, GGML_TYPE_I8, 100);
    ggml_tensor * view = ggml_view_2d(context, whole, 30, 2, whole->nb[1], 3 * whole->nb[1]);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, npu);
    ggml_backend_tensor_memset(behind, 0x3c, 0, 100);
    std::vector<uint8_t> wanted(ggml_nbytes(whole)), given(200, 7);
    for (size_t i = 0; i < wanted.size(); i++)
        wanted[i] = uint8_t(i);
    ggml_backend_tensor_set(whole, wanted.data(), 0, wanted.size());
    ggml_backend_tensor_set(whole, given.data(), 11, 20);
    std::memset(&wanted[11], 7, 20);
    expect("a part that is set", read(whole) == wanted);
    ggml_backend_tensor_memset(whole, 0xa5, 100, 33);
    std::memset(&wanted[100], 0xa5, 33);
    expect("a part that is filled", read(whole) == wanted);
    ggml_backend_tensor_set(view, given.data(), 5, 9);
    std::memset(&wanted[3 * 60 + 5], 7, 9);
    expect("a part of a view that is set", read(whole) == wanted);
    ggml_backend_tensor_get(whole, given.data(), 171, 63);
    expect("a part that is got", !std::memcmp(given.data(), &wanted[171], 63));
    const std::vector<uint8_t> rows(wanted.begin() + 180, wanted.begin() + 300);
    expect("a view", read(view) == rows);
    ggml_backend_tensor_copy(view, other);
    expect("a copy of a view", read(other) == rows && read(whole) == wanted);
    ggml_backend_tensor_memset(other, 1, 0, ggml_nbytes(other));
    ggml_backend_tensor_copy(other, view);
    std::memset(&wanted[180], 1, 120);
    expect("a copy into a view", read(whole) == wanted);
    expect("what is behind", read(behind) == std::vector<uint8_t>(100, 0x3c));
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
}

// What a tensor takes: as ggml counts it, but for those that are kept in tiles.
void sizes() {
    ggml_backend_buffer_type_t type = ggml_backend_get_default_buffer_type(npu);
    expect("the alignment", ggml_backend_buft_get_alignment(type) == 64);
    expect("the largest buffer", ggml_backend_buft_get_max_size(type) == (size_t(256) << 20) - 64);
    expect("it is no host memory", !ggml_backend_buft_is_host(type));
    expect("its name", !std::strcmp(ggml_backend_buft_name(type), "NPU0"));
    ggml_context * context = new_context();
    for (int each = 0; each < GGML_TYPE_COUNT; each++) {
        const auto kind = ggml_type(each);
        if (!ggml_blck_size(kind) || !ggml_type_size(kind))
            continue;
        ggml_tensor * tensor = ggml_new_tensor_4d(context, kind, 512, 19, 3, 2);
        ggml_tensor * rows = ggml_view_3d(context, tensor, 256, 5, 3, tensor->nb[1], tensor->nb[2], 0);
        const size_t tile = kind == GGML_TYPE_Q8_0 ? 1088 : kind == GGML_TYPE_Q4_0 ? 576 : kind == GGML_TYPE_Q4_1 ? 640 : 0;
        const size_t wanted = tile ? tile * 8 * 2 * 6 : ggml_nbytes(tensor);
        expect(ggml_type_name(kind), ggml_backend_buft_get_alloc_size(type, tensor) == wanted);
        expect("a part", ggml_backend_buft_get_alloc_size(type, rows) == ggml_nbytes(rows));
        if (ggml_blck_size(kind) == 1) {
            ggml_tensor * turned = ggml_permute(context, rows, 1, 2, 0, 3);
            expect("permuted", ggml_backend_buft_get_alloc_size(type, turned) == ggml_nbytes(turned));
        }
        if (tile)
            expect("a view takes nothing in tiles", ggml_backend_buft_get_alloc_size(type, ggml_view_tensor(context, tensor)) == ggml_nbytes(tensor));
        tensor = ggml_new_tensor_2d(context, kind, 0, 3);
        expect("nothing", ggml_backend_buft_get_alloc_size(type, tensor) == 0);
    }
    ggml_free(context);
}

// Empty tensors and buffers of no bytes, for which ggml does not ask the backend.
void empty() {
    ggml_context *context = new_context(), *nowhere = new_context();
    ggml_tensor * target = ggml_new_tensor_2d(context, GGML_TYPE_F32, 4, 0);
    ggml_tensor * kept = ggml_new_tensor_1d(context, GGML_TYPE_F32, 4);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_buffer(npu, 64), none = ggml_backend_alloc_buffer(npu, 0);
    ggml_backend_tensor_alloc(buffer, kept, ggml_backend_buffer_get_base(buffer));
    ggml_backend_tensor_alloc(buffer, target, ggml_backend_buffer_get_base(buffer));
    ggml_backend_buffer_clear(buffer, 3);
    ggml_tensor * source = ggml_dup_tensor(nowhere, target);
    source->buffer = none;
    source->data = ggml_backend_buffer_get_base(buffer);
    ggml_backend_tensor_copy(source, target);
    ggml_backend_buffer_clear(none, 1);
    expect("nothing is written", read(kept) == std::vector<uint8_t>(16, 3));
    ggml_backend_buffer_free(none);
    ggml_backend_buffer_free(buffer);
    ggml_free(nowhere);
    ggml_free(context);
}

// Four threads with a tensor in blocks each: a connection carries one request at a time, whoever has it.
void threads() {
    std::vector<std::thread> workers;
    bool right[4] = {};
    for (int which = 0; which < 4; which++)
        workers.emplace_back([which, &right] {
            bool all = true;
            for (int turn = 0; turn < 20; turn++) {
                ggml_context * context = new_context();
                ggml_tensor * blocks = ggml_new_tensor_2d(context, GGML_TYPE_Q8_0, 64, 16);
                ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, npu);
                std::vector<uint8_t> bytes(ggml_nbytes(blocks), uint8_t(16 * which + turn));
                ggml_backend_tensor_set(blocks, bytes.data(), 0, bytes.size());
                all = all && read(blocks) == bytes;
                ggml_backend_buffer_free(buffer);
                ggml_free(context);
            }
            right[which] = all;
        });
    for (std::thread & each : workers)
        each.join();
    expect("what each has written", right[0] && right[1] && right[2] && right[3]);
}

// A buffer for which there is no memory is none, and the next one is served.
void large() {
    expect("too large", !ggml_backend_alloc_buffer(npu, size_t(1) << 40));
    const size_t most = size_t(200) << 20;
    ggml_backend_buffer_t held[] = {ggml_backend_alloc_buffer(npu, most), ggml_backend_alloc_buffer(npu, most)};
    expect("two large ones", held[0] && held[1]);
    expect("a third one", !ggml_backend_alloc_buffer(npu, most));
    for (ggml_backend_buffer_t each : held)
        ggml_backend_buffer_free(each);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_buffer(npu, 64);
    expect("the next one", buffer);
    ggml_backend_buffer_free(buffer);
}

}  // namespace

int main(int count, char ** words) {
    if (count != 3 || !ggml_backend_load(words[1]))
        return 2;
    ggml_backend_dev_t device = ggml_backend_dev_by_name("NPU0");
    npu = device ? ggml_backend_dev_init(device, nullptr) : nullptr;
    const std::pair<const char *, void (*)()> known[] = {
        {"neighbours", neighbours}, {"parts", parts}, {"sizes", sizes}, {"empty", empty}, {"threads", threads}, {"large", large}};
    for (const auto & [name, check] : known)
        if (npu && std::string(words[2]) == name) {
            check();
            return !good;
        }
    return 2;
}
