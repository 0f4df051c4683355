// Operands for fp32_pkg and the comparison with the host's own IEEE-754
// arithmetic: all pairs of the corner values, then random pairs drawn from
// classes that reach the rare paths (cancellation, subnormals, ties).
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

std::vector<uint32_t> corners;
uint64_t state;
int random_left;
size_t corner_index;
int reported;

uint64_t draw() {  // xorshift64*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Dull;
}

uint32_t mantissa(unsigned kind) {
    uint32_t bits = static_cast<uint32_t>(draw()) & 0x7FFFFF;
    switch (kind) {
        case 0: return bits;
        case 1: return bits & static_cast<uint32_t>(draw());            // sparse
        case 2: return bits | (static_cast<uint32_t>(draw()) & 0x7FFFFF);  // dense
        default: return 0x7FFFFFu << (draw() % 23) & 0x7FFFFF;          // a run of ones: ties
    }
}

uint32_t value(unsigned exponent) {
    uint64_t r = draw();
    return static_cast<uint32_t>(r & 1) << 31 | (exponent & 0xFF) << 23 | mantissa(r >> 1 & 3);
}

float as_float(uint32_t bits) {
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
}

uint32_t expected(float f) {
    if (std::isnan(f)) return 0x7FC00000u;
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    return bits;
}

}  // namespace

extern "C" int fp32_begin(int random_pairs, int first_seed) {
    static const uint32_t magnitudes[] = {
        0x00000000, 0x00000001, 0x00000002, 0x00000003, 0x003FFFFF, 0x00400000, 0x00400001, 0x007FFFFE,
        0x007FFFFF, 0x00800000, 0x00800001, 0x00FFFFFF, 0x01000000, 0x0B800000, 0x0BFFFFFF, 0x0C000000,
        0x1F800000, 0x20000000, 0x20000001, 0x33800000, 0x33800001, 0x34000000, 0x3EFFFFFF, 0x3F000000,
        0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3FC00000, 0x3FFFFFFF, 0x40000000, 0x40490FDB, 0x4B000000,
        0x4B7FFFFF, 0x4B800000, 0x4B800001, 0x4C000000, 0x5F000000, 0x5F7FFFFF, 0x5F800000, 0x7E800000,
        0x7EFFFFFF, 0x7F000000, 0x7F000001, 0x7F7FFFFE, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FBFFFFF,
        0x7FC00000, 0x7FC00001, 0x7FFFFFFF};
    corners.clear();
    for (uint32_t m : magnitudes) {
        corners.push_back(m);
        corners.push_back(m | 0x80000000u);
    }
    state = 0x9E3779B97F4A7C15ull ^ (static_cast<uint64_t>(static_cast<uint32_t>(first_seed)) << 17);
    random_left = random_pairs;
    corner_index = 0;
    reported = 0;
    return static_cast<int>(corners.size() * corners.size()) + random_pairs;
}

extern "C" void fp32_pair(int* a, int* b) {
    if (corner_index < corners.size() * corners.size()) {
        *a = static_cast<int>(corners[corner_index / corners.size()]);
        *b = static_cast<int>(corners[corner_index % corners.size()]);
        corner_index++;
        return;
    }
    random_left--;
    uint64_t r = draw();
    unsigned exponent = r >> 8 & 0xFF;
    switch (r & 7) {
        case 0:
        case 1:  // any bits
            *a = static_cast<int>(draw());
            *b = static_cast<int>(draw());
            break;
        case 2:
        case 3:  // near in exponent: cancellation, alignment, sticky bits
            *a = static_cast<int>(value(exponent));
            *b = static_cast<int>(value(exponent + static_cast<unsigned>(draw() % 57) - 28));
            break;
        case 4:  // subnormal against anything
            *a = static_cast<int>(value(0));
            *b = static_cast<int>(value(exponent));
            break;
        case 5:  // products around the smallest normal
            *a = static_cast<int>(value(exponent));
            *b = static_cast<int>(value(127 - exponent + static_cast<unsigned>(draw() % 57)));
            break;
        case 6:  // products around the largest
            *a = static_cast<int>(value(exponent));
            *b = static_cast<int>(value(381 - exponent + static_cast<unsigned>(draw() % 5) - 2));
            break;
        default:  // everyday numbers
            *a = static_cast<int>(value(118 + exponent % 18));
            *b = static_cast<int>(value(118 + static_cast<unsigned>(draw() % 18)));
            break;
    }
}

// `scaled`: a times a power of two whose exponent is in the low nine bits of b.
extern "C" int fp32_check(int a, int b, int sum, int product, int scaled) {
    volatile float x = as_float(static_cast<uint32_t>(a)), y = as_float(static_cast<uint32_t>(b));
    uint32_t want_sum = expected(x + y), want_product = expected(x * y);
    int power = ((b & 0x1FF) ^ 0x100) - 0x100;
    // float64 holds the scaled number exactly. Subnormal numbers are not scaled.
    bool subnormal = !(a & 0x7F800000) && (a & 0x7FFFFF);
    uint32_t want_scaled = expected(static_cast<float>(std::ldexp(static_cast<double>(x), power)));
    bool bad_scaled = !subnormal && want_scaled != static_cast<uint32_t>(scaled);
    int failures = bad_scaled + (want_sum != static_cast<uint32_t>(sum)) + (want_product != static_cast<uint32_t>(product));
    if (failures && reported++ < 10) {
        std::fprintf(stderr, "%08x, %08x: sum %08x, must be %08x; product %08x, must be %08x; scaled %08x, must be %08x\n",
                     a, b, sum, want_sum, product, want_product, scaled, want_scaled);
    }
    return failures;
}
