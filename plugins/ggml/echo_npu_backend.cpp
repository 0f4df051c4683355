// SPDX-License-Identifier: Apache-2.0
// A backend of ggml that passes tensors and graphs to the device server (docs/llama_cpp.md). It computes nothing itself,
// and it uses no function of ggml, so it needs none of its libraries to be linked.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "echo_npu_contract.h"
#include "echo_npu_link.h"
#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#define GGML_COMMON_DECL_CPP
#include "ggml-common.h"

#if GGML_BACKEND_API_VERSION != 2
#error "this backend is written for version 2 of ggml's backend interface"
#endif
static_assert(GGML_MAX_DIMS == ECHO_NPU_DIMENSIONS && GGML_MAX_SRC <= ECHO_NPU_MAX_SOURCES, "tensors of another form");
static_assert(GGML_MAX_OP_PARAMS == ECHO_NPU_PARAMETER_WORDS * sizeof(int32_t), "parameters of another size");
static_assert(QK8_0 == ECHO_NPU_BLOCK_VALUES && QK4_0 == ECHO_NPU_BLOCK_VALUES && QK4_1 == ECHO_NPU_BLOCK_VALUES,
              "blocks of another size");

namespace {

constexpr uint64_t device_bit = uint64_t(1) << 62;  // of a device pointer: no host pointer has it
constexpr int address_bits = 40;
// Of the smallest region that device memory has. A buffer lies in one region, and ggml divides tensors among several.
constexpr size_t least_region = size_t(256) << 20;

// --- types and names --------------------------------------------------------------------------------------------------

struct type_form {
    const char * name;  // null: of a type that is not known, and zeros
    int64_t elements;   // of a block
    size_t bytes;       // of a block
    bool moved;         // the device only moves it, whole blocks at a time
};

type_form form_of(ggml_type type) {
#define BLOCKS(big, small, count, moved) \
    case GGML_TYPE_##big: return {#small, count, sizeof(block_##small), moved}
    switch (type) {
        case GGML_TYPE_F32: return {"f32", 1, 4, false};
        case GGML_TYPE_F16: return {"f16", 1, 2, false};
        case GGML_TYPE_BF16: return {"bf16", 1, 2, false};
        case GGML_TYPE_I8: return {"i8", 1, 1, false};
        case GGML_TYPE_I16: return {"i16", 1, 2, false};
        case GGML_TYPE_I32: return {"i32", 1, 4, false};
        case GGML_TYPE_I64: return {"i64", 1, 8, false};
        case GGML_TYPE_F64: return {"f64", 1, 8, true};
        BLOCKS(Q8_0, q8_0, QK8_0, false);
        BLOCKS(Q4_0, q4_0, QK4_0, false);
        BLOCKS(Q4_1, q4_1, QK4_1, false);
        BLOCKS(Q5_0, q5_0, QK5_0, true);
        BLOCKS(Q5_1, q5_1, QK5_1, true);
        BLOCKS(Q8_1, q8_1, QK8_1, true);
        BLOCKS(MXFP4, mxfp4, QK_MXFP4, true);
        BLOCKS(Q2_K, q2_K, QK_K, true);
        BLOCKS(Q3_K, q3_K, QK_K, true);
        BLOCKS(Q4_K, q4_K, QK_K, true);
        BLOCKS(Q5_K, q5_K, QK_K, true);
        BLOCKS(Q6_K, q6_K, QK_K, true);
        BLOCKS(Q8_K, q8_K, QK_K, true);
        BLOCKS(TQ1_0, tq1_0, QK_K, true);
        BLOCKS(TQ2_0, tq2_0, QK_K, true);
        BLOCKS(IQ1_S, iq1_s, QK_K, true);
        BLOCKS(IQ1_M, iq1_m, QK_K, true);
        BLOCKS(IQ2_XXS, iq2_xxs, QK_K, true);
        BLOCKS(IQ2_XS, iq2_xs, QK_K, true);
        BLOCKS(IQ2_S, iq2_s, QK_K, true);
        BLOCKS(IQ3_XXS, iq3_xxs, QK_K, true);
        BLOCKS(IQ3_S, iq3_s, QK_K, true);
        BLOCKS(IQ4_NL, iq4_nl, QK4_NL, true);
        BLOCKS(IQ4_XS, iq4_xs, QK_K, true);
        // The youngest types, which some versions lack.
#ifdef QK_NVFP4
        BLOCKS(NVFP4, nvfp4, QK_NVFP4, true);
#endif
#ifdef QK1_0
        BLOCKS(Q1_0, q1_0, QK1_0, true);
#endif
#ifdef QK2_0
        BLOCKS(Q2_0, q2_0, QK2_0, true);
#endif
        default: return {};
    }
#undef BLOCKS
}

// Bytes of a packed tile of a type that the device has in blocks, else 0.
uint64_t tile_bytes_of(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q8_0: return ECHO_NPU_TILE_BYTES_Q8_0;
        case GGML_TYPE_Q4_0: return ECHO_NPU_TILE_BYTES_Q4_0;
        case GGML_TYPE_Q4_1: return ECHO_NPU_TILE_BYTES_Q4_1;
        default: return 0;
    }
}

