// SPDX-License-Identifier: Apache-2.0
// Graphs that a backend can get wrong by doing too much or too little:
//     graphs PLUGIN replay|keys|views|select|outputs|inplace|large|parts|moved|inputs|apart
// Exit status 1 and a line about it if a result is wrong.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace {

ggml_backend_t npu, cpu;

ggml_context * new_context() {
    return ggml_init({1 << 20, nullptr, true});
}

std::vector<float> read(const ggml_tensor * tensor) {
    std::vector<float> values(size_t(ggml_nelements(tensor)));
    ggml_backend_tensor_get(tensor, values.data(), 0, values.size() * sizeof(float));
    return values;
}

void write(ggml_tensor * tensor, const std::vector<float> & values) {
    ggml_backend_tensor_set(tensor, values.data(), 0, values.size() * sizeof(float));
}

// Bytes of any value up to `most`, which is one less than a power of two.
std::vector<uint8_t> any_bytes(size_t size, uint8_t most = 0xff) {
    std::vector<uint8_t> bytes(size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = uint8_t(i * 2654435761u >> 24) & most;
    return bytes;
}

// Whether a tensor gives back the bytes that it is given.
bool keeps(ggml_tensor * tensor, const std::vector<uint8_t> & bytes) {
    std::vector<uint8_t> got(bytes.size());
    ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
    ggml_backend_tensor_get(tensor, got.data(), 0, got.size());
    return got == bytes;
}

bool equal(const char * what, const std::vector<float> & got, const std::vector<float> & wanted) {
    bool same = got.size() == wanted.size();
    for (size_t i = 0; same && i < got.size(); i++)
        same = std::fabs(got[i] - wanted[i]) <= 1e-5f * (1 + std::fabs(wanted[i]));
    std::printf("%s: %s\n", what, same ? "right" : "wrong");
    return same;
}

// A graph that is computed again, as it was and with something changed: each result is that of the graph as it is.
bool replay() {
    ggml_context * context = new_context();
    ggml_tensor * whole = ggml_new_tensor_2d(context, GGML_TYPE_F32, 8, 4);
    ggml_tensor * part = ggml_view_2d(context, whole, 4, 2, whole->nb[1], 0);
    ggml_tensor * scaled = ggml_scale(context, part, 2);
    ggml_backend_alloc_ctx_tensors(context, npu);
    std::vector<float> values(32);
    for (size_t i = 0; i < values.size(); i++)
        values[i] = float(i) + 0.5f;
    write(whole, values);
    ggml_cgraph * graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, scaled);
    float factor = 2;
    auto right = [&](const char * what) {
        if (ggml_backend_graph_compute(npu, graph) != GGML_STATUS_SUCCESS)
            return false;
        size_t first = size_t(static_cast<char *>(part->data) - static_cast<char *>(whole->data)) / sizeof(float);
        std::vector<float> wanted;
        for (size_t row = 0; row < 2; row++)
            for (size_t i = 0; i < 4; i++)
                wanted.push_back(factor * values[first + row * part->nb[1] / sizeof(float) + i]);
        return equal(what, read(scaled), wanted);
    };
    bool good = right("a graph") && right("the same graph");
    for (float & value : values)
        value = -value;
    write(whole, values);
    good = good && right("another input");
    factor = 3;
    std::memcpy(scaled->op_params, &factor, sizeof factor);
    good = good && right("another parameter");
    part->data = static_cast<char *>(part->data) + whole->nb[1];
    good = good && right("another address");
    part->nb[1] *= 2;
    part->nb[2] = part->nb[3] = 2 * part->nb[1];
    return good && right("another step") && right("the last graph");
}