const char * unary_name(const ggml_tensor * node) {
    switch (ggml_unary_op(node->op_params[0])) {
        case GGML_UNARY_OP_ABS: return "ABS";
        case GGML_UNARY_OP_SGN: return "SGN";
        case GGML_UNARY_OP_NEG: return "NEG";
        case GGML_UNARY_OP_STEP: return "STEP";
        case GGML_UNARY_OP_TANH: return "TANH";
        case GGML_UNARY_OP_ELU: return "ELU";
        case GGML_UNARY_OP_RELU: return "RELU";
        case GGML_UNARY_OP_SIGMOID: return "SIGMOID";
        case GGML_UNARY_OP_GELU: return "GELU";
        case GGML_UNARY_OP_GELU_QUICK: return "GELU_QUICK";
        case GGML_UNARY_OP_SILU: return "SILU";
        case GGML_UNARY_OP_HARDSWISH: return "HARDSWISH";
        case GGML_UNARY_OP_HARDSIGMOID: return "HARDSIGMOID";
        case GGML_UNARY_OP_EXP: return "EXP";
        case GGML_UNARY_OP_EXPM1: return "EXPM1";
        case GGML_UNARY_OP_SOFTPLUS: return "SOFTPLUS";
        case GGML_UNARY_OP_GELU_ERF: return "GELU_ERF";
        case GGML_UNARY_OP_FLOOR: return "FLOOR";
        case GGML_UNARY_OP_CEIL: return "CEIL";
        case GGML_UNARY_OP_ROUND: return "ROUND";
        case GGML_UNARY_OP_TRUNC: return "TRUNC";
        default: return nullptr;
    }
}

const char * gated_name(const ggml_tensor * node) {
    switch (ggml_glu_op(node->op_params[0])) {
        case GGML_GLU_OP_REGLU: return "REGLU";
        case GGML_GLU_OP_GEGLU: return "GEGLU";
        case GGML_GLU_OP_SWIGLU: return "SWIGLU";
        case GGML_GLU_OP_SWIGLU_OAI: return "SWIGLU_OAI";
        case GGML_GLU_OP_GEGLU_ERF: return "GEGLU_ERF";
        case GGML_GLU_OP_GEGLU_QUICK: return "GEGLU_QUICK";
        default: return nullptr;
    }
}

// The server's name of an operation; null if it has none.
const char * op_name(const ggml_tensor * node) {
#define NAMED(op) \
    case GGML_OP_##op: return #op
    switch (node->op) {
        NAMED(NONE);
        NAMED(VIEW);
        NAMED(RESHAPE);
        NAMED(PERMUTE);
        NAMED(TRANSPOSE);
        NAMED(DUP);
        NAMED(CPY);
        NAMED(CONT);
        NAMED(ADD);
        NAMED(SUB);
        NAMED(MUL);
        NAMED(DIV);
        NAMED(SQR);
        NAMED(SQRT);
        NAMED(LOG);
        NAMED(SIN);
        NAMED(COS);
        NAMED(SUM);
        NAMED(SUM_ROWS);
        NAMED(MEAN);
        NAMED(ARGMAX);
        NAMED(REPEAT);
        NAMED(CONCAT);
        NAMED(NORM);
        NAMED(RMS_NORM);
        NAMED(MUL_MAT);
        NAMED(SCALE);
        NAMED(CLAMP);
        NAMED(LEAKY_RELU);
        NAMED(GET_ROWS);
        NAMED(SET_ROWS);
        NAMED(SOFT_MAX);
        NAMED(ROPE);
        NAMED(ROPE_BACK);
        NAMED(FLASH_ATTN_EXT);
        NAMED(L2_NORM);
        NAMED(GROUP_NORM);
        NAMED(MUL_MAT_ID);
        NAMED(ADD_ID);
        NAMED(OUT_PROD);
        NAMED(FILL);
        NAMED(PAD);
        NAMED(IM2COL);
        NAMED(POOL_2D);
        NAMED(SILU_BACK);
        NAMED(SOFT_MAX_BACK);
        NAMED(RMS_NORM_BACK);
        NAMED(CROSS_ENTROPY_LOSS);
        NAMED(CROSS_ENTROPY_LOSS_BACK);
        NAMED(OPT_STEP_ADAMW);
        case GGML_OP_UNARY: return unary_name(node);
        case GGML_OP_GLU: return gated_name(node);
        default: return nullptr;
    }
#undef NAMED
}

bool only_a_view(const ggml_tensor * node) {
    switch (node->op) {
        case GGML_OP_NONE:
        case GGML_OP_VIEW:
        case GGML_OP_RESHAPE:
        case GGML_OP_PERMUTE:
        case GGML_OP_TRANSPOSE: return true;
        default: return false;
    }
}

bool is_empty(const ggml_tensor * tensor) {
    return std::any_of(tensor->ne, tensor->ne + GGML_MAX_DIMS, [](int64_t count) { return count == 0; });
}

// The bytes of a tensor as ggml counts them.
size_t bytes_of(const ggml_tensor * tensor) {
    if (is_empty(tensor))
        return 0;
    const type_form form = form_of(tensor->type);
    size_t bytes = tensor->nb[1];  // of a row of a type that is not known
    if (form.elements == 1)
        bytes = form.bytes + size_t(tensor->ne[0] - 1) * tensor->nb[0];
    else if (form.elements)
        bytes = size_t(tensor->ne[0] / form.elements) * tensor->nb[0];
    for (int i = 1; i < GGML_MAX_DIMS; i++)
        bytes += size_t(tensor->ne[i] - 1) * tensor->nb[i];
    return bytes;
}

// The tensor of which another one is a part, or that one itself.
const ggml_tensor * whole_of(const ggml_tensor * tensor) {
    return tensor->view_src ? tensor->view_src : tensor;
}

// Whether a tensor's rows are whole blocks.
bool has_rows_of_blocks(const ggml_tensor * tensor) {
    const type_form form = form_of(tensor->type);
    return tensor->nb[0] == form.bytes && tensor->ne[0] % form.elements == 0;
}

// Whether a tensor is kept in tiles. One of other rows than those of blocks is not: nothing computes with it.
bool in_tiles(const ggml_tensor * tensor) {
    return tile_bytes_of(tensor->type) != 0 && !is_empty(tensor) && has_rows_of_blocks(whole_of(tensor));
}

// How a tensor in tiles that is no view is kept. Its rows may lie apart, or repeat, if ggml's scheduler has copied the view of
// another backend. Then it is one matrix of all rows between its first and its last byte.
struct tiled {
    uint64_t row_bytes;
    uint64_t rows;
    uint64_t matrices;

    explicit tiled(const ggml_tensor * tensor)
        : row_bytes(uint64_t(tensor->ne[0] / form_of(tensor->type).elements) * tensor->nb[0]), rows(uint64_t(tensor->ne[1])),
          matrices(uint64_t(tensor->ne[2] * tensor->ne[3])) {
        const uint64_t all = bytes_of(tensor);
        if (all != bytes()) {
            rows = (all + row_bytes - 1) / row_bytes;
            matrices = 1;
        }
    }

    uint64_t bytes() const { return matrices * rows * row_bytes; }
};

// --- messages ---------------------------------------------------------------------------------------------------------

uint64_t address_of(const void * pointer) {
    return uint64_t(uintptr_t(pointer)) & ((uint64_t(1) << address_bits) - 1);
}

template <typename T> void append(std::string & message, const T & part) {
    message.append(reinterpret_cast<const char *>(&part), sizeof part);
}

void append_tensor(std::string & message, const ggml_tensor * tensor) {
    echo_npu_tensor made = {};
    if (tensor) {
        const type_form form = form_of(tensor->type);
        const bool has_form = form.name && (!tile_bytes_of(tensor->type) || is_empty(tensor) || in_tiles(tensor));
        std::snprintf(made.type, sizeof made.type, "%s", has_form ? form.name : "other");
        const ggml_tensor * whole = whole_of(tensor);
        if (whole->op == GGML_OP_NONE)
            made.flags |= ECHO_NPU_TENSOR_INPUT;
        if (in_tiles(tensor)) {
            const tiled kept(whole);
            const uint64_t elements[] = {uint64_t(whole->ne[0]), kept.rows, kept.matrices, 1};
            std::copy(elements, elements + GGML_MAX_DIMS, made.whole);
            made.offset = whole != tensor ? tensor->view_offs : 0;
        }
        for (int i = 0; i < GGML_MAX_DIMS; i++) {
            made.elements[i] = uint64_t(tensor->ne[i]);
            made.steps[i] = tensor->nb[i];
        }
        // Whole blocks in a row are elements of so many bytes. Without these the server refuses the type.
        if (form.moved && (form.elements == 1 || has_rows_of_blocks(tensor))) {
            made.elements[0] = uint64_t(tensor->ne[0] / form.elements);
            made.item = form.bytes;
        }
        made.address = address_of(tensor->data);
    }
    append(message, made);
}