// Ten graphs in turn: each computes what it says, whichever of them the backend and the server still know. Views and empty
// results are no part of them.
bool keys() {
    ggml_context * context = new_context();
    ggml_tensor *whole = ggml_new_tensor_1d(context, GGML_TYPE_F32, 8), *x = ggml_view_1d(context, whole, 4, 16);
    std::vector<ggml_tensor *> made;
    std::vector<ggml_cgraph *> graphs;
    for (int i = 0; i < 10; i++) {
        made.push_back(ggml_scale(context, x, float(i + 1)));
        graphs.push_back(ggml_new_graph(context));
        ggml_build_forward_expand(graphs.back(), ggml_scale(context, ggml_view_1d(context, x, 0, 0), 2));
        ggml_build_forward_expand(graphs.back(), made.back());
    }
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, npu);
    float value = 1;
    auto right = [&](int which) {
        value += 1;
        write(whole, std::vector<float>(8, value));
        write(made[size_t(which)], std::vector<float>(4, -1));
        return ggml_backend_graph_compute(npu, graphs[size_t(which)]) == GGML_STATUS_SUCCESS &&
               equal("a graph of ten", read(made[size_t(which)]), std::vector<float>(4, value * float(which + 1)));
    };
    bool good = true;
    for (int which : {0, 1, 0, 0, 2, 3, 4, 5, 6, 7, 0, 8, 0, 8, 1, 9, 3})
        good = right(which) && good;
    // With a buffer that comes or goes the server forgets all graphs.
    ggml_backend_buffer_t other = ggml_backend_alloc_buffer(npu, 64);
    good = right(9) && right(9) && good;
    ggml_backend_buffer_free(other);
    good = right(9) && right(9) && good;
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
    return good;
}

// A result that lies where its source does, of which a node reads the whole: it is written there nevertheless.
bool inplace() {
    ggml_context * context = new_context();
    ggml_tensor *x = ggml_new_tensor_2d(context, GGML_TYPE_F32, 8, 2), *weights = ggml_new_tensor_1d(context, GGML_TYPE_F32, 8);
    ggml_tensor * scaled = ggml_mul(context, ggml_rms_norm_inplace(context, x, 0), weights);
    ggml_cgraph * graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, scaled);
    ggml_backend_alloc_ctx_tensors(context, npu);
    write(x, std::vector<float>(16, 3));
    write(weights, std::vector<float>(8, 5));
    if (ggml_backend_graph_compute(npu, graph) != GGML_STATUS_SUCCESS)
        return false;
    return equal("the norm", read(x), std::vector<float>(16, 1)) & equal("what follows", read(scaled), std::vector<float>(16, 5));
}

// A result that two nodes read by one view, of which one is in another part of the graph.
bool views() {
    ggml_context *context = new_context(), *made = new_context();
    ggml_tensor * weights = ggml_new_tensor_2d(context, GGML_TYPE_Q4_1, 64, 32);
    ggml_tensor *x = ggml_new_tensor_1d(context, GGML_TYPE_F32, 64), *more = ggml_new_tensor_1d(context, GGML_TYPE_F32, 32);
    ggml_backend_alloc_ctx_tensors(context, npu);
    std::vector<float> numbers(64 * 32), row(64), added(32, 100), product(32), sum;
    for (size_t i = 0; i < numbers.size(); i++)
        numbers[i] = float(i % 16);  // exact in q4_1
    for (size_t i = 0; i < row.size(); i++)
        row[i] = float(i % 5) - 1;
    std::vector<char> blocks(ggml_row_size(GGML_TYPE_Q4_1, 64) * 32);
    ggml_quantize_chunk(GGML_TYPE_Q4_1, numbers.data(), blocks.data(), 0, 32, 64, nullptr);
    ggml_backend_tensor_set(weights, blocks.data(), 0, blocks.size());
    write(x, row);
    write(more, added);
    for (size_t n = 0; n < 32; n++) {
        for (size_t k = 0; k < 64; k++)
            product[n] += row[k] * numbers[64 * n + k];
        sum.push_back(product[n] + 100);
    }
    ggml_tensor * view = ggml_reshape_1d(made, ggml_mul_mat(made, weights, x), 32);
    ggml_tensor *total = ggml_add(made, view, more), *elsewhere = ggml_cumsum(made, view);  // on the CPU
    ggml_set_output(total);
    ggml_set_output(elsewhere);
    ggml_cgraph * graph = ggml_new_graph(made);
    ggml_build_forward_expand(graph, total);
    ggml_build_forward_expand(graph, elsewhere);
    ggml_backend_t backends[] = {npu, cpu};
    ggml_backend_sched_t scheduler = ggml_backend_sched_new(backends, nullptr, 2, GGML_DEFAULT_GRAPH_SIZE, false, true);
    if (!ggml_backend_sched_alloc_graph(scheduler, graph))
        return false;
    ggml_status status = ggml_backend_sched_graph_compute(scheduler, graph);
    int splits = ggml_backend_sched_get_n_splits(scheduler);
    std::printf("status %d, %d splits\n", status, splits);
    if (status != GGML_STATUS_SUCCESS || splits != 2)
        return false;
    for (size_t n = 1; n < 32; n++)
        product[n] += product[n - 1];
    bool good = equal("the sum", read(total), sum) & equal("the other reader", read(elsewhere), product);
    ggml_backend_sched_free(scheduler);
    return good;
}