void append_node(std::string & message, const ggml_tensor * node) {
    echo_npu_node made = {};
    const char * name = op_name(node);
    std::snprintf(made.op, sizeof made.op, "%s", name ? name : "other");
    std::memcpy(made.parameters, node->op_params, sizeof made.parameters);
    for (uint32_t i = 0; i < GGML_MAX_SRC; i++)
        if (node->src[i])
            made.sources = i + 1;
    append(message, made);
    append_tensor(message, node);
    for (uint32_t i = 0; i < made.sources; i++)
        append_tensor(message, node->src[i]);
}

// --- a device ---------------------------------------------------------------------------------------------------------

struct npu {
    unsigned number = 0;
    std::string name;
    // Programs keep the pointer, so what it points to stays when the device is opened and has another description.
    std::atomic<const char *> description = "ECHO NPU";
    std::string opened_description;
    ggml_backend_buffer_type buffer_type = {};
    ggml_backend_device device = {};

    std::mutex lock;
    echo_npu_link link = {};
    bool tried = false;
    std::unordered_map<std::string, bool> supported;             // by node, without addresses
    std::vector<std::pair<uint64_t, std::string>> graphs;        // that the server keeps: key and content
    uint64_t next_key = 1;

    // Take the device, once. The lock is held.
    bool ready() {
        if (!tried) {
            tried = true;
            int status = echo_npu_link_connect(&link, 1);
            if (!status)
                status = echo_npu_link_open(&link, number);
            if (status) {
                failed("cannot be opened");
                echo_npu_link_close(&link);
            } else {
                opened_description = std::string("ECHO NPU, ") + link.description;
                description = opened_description.c_str();
            }
        }
        return link.memory != nullptr;
    }

    void failed(const char * what) const {
        std::fprintf(stderr, "%s: %s: %s\n", name.c_str(), what, link.message);
    }

    // Ask the server; the lock is held. The answer has exactly `most` bytes. Returns a status.
    int ask(int kind, const std::string & request, void * answer = nullptr, size_t most = 0) {
        echo_npu_part part = {request.data(), request.size()};
        size_t got = 0;
        int status = echo_npu_link_ask(&link, kind, &part, 1, answer, most, &got);
        if (!status && got != most) {
            std::snprintf(link.message, sizeof link.message, "an answer of %zu bytes, expected %zu", got, most);
            status = ECHO_NPU_BAD_MESSAGE;
        }
        return status;
    }

    uint8_t * host(const void * pointer) const { return link.memory + address_of(pointer); }
};

std::string blocks_request(const ggml_tensor * tensor, uint64_t address, uint64_t rows, uint64_t matrices) {
    echo_npu_blocks blocks = {};
    std::snprintf(blocks.type, sizeof blocks.type, "%s", form_of(tensor->type).name);
    blocks.address = address;
    blocks.rows = rows;
    blocks.depth = uint64_t(tensor->ne[0]);
    blocks.matrices = matrices;
    std::string request;
    append(request, blocks);
    return request;
}

// --- buffers ----------------------------------------------------------------------------------------------------------

struct npu_buffer {
    npu * owner;
    void * base;
};

npu * owner_of(ggml_backend_buffer_t buffer) {
    return static_cast<npu_buffer *>(buffer->context)->owner;
}

void buffer_free(ggml_backend_buffer_t buffer) {
    auto * context = static_cast<npu_buffer *>(buffer->context);
    std::lock_guard<std::mutex> guard(context->owner->lock);
    std::string request;
    append(request, address_of(context->base));
    if (context->owner->link.fd >= 0 && context->owner->ask(ECHO_NPU_FREE, request))
        context->owner->failed("a buffer cannot be freed");
    context->owner->graphs.clear();
    delete context;
}

void * buffer_base(ggml_backend_buffer_t buffer) {
    return static_cast<npu_buffer *>(buffer->context)->base;
}

// Bytes of a matrix of `rows` rows in packed tiles.
uint64_t packed_bytes(const ggml_tensor * tensor, uint64_t rows) {
    const uint64_t down = (rows + ECHO_NPU_TILE_COLUMNS - 1) / ECHO_NPU_TILE_COLUMNS;
    const uint64_t along = (uint64_t(tensor->ne[0]) + ECHO_NPU_TILE_DEPTH - 1) / ECHO_NPU_TILE_DEPTH;
    return down * along * tile_bytes_of(tensor->type);
}

// Read a whole tensor, as many matrices or rows at a time as an answer holds.
int read_blocks(npu * owner, const ggml_tensor * tensor, uint8_t * into) {
    const tiled kept(tensor);
    const uint64_t rows = kept.rows, matrices = kept.matrices, most = ECHO_NPU_MAX_MESSAGE / kept.row_bytes;
    const uint64_t at_once = std::max<uint64_t>(most / rows, 1);
    // Parts of a matrix begin where a tile does. The server refuses a tile's rows that no answer holds.
    const uint64_t some = std::max<uint64_t>(most - most % ECHO_NPU_TILE_COLUMNS, ECHO_NPU_TILE_COLUMNS);
    const uint64_t part = std::min(most < rows ? some : rows, rows);
    for (uint64_t matrix = 0; matrix < matrices; matrix += at_once) {
        const uint64_t count = std::min(at_once, matrices - matrix);
        const uint64_t start = address_of(tensor->data) + matrix * packed_bytes(tensor, rows);
        for (uint64_t row = 0; row < rows; row += part) {
            const uint64_t height = std::min(part, rows - row), bytes = count * height * kept.row_bytes;
            const std::string request = blocks_request(tensor, start + packed_bytes(tensor, row), height, count);
            if (int status = owner->ask(ECHO_NPU_UNPACK, request, into, bytes))
                return status;
            into += bytes;
        }
    }
    return 0;
}

void write_blocks(npu * owner, const ggml_tensor * part, const void * data, size_t offset, size_t size) {
    const ggml_tensor * tensor = whole_of(part);
    offset += part->view_offs;
    const tiled kept(tensor);
    uint8_t * place = owner->host(tensor->data);
    if (size == kept.bytes()) {
        std::memcpy(place, data, size);
    } else {
        std::vector<uint8_t> before(kept.bytes());
        if (read_blocks(owner, tensor, before.data())) {
            owner->failed("a tensor cannot be read");
            return;
        }
        std::memcpy(before.data() + offset, data, size);
        std::memcpy(place, before.data(), before.size());
    }
    const std::string request = blocks_request(tensor, address_of(tensor->data), kept.rows, kept.matrices);
    if (owner->ask(ECHO_NPU_PACK, request))
        owner->failed("a tensor cannot be written");
}

void buffer_set(ggml_backend_buffer_t buffer, ggml_tensor * tensor, const void * data, size_t offset, size_t size) {
    npu * owner = owner_of(buffer);
    std::lock_guard<std::mutex> guard(owner->lock);
    if (in_tiles(tensor))
        write_blocks(owner, tensor, data, offset, size);
    else
        std::memcpy(owner->host(tensor->data) + offset, data, size);
}

void buffer_get(ggml_backend_buffer_t buffer, const ggml_tensor * tensor, void * data, size_t offset, size_t size) {
    npu * owner = owner_of(buffer);
    std::lock_guard<std::mutex> guard(owner->lock);
    if (!in_tiles(tensor)) {
        std::memcpy(data, owner->host(tensor->data) + offset, size);
        return;
    }
    std::vector<uint8_t> whole(tiled(whole_of(tensor)).bytes());
    if (read_blocks(owner, whole_of(tensor), whole.data()))
        owner->failed("a tensor cannot be read");
    else
        std::memcpy(data, whole.data() + tensor->view_offs + offset, size);
}

void buffer_memset(ggml_backend_buffer_t buffer, ggml_tensor * tensor, uint8_t value, size_t offset, size_t size) {
    npu * owner = owner_of(buffer);
    if (in_tiles(tensor)) {
        std::vector<uint8_t> bytes(size, value);
        buffer_set(buffer, tensor, bytes.data(), offset, size);
        return;
    }
    std::lock_guard<std::mutex> guard(owner->lock);
    std::memset(owner->host(tensor->data) + offset, value, size);
}

void buffer_clear(ggml_backend_buffer_t buffer, uint8_t value) {
    npu * owner = owner_of(buffer);
    std::lock_guard<std::mutex> guard(owner->lock);
    std::memset(owner->host(buffer_base(buffer)), value, buffer->size);
}