// A result that only one node reads, but the program too: an output is written although the next node could do without.
bool outputs() {
    ggml_context * context = new_context();
    ggml_tensor *x = ggml_new_tensor_2d(context, GGML_TYPE_F32, 8, 2), *weights = ggml_new_tensor_1d(context, GGML_TYPE_F32, 8);
    ggml_tensor * norm = ggml_rms_norm(context, x, 0);
    ggml_set_output(norm);
    ggml_tensor * scaled = ggml_mul(context, norm, weights);
    ggml_cgraph * graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, scaled);
    ggml_backend_alloc_ctx_tensors(context, npu);
    std::vector<float> rows(16), ones(16);
    for (size_t i = 0; i < rows.size(); i++) {
        rows[i] = i % 2 ? -3.0f : 3.0f;
        ones[i] = i % 2 ? -1.0f : 1.0f;
    }
    write(x, rows);
    write(norm, std::vector<float>(16, 7));
    write(weights, std::vector<float>(8, 5));
    if (ggml_backend_graph_compute(npu, graph) != GGML_STATUS_SUCCESS)
        return false;
    bool good = equal("the output", read(norm), ones);
    for (float & value : ones)
        value *= 5;
    return equal("what follows", read(scaled), ones) && good;
}

// Of two branches only the chosen one is computed: the other one would be a NaN, and write to an input.
bool select() {
    ggml_context * context = new_context();
    ggml_tensor *x = ggml_new_tensor_1d(context, GGML_TYPE_F32, 8), *bad = ggml_new_tensor_1d(context, GGML_TYPE_F32, 8);
    ggml_tensor * branches[] = {ggml_sqr(context, x), ggml_sqr_inplace(context, bad)};
    ggml_cgraph * graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, ggml_neg(context, ggml_build_forward_select(graph, branches, 2, 0)));
    ggml_tensor * result = ggml_graph_node(graph, -1);
    ggml_backend_alloc_ctx_tensors(context, npu);
    write(x, {0, 1, 2, 3, 4, 5, 6, 7});
    write(bad, std::vector<float>(8, -NAN));
    if (ggml_backend_graph_compute(npu, graph) != GGML_STATUS_SUCCESS)
        return false;
    return equal("the chosen branch", read(result), {0, -1, -4, -9, -16, -25, -36, -49});
}

// Weights in blocks of more bytes than an answer of the server holds: one matrix, and several.
bool large() {
    const int64_t shapes[][2] = {{15500, 1}, {7000, 3}};
    bool good = true;
    for (const auto & shape : shapes) {
        ggml_context * context = new_context();
        ggml_tensor * weights = ggml_new_tensor_3d(context, GGML_TYPE_Q8_0, 4096, shape[0], shape[1]);
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, npu);
        const std::vector<uint8_t> blocks = any_bytes(ggml_nbytes(weights));
        good = keeps(weights, blocks) && blocks.size() > (1 << 26) && good;
        const size_t last = blocks.size() - weights->nb[1];
        std::vector<uint8_t> row(weights->nb[1]), found(row.size());
        ggml_backend_tensor_set(weights, row.data(), last, row.size());
        ggml_backend_tensor_get(weights, found.data(), last, found.size());
        good = good && found == row;
        ggml_backend_buffer_free(buffer);
        ggml_free(context);
    }
    return good;
}