bool buffer_copy(ggml_backend_buffer_t buffer, const ggml_tensor * source, ggml_tensor * target);

const char * type_title(ggml_backend_buffer_type_t type) {
    return static_cast<npu *>(type->device->context)->name.c_str();
}

ggml_backend_buffer_t type_allocate(ggml_backend_buffer_type_t type, size_t size) {
    npu * owner = static_cast<npu *>(type->device->context);
    std::lock_guard<std::mutex> guard(owner->lock);
    if (!owner->ready())
        return nullptr;
    uint64_t number = size;
    std::string request;
    append(request, number);
    owner->graphs.clear();
    if (owner->ask(ECHO_NPU_ALLOCATE, request, &number, sizeof number)) {
        owner->failed("a buffer cannot be allocated");
        return nullptr;
    }
    if (!echo_npu_link_holds(&owner->link, number, size)) {
        std::fprintf(stderr, "%s: the server gave memory that the device does not have\n", owner->name.c_str());
        return nullptr;
    }
    void * base = reinterpret_cast<void *>(uintptr_t(device_bit | uint64_t(owner->number) << address_bits | number));
    ggml_backend_buffer_i methods = {};
    methods.free_buffer = buffer_free;
    methods.get_base = buffer_base;
    methods.memset_tensor = buffer_memset;
    methods.set_tensor = buffer_set;
    methods.get_tensor = buffer_get;
    methods.cpy_tensor = buffer_copy;
    methods.clear = buffer_clear;
    // ggml deletes it.
    return new ggml_backend_buffer{methods, type, new npu_buffer{owner, base}, size, GGML_BACKEND_BUFFER_USAGE_ANY};
}

size_t type_alignment(ggml_backend_buffer_type_t) {
    return ECHO_NPU_TILE_ALIGNMENT;
}

size_t type_most(ggml_backend_buffer_type_t) {
    return least_region - ECHO_NPU_TILE_ALIGNMENT;
}

size_t type_bytes(ggml_backend_buffer_type_t, const ggml_tensor * tensor) {
    if (!in_tiles(tensor) || tensor->view_src)
        return bytes_of(tensor);
    const tiled kept(tensor);
    return size_t(packed_bytes(tensor, kept.rows) * kept.matrices);
}

bool type_on_host(ggml_backend_buffer_type_t) {
    return false;
}

// A buffer of no bytes, which ggml makes by itself, has the type of ours, but neither methods nor a context.
bool is_ours(ggml_backend_buffer_t buffer) {
    return buffer && buffer->iface.free_buffer == buffer_free;
}

bool buffer_copy(ggml_backend_buffer_t buffer, const ggml_tensor * source, ggml_tensor * target) {
    ggml_backend_buffer_t from = source->view_src ? source->view_src->buffer : source->buffer;
    if (!is_ours(from) || in_tiles(source) || in_tiles(target))
        return false;  // ggml then reads and writes
    npu *reader = owner_of(from), *writer = owner_of(buffer);
    std::unique_lock<std::mutex> guard(writer->lock, std::defer_lock), other(reader->lock, std::defer_lock);
    if (reader == writer)
        guard.lock();
    else
        std::lock(guard, other);
    std::memmove(writer->host(target->data), reader->host(source->data), bytes_of(source));
    return true;
}

// --- the backend ------------------------------------------------------------------------------------------------------

const char * backend_name(ggml_backend_t backend) {
    return static_cast<npu *>(backend->context)->name.c_str();
}

void backend_free(ggml_backend_t backend) {
    delete backend;
}

bool reads(const ggml_tensor * node, const ggml_tensor * other) {
    return std::find(node->src, node->src + GGML_MAX_SRC, other) != node->src + GGML_MAX_SRC;
}

// Whether one node of this graph reads the result of another one, and nobody else does: neither a node of another
// part of the whole graph nor the program, also not by views.
bool has_one_reader(const ggml_cgraph * graph, int index) {
    if (graph->nodes[index]->view_src)
        return false;
    while (true) {
        const ggml_tensor * node = graph->nodes[index];
        if ((node->flags & GGML_TENSOR_FLAG_OUTPUT) || ggml_node_get_use_count(graph, index) != 1)
            return false;
        do {
            if (++index == graph->n_nodes)
                return false;
        } while (!reads(graph->nodes[index], node));
        if (!only_a_view(graph->nodes[index]))
            return true;
    }
}