// Parts of a tensor in blocks, whose last tiles are not full: set, got, filled, cleared and copied as bytes of a file. The
// tensor behind it stays as it is.
bool parts(ggml_type type) {
    ggml_context * context = new_context();
    ggml_tensor * blocks = ggml_new_tensor_3d(context, type, 96, 21, 2);
    ggml_tensor *next = ggml_new_tensor_1d(context, GGML_TYPE_F32, 16), *other = ggml_dup_tensor(context, blocks);
    ggml_tensor * view = ggml_view_2d(context, blocks, 96, 3, blocks->nb[1], blocks->nb[2] + 17 * blocks->nb[1]);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, npu);
    const std::vector<uint8_t> bytes = any_bytes(ggml_nbytes(blocks));
    std::vector<uint8_t> wanted(bytes.size()), got(bytes.size());
    const std::vector<float> kept(16, 1.5f);
    const size_t start = view->view_offs;
    write(next, kept);
    auto same = [&](const char * what) {
        got.assign(got.size(), 0);
        ggml_backend_tensor_get(blocks, got.data(), 0, got.size());
        const bool right = got == wanted && read(next) == kept;
        std::printf("%s, %s: %s\n", ggml_type_name(type), what, right ? "right" : "wrong");
        return right;
    };
    ggml_backend_tensor_set(blocks, bytes.data(), 0, bytes.size());
    wanted = bytes;
    bool good = same("the whole");
    ggml_backend_tensor_set(blocks, bytes.data() + 5, 1001, 333);
    std::memcpy(&wanted[1001], &bytes[5], 333);
    good = same("a part") && good;
    ggml_backend_tensor_set(view, bytes.data(), 7, 100);
    std::memcpy(&wanted[start + 7], bytes.data(), 100);
    good = same("a part of a view") && good;
    ggml_backend_tensor_set(view, bytes.data() + 1, 0, ggml_nbytes(view));
    std::memcpy(&wanted[start], bytes.data() + 1, ggml_nbytes(view));
    good = same("a whole view") && good;
    ggml_backend_tensor_get(view, got.data(), 3, 90);
    good = !std::memcmp(got.data(), &wanted[start + 3], 90) && good;
    ggml_backend_tensor_get(blocks, got.data(), 1234, 56);
    good = !std::memcmp(got.data(), &wanted[1234], 56) && good;
    ggml_backend_tensor_memset(blocks, 0x5a, 50, 77);
    std::memset(&wanted[50], 0x5a, 77);
    good = same("some bytes filled") && good;
    ggml_backend_tensor_copy(blocks, other);
    ggml_backend_tensor_get(other, got.data(), 0, got.size());
    good = got == wanted && good;
    // Dense on one side, in tiles on the other.
    ggml_backend_buffer_t host = ggml_backend_alloc_buffer(cpu, 1 << 20);
    ggml_context * there = new_context();
    ggml_tensor * dense = ggml_dup_tensor(there, blocks);
    ggml_backend_tensor_alloc(host, dense, ggml_backend_buffer_get_base(host));
    ggml_backend_tensor_copy(blocks, dense);
    ggml_backend_tensor_get(dense, got.data(), 0, got.size());
    good = got == wanted && good;
    ggml_backend_tensor_set(dense, bytes.data(), 0, bytes.size());
    ggml_backend_tensor_copy(dense, blocks);
    wanted = bytes;
    good = same("the whole from the host") && good;
    ggml_backend_buffer_clear(buffer, 0);
    wanted.assign(wanted.size(), 0);
    ggml_backend_tensor_get(blocks, got.data(), 0, got.size());
    good = got == wanted && read(next) == std::vector<float>(16) && good;
    ggml_backend_buffer_free(host);
    ggml_backend_buffer_free(buffer);
    ggml_free(there);
    ggml_free(context);
    return good;
}

bool all_parts() {
    return parts(GGML_TYPE_Q8_0) & parts(GGML_TYPE_Q4_0) & parts(GGML_TYPE_Q4_1);
}

bool supported(const ggml_tensor * node) {
    return ggml_backend_dev_supports_op(ggml_backend_get_device(npu), node);
}

// Numbers that decide addresses or constants of a program are an input of the graph, or a part of one, and nothing that
// the graph computes.
bool inputs() {
    ggml_context * context = new_context();
    ggml_tensor * given = ggml_new_tensor_1d(context, GGML_TYPE_I32, 4);
    ggml_tensor * factors = ggml_new_tensor_1d(context, GGML_TYPE_F32, 4);
    ggml_tensor *made = ggml_cont(context, given), *scaled = ggml_scale(context, factors, 2);
    ggml_tensor * heads = ggml_new_tensor_3d(context, GGML_TYPE_F32, 8, 3, 4);
    ggml_tensor * two = ggml_new_tensor_3d(context, GGML_TYPE_F32, 8, 3, 2);
    ggml_tensor * table = ggml_new_tensor_2d(context, GGML_TYPE_Q8_0, 64, 5);
    auto rope = [&](ggml_tensor * x, ggml_tensor * positions, ggml_tensor * divisors) {
        return ggml_rope_ext(context, x, positions, divisors, 8, 2, 0, 10000, 1, 0, 1, 32, 1);
    };
    auto part = [&](ggml_tensor * whole) { return ggml_view_1d(context, whole, 2, 8); };
    auto flat = [&](ggml_tensor * whole) { return ggml_reshape_1d(context, ggml_reshape_2d(context, whole, 2, 2), 4); };
    const std::pair<ggml_tensor *, bool> nodes[] = {
        {rope(heads, given, nullptr), true},
        {rope(heads, made, nullptr), false},
        {rope(two, part(given), nullptr), true},
        {rope(two, part(made), nullptr), false},
        {rope(two, part(flat(given)), nullptr), true},
        {rope(two, part(flat(made)), nullptr), false},
        {rope(heads, given, factors), true},
        {rope(heads, given, scaled), false},
        {ggml_get_rows(context, table, given), true},
        {ggml_get_rows(context, table, made), false},
        {ggml_get_rows(context, table, part(made)), false},
    };
    bool good = true;
    for (const auto & [node, taken] : nodes) {
        const bool right = supported(node) == taken;
        std::printf("%s, %s: %s\n", ggml_op_name(node->op), taken ? "an input" : "computed", right ? "right" : "wrong");
        good = right && good;
    }
    ggml_free(context);
    return good;
}

// Rows of a view that a copy brings together, as bytes.
std::vector<uint8_t> rows_of(const ggml_tensor * view, const std::vector<uint8_t> & whole) {
    std::vector<uint8_t> found;
    const size_t row = size_t(view->ne[0] / ggml_blck_size(view->type)) * ggml_type_size(view->type);
    for (int64_t i3 = 0; i3 < view->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < view->ne[2]; i2++)
            for (int64_t i1 = 0; i1 < view->ne[1]; i1++) {
                auto first = whole.begin() + long(view->view_offs + size_t(i1) * view->nb[1] + size_t(i2) * view->nb[2] + size_t(i3) * view->nb[3]);
                found.insert(found.end(), first, first + long(row));
            }
    return found;
}

// A tensor in blocks whose rows lie apart, or repeat, and which is a view of nothing: so ggml's scheduler copies a view of
// another backend's tensor. The tensor behind it stays as it is.
bool apart(size_t step) {
    ggml_context * context = new_context();
    ggml_tensor * rows = ggml_new_tensor_2d(context, GGML_TYPE_Q8_0, 64, 30);
    ggml_tensor * next = ggml_new_tensor_1d(context, GGML_TYPE_F32, 16);
    const size_t row = rows->nb[1];
    rows->nb[1] = step * row;
    rows->nb[2] = rows->nb[3] = 30 * rows->nb[1];
    ggml_tensor * part = step ? ggml_view_2d(context, rows, 64, 20, rows->nb[1], 7 * rows->nb[1]) : rows;
    ggml_tensor *all = ggml_cont(context, rows), *some = ggml_cont(context, part);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, npu);
    const std::vector<float> kept(16, 1.5f);
    write(next, kept);
    const std::vector<uint8_t> bytes = any_bytes(ggml_nbytes(rows));
    bool good = keeps(rows, bytes) && read(next) == kept;
    ggml_cgraph * graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, all);
    ggml_build_forward_expand(graph, some);
    good = supported(all) && supported(some) && ggml_backend_graph_compute(npu, graph) == GGML_STATUS_SUCCESS && good;
    for (const auto & [view, copy] : {std::pair{rows, all}, std::pair{part, some}}) {
        std::vector<uint8_t> got(ggml_nbytes(copy));
        ggml_backend_tensor_get(copy, got.data(), 0, got.size());
        good = good && got == rows_of(view, bytes);
    }
    std::printf("rows %zu apart: %s\n", step, good ? "right" : "wrong");
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
    return good;
}

// Columns of blocks, as the scheduler copies them too: bytes that nothing computes with.
bool columns() {
    ggml_context * context = new_context();
    ggml_tensor * turned = ggml_new_tensor_2d(context, GGML_TYPE_Q8_0, 64, 64);
    std::swap(turned->nb[0], turned->nb[1]);
    ggml_tensor *copy = ggml_new_tensor_2d(context, GGML_TYPE_Q8_0, 64, 64), *next = ggml_new_tensor_1d(context, GGML_TYPE_F32, 16);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, npu);
    const std::vector<float> kept(16, 1.5f);
    write(next, kept);
    const bool good = keeps(turned, any_bytes(ggml_nbytes(turned))) && read(next) == kept && !supported(ggml_cpy(context, turned, copy));
    std::printf("columns: %s\n", good ? "right" : "wrong");
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
    return good;
}