ggml_status backend_compute(ggml_backend_t backend, ggml_cgraph * graph) {
    npu * owner = static_cast<npu *>(backend->context);
    std::string nodes;
    echo_npu_graph head = {};
    head.flags = ECHO_NPU_GRAPH_REFUSE_NAN | ECHO_NPU_GRAPH_FUSE;
    for (int i = 0; i < graph->n_nodes; i++) {
        const ggml_tensor * node = graph->nodes[i];
        if (only_a_view(node) || is_empty(node) || !(node->flags & GGML_TENSOR_FLAG_COMPUTE))
            continue;
        size_t start = nodes.size();
        append_node(nodes, node);
        head.nodes++;
        // What nobody or several nodes read, or a node of another part of the whole graph, must be written.
        auto * target = reinterpret_cast<echo_npu_tensor *>(&nodes[start + sizeof(echo_npu_node)]);
        if (!has_one_reader(graph, i))
            target->flags |= ECHO_NPU_TENSOR_OUTPUT;
    }
    if (!head.nodes)
        return GGML_STATUS_SUCCESS;
    if (head.nodes > ECHO_NPU_MAX_NODES) {
        std::fprintf(stderr, "%s: a graph of %u nodes, at most %u\n", owner->name.c_str(), head.nodes, ECHO_NPU_MAX_NODES);
        return GGML_STATUS_FAILED;
    }
    std::lock_guard<std::mutex> guard(owner->lock);
    if (!owner->ready())
        return GGML_STATUS_FAILED;
    // A graph is known by all that the server is told of it, not by ggml's number of it: so parameters, shapes, steps
    // and addresses are those of the recorded program.
    auto & kept = owner->graphs;
    auto known = std::find_if(kept.begin(), kept.end(), [&](const auto & each) { return each.second == nodes; });
    int status = ECHO_NPU_UNKNOWN_GRAPH;
    std::string request;
    if (known != kept.end()) {
        append(request, known->first);
        status = owner->ask(ECHO_NPU_RUN, request);
        if (status == ECHO_NPU_UNKNOWN_GRAPH)
            kept.erase(known);
        else
            std::rotate(known, known + 1, kept.end());  // the latest one comes last
    }
    if (status == ECHO_NPU_UNKNOWN_GRAPH) {
        head.key = owner->next_key++;
        request.clear();
        append(request, head);
        request += nodes;
        status = owner->ask(ECHO_NPU_GRAPH, request);
        if (kept.size() >= ECHO_NPU_MOST_GRAPHS)
            kept.erase(kept.begin());
        kept.emplace_back(head.key, std::move(nodes));
    }
    if (status) {
        owner->failed("a graph failed");
        return GGML_STATUS_FAILED;
    }
    return GGML_STATUS_SUCCESS;
}

// --- the device -------------------------------------------------------------------------------------------------------

const char * device_name(ggml_backend_dev_t device) {
    return static_cast<npu *>(device->context)->name.c_str();
}

const char * device_description(ggml_backend_dev_t device) {
    return static_cast<npu *>(device->context)->description;
}

void device_memory(ggml_backend_dev_t device, size_t * free, size_t * total) {
    npu * owner = static_cast<npu *>(device->context);
    std::lock_guard<std::mutex> guard(owner->lock);
    echo_npu_memory memory = {};
    if (owner->ready() && owner->ask(ECHO_NPU_MEMORY, "", &memory, sizeof memory))
        owner->failed("does not tell its memory");
    *free = memory.free;
    *total = memory.total;
}

enum ggml_backend_dev_type device_type(ggml_backend_dev_t) {
    return GGML_BACKEND_DEVICE_TYPE_GPU;
}

void device_properties(ggml_backend_dev_t device, ggml_backend_dev_props * properties) {
    *properties = {};
    properties->name = device_name(device);
    device_memory(device, &properties->memory_free, &properties->memory_total);
    properties->description = device_description(device);
    properties->type = GGML_BACKEND_DEVICE_TYPE_GPU;
    properties->caps.mmap_support = true;
}

ggml_backend_t device_backend(ggml_backend_dev_t device, const char *) {
    static ggml_guid guid = {0x65, 0x63, 0x68, 0x6f, 0x2d, 0x6e, 0x70, 0x75, 0x8b, 0x3a, 0x51, 0x0e, 0x27, 0xc4, 0x90, 0x1d};
    npu * owner = static_cast<npu *>(device->context);
    {
        std::lock_guard<std::mutex> guard(owner->lock);
        if (!owner->ready())
            return nullptr;
    }
    ggml_backend_i methods = {};
    methods.get_name = backend_name;
    methods.free = backend_free;
    methods.graph_compute = backend_compute;
    return new ggml_backend{&guid, methods, device, owner};
}

ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t device) {
    return &static_cast<npu *>(device->context)->buffer_type;
}

bool device_supports_op(ggml_backend_dev_t device, const ggml_tensor * node) {
    npu * owner = static_cast<npu *>(device->context);
    if (only_a_view(node))
        return true;
    if (!op_name(node))
        return false;
    std::string request;
    append_node(request, node);
    // Addresses make no difference, and differ.
    for (size_t at = sizeof(echo_npu_node); at < request.size(); at += sizeof(echo_npu_tensor))
        std::memset(&request[at + offsetof(echo_npu_tensor, address)], 0, sizeof(uint64_t));
    std::lock_guard<std::mutex> guard(owner->lock);
    auto known = owner->supported.find(request);
    if (known != owner->supported.end())
        return known->second;
    uint64_t answer = 0;
    if (!owner->ready() || owner->ask(ECHO_NPU_SUPPORTS, request, &answer, sizeof answer))
        return false;
    return owner->supported[request] = answer != 0;
}

bool device_supports_type(ggml_backend_dev_t device, ggml_backend_buffer_type_t type) {
    return type == device_buffer_type(device);
}

bool device_offload(ggml_backend_dev_t, const ggml_tensor *) {
    return false;
}

// --- the registry -----------------------------------------------------------------------------------------------------

std::vector<npu *> & devices(ggml_backend_reg_t registry) {
    static std::vector<npu *> found = [registry] {
        std::vector<npu *> made;
        echo_npu_link link;
        if (echo_npu_link_connect(&link, 1))
            std::fprintf(stderr, "ECHO NPU: no device: %s\n", link.message);
        for (unsigned number = 0; number < link.devices; number++) {
            npu * device = new npu;  // for as long as the program runs
            device->number = number;
            device->name = "NPU" + std::to_string(number);
            device->link.fd = -1;
            ggml_backend_buffer_type_i & type = device->buffer_type.iface;
            type.get_name = type_title;
            type.alloc_buffer = type_allocate;
            type.get_alignment = type_alignment;
            type.get_max_size = type_most;
            type.get_alloc_size = type_bytes;
            type.is_host = type_on_host;
            device->buffer_type.device = &device->device;
            ggml_backend_device_i & methods = device->device.iface;
            methods.get_name = device_name;
            methods.get_description = device_description;
            methods.get_memory = device_memory;
            methods.get_type = device_type;
            methods.get_props = device_properties;
            methods.init_backend = device_backend;
            methods.get_buffer_type = device_buffer_type;
            methods.supports_op = device_supports_op;
            methods.supports_buft = device_supports_type;
            methods.offload_op = device_offload;
            device->device.reg = registry;
            device->device.context = device;
            made.push_back(device);
        }
        echo_npu_link_close(&link);
        return made;
    }();
    return found;
}

const char * registry_name(ggml_backend_reg_t) {
    return "NPU";
}

size_t registry_count(ggml_backend_reg_t registry) {
    return devices(registry).size();
}

ggml_backend_dev_t registry_device(ggml_backend_reg_t registry, size_t index) {
    return &devices(registry).at(index)->device;
}

ggml_backend_feature * features(ggml_backend_reg_t) {
    static ggml_backend_feature list[] = {{"Q8_0", "1"}, {"Q4_0", "1"}, {"Q4_1", "1"}, {nullptr, nullptr}};
    return list;
}

void * registry_function(ggml_backend_reg_t, const char * name) {
    if (!std::strcmp(name, "ggml_backend_get_features"))
        return reinterpret_cast<void *>(features);
    return nullptr;
}

}  // namespace

extern "C" {
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_init(void);
}

ggml_backend_reg_t ggml_backend_init(void) {
    static ggml_backend_reg registry = {
        GGML_BACKEND_API_VERSION, {registry_name, registry_count, registry_device, registry_function}, nullptr};
    return &registry;
}

namespace {

// Programs with the CPU linked in do not look for other backends. In LD_PRELOAD this library makes itself known to them.
__attribute__((constructor)) void register_if_preloaded() {
    const char * preloaded = std::getenv("LD_PRELOAD");
    if (!preloaded || !std::strstr(preloaded, "libggml-echo-npu"))
        return;
    using function = void (*)(ggml_backend_reg_t);
    if (auto announce = reinterpret_cast<function>(dlsym(RTLD_DEFAULT, "ggml_backend_register")))
        announce(ggml_backend_init());
}

}  // namespace