bool all_apart() {
    return apart(1) & apart(3) & apart(0) & columns();
}

// A copy of rows of any type has their bytes; columns of blocks are refused.
bool moved(ggml_type type) {
    ggml_context * context = new_context();
    const int64_t block = ggml_blck_size(type);
    const bool tiles = type == GGML_TYPE_Q8_0 || type == GGML_TYPE_Q4_0 || type == GGML_TYPE_Q4_1;
    ggml_tensor * whole = ggml_new_tensor_4d(context, type, 3 * block, 2, 3, 4);
    ggml_tensor * turned = ggml_permute(context, whole, 0, 2, 1, 3);
    ggml_tensor * some = ggml_view_3d(context, whole, 3 * block, 2, 2, whole->nb[2], whole->nb[3], whole->nb[1] + whole->nb[3]);
    ggml_tensor * narrow = ggml_view_4d(context, whole, 2 * block, 2, 3, 4, whole->nb[1], whole->nb[2], whole->nb[3], ggml_type_size(type));
    ggml_tensor * columns = ggml_transpose(context, ggml_new_tensor_2d(context, type, 3 * block, 2 * block));
    ggml_cgraph * graph = ggml_new_graph(context);
    std::vector<std::pair<ggml_tensor *, ggml_tensor *>> copies;
    bool good = true;
    for (ggml_tensor * view : {turned, some, narrow}) {
        ggml_tensor * dense = ggml_new_tensor(context, type, 4, view->ne);
        for (ggml_tensor * copy : {ggml_cpy(context, view, dense), ggml_cont(context, view)}) {
            const bool fits = !tiles || view != narrow;
            good = good && supported(copy) == fits;
            if (!fits)
                continue;
            ggml_build_forward_expand(graph, copy);
            copies.push_back({view, copy});
        }
    }
    ggml_tensor * flat = ggml_new_tensor_2d(context, type, 2 * block, 3 * block);
    good = good && supported(ggml_cpy(context, columns, flat)) == (block == 1);
    ggml_tensor * column = ggml_new_tensor_2d(context, type, block, 3);
    good = good && supported(ggml_cpy(context, ggml_transpose(context, column), column)) == (block == 1);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, npu);
    const std::vector<uint8_t> bytes = any_bytes(ggml_nbytes(whole), 0x3f);  // no float of these is a NaN
    std::vector<uint8_t> got;
    ggml_backend_tensor_set(whole, bytes.data(), 0, bytes.size());
    good = ggml_backend_graph_compute(npu, graph) == GGML_STATUS_SUCCESS && good;
    for (const auto & [view, copy] : copies) {
        got.resize(ggml_nbytes(copy));
        ggml_backend_tensor_get(copy, got.data(), 0, got.size());
        good = good && got == rows_of(view, bytes);
    }
    std::printf("%s: %s\n", ggml_type_name(type), good ? "right" : "wrong");
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
    return good;
}

bool all_moved() {
    bool good = true;
    int types = 0;
    for (int each = 0; each < GGML_TYPE_COUNT; each++)
        if (ggml_blck_size(ggml_type(each)) && ggml_type_size(ggml_type(each))) {
            good = moved(ggml_type(each)) && good;
            types++;
        }
    return good && types > 30;
}

}  // namespace

int main(int count, char ** words) {
    if (count != 3 || !ggml_backend_load(words[1]))
        return 2;
    ggml_backend_dev_t device = ggml_backend_dev_by_name("NPU0");
    npu = device ? ggml_backend_dev_init(device, nullptr) : nullptr, cpu = ggml_backend_cpu_init();
    if (!npu)
        return 2;
    std::string which = words[2];
    const std::pair<const char *, bool (*)()> known[] = {
        {"replay", replay}, {"keys", keys}, {"inplace", inplace}, {"views", views}, {"select", select}, {"outputs", outputs}, {"large", large}, {"parts", all_parts}, {"moved", all_moved}, {"inputs", inputs}, {"apart", all_apart}};
    for (const auto & [name, check] : known)
        if (which == name)
            return !check();
    return 2;
}
