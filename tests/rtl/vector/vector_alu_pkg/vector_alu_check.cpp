// Operands for vector_alu_pkg and what each opcode must give, from the host's
// own floating point, from the C library, or from exact integers: all triples
// of the corner values, then random triples drawn from classes that reach the
// rare paths (cancellation, subnormals, ties, far apart). The file that
// VECTOR_ALU_DUMP names gets some of the operations as records of six
// words: opcode, a, b, c, exponent, result.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr int kScaledFma = 127;
constexpr unsigned kDumped = 150'000, kCornersADump = 997;

std::vector<uint32_t> corners;
uint64_t state;
size_t corner_index;
int wrong;
unsigned checked, dumped;
uint32_t a, b, c;
int32_t scale;
bool random_operands;
std::FILE* dump;

uint64_t draw() {  // xorshift64*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Dull;
}

int draw_near(int radius) { return static_cast<int>(draw() % static_cast<unsigned>(2 * radius + 1)) - radius; }

uint32_t mantissa(unsigned kind) {
    uint32_t bits = static_cast<uint32_t>(draw()) & 0x7FFFFF;
    switch (kind) {
        case 0: return bits;
        case 1: return bits & static_cast<uint32_t>(draw());               // sparse
        case 2: return bits | (static_cast<uint32_t>(draw()) & 0x7FFFFF);  // dense
        default: return 0x7FFFFFu << (draw() % 23) & 0x7FFFFF;             // a run of ones: ties
    }
}

uint32_t value(int exponent) {  // out of the format's range: the nearest exponent within
    uint64_t r = draw();
    uint32_t field = static_cast<uint32_t>(exponent < 0 ? 0 : exponent > 254 ? 254 : exponent);
    return static_cast<uint32_t>(r & 1) << 31 | field << 23 | mantissa(r >> 1 & 3);
}

float as_float(uint32_t bits) {
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
}

uint32_t raw(float f) {
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    return bits;
}

uint32_t canonical(float f) { return std::isnan(f) ? 0x7FC00000u : raw(f); }

uint32_t mask(bool holds) { return holds ? 0xFFFFFFFFu : 0; }

// magnitude * 2^exponent with the sign, rounded once.
float round_exact(bool negative, unsigned __int128 magnitude, int exponent) {
    int last = exponent;  // exponent of the last bit that stays
    for (unsigned __int128 rest = magnitude; rest >> 24; rest >>= 1) last++;
    if (last < -149) last = -149;
    if (last > 104 && magnitude) return negative ? -INFINITY : INFINITY;
    unsigned __int128 kept = magnitude;
    if (last > exponent) {
        int places = last - exponent;
        if (places > 126) places = 126;
        unsigned __int128 unit = static_cast<unsigned __int128>(1) << places, rest = magnitude % unit;
        kept = magnitude / unit;
        if (rest > unit / 2 || (rest == unit / 2 && (kept & 1))) kept++;
    } else {
        kept <<= exponent - last;  // zero places, or bits that are all zero above
    }
    float size = std::ldexp(static_cast<float>(static_cast<uint32_t>(kept)), last);
    return negative ? -size : size;
}

// a * 2^scale + c for finite operands, by exact integers.
float scaled_fma(float x, float z, int places) {
    int exponent_x, exponent_z;
    __int128 product = static_cast<__int128>(std::ldexp(std::frexp(x, &exponent_x), 24));
    __int128 addend = static_cast<__int128>(std::ldexp(std::frexp(z, &exponent_z), 24));
    if (product == 0) return x + z;
    int exponent_p = exponent_x - 24 + (places > 2000 ? 2000 : places < -2000 ? -2000 : places);
    exponent_z -= 24;
    if (addend == 0) exponent_z = exponent_p;
    // Further apart than 76 places the lesser one is only a direction.
    constexpr int kFar = 76;
    if (exponent_p - exponent_z > kFar) {
        addend = addend > 0 ? 1 : addend < 0 ? -1 : 0;
        exponent_z = exponent_p - kFar;
    } else if (exponent_z - exponent_p > kFar) {
        product = product > 0 ? 1 : -1;
        exponent_p = exponent_z - kFar;
    }
    int exponent = exponent_p < exponent_z ? exponent_p : exponent_z;
    __int128 sum = product * (static_cast<__int128>(1) << (exponent_p - exponent)) +
                   addend * (static_cast<__int128>(1) << (exponent_z - exponent));
    if (sum == 0) return 0.0f;
    unsigned __int128 magnitude = static_cast<unsigned __int128>(sum < 0 ? -sum : sum);
    return round_exact(sum < 0, magnitude, exponent);
}

uint32_t to_int(float f, double integral) {
    if (std::isnan(f)) return 0;
    if (integral >= 2147483647.0) return 0x7FFFFFFFu;
    if (integral <= -2147483648.0) return 0x80000000u;
    return static_cast<uint32_t>(static_cast<int32_t>(integral));
}

uint32_t half_bits(float f) {
    if (std::isnan(f)) return 0x7E00;
    _Float16 half = static_cast<_Float16>(f);
    uint16_t bits;
    std::memcpy(&bits, &half, 2);
    return bits;
}

float from_half(uint32_t bits) {
    uint16_t low = static_cast<uint16_t>(bits);
    _Float16 half;
    std::memcpy(&half, &low, 2);
    return static_cast<float>(half);
}

uint32_t bfloat_bits(float f) {
    if (std::isnan(f)) return 0x7FC0;
    if (f == 0 || std::isinf(f)) return raw(f) >> 16;
    int exponent = std::ilogb(f);
    double last = std::ldexp(1.0, (exponent < -126 ? -126 : exponent) - 7);
    return raw(static_cast<float>(std::nearbyint(f / last) * last)) >> 16;
}

unsigned class_index(float f) {
    bool negative = std::signbit(f);
    switch (std::fpclassify(f)) {
        case FP_NAN: return 8;
        case FP_INFINITE: return negative ? 0 : 7;
        case FP_NORMAL: return negative ? 1 : 6;
        case FP_SUBNORMAL: return negative ? 2 : 5;
        default: return negative ? 3 : 4;
    }
}

bool below(float x, float y) { return x < y || (x == y && std::signbit(x) && !std::signbit(y)); }

uint32_t expected(int opcode) {
    volatile float vx = as_float(a), vy = as_float(b), vz = as_float(c);  // computed here, not folded
    float x = vx, y = vy, z = vz;
    int32_t int_a = static_cast<int32_t>(a), int_b = static_cast<int32_t>(b);
    bool nan = std::isnan(x) || std::isnan(y);
    switch (opcode) {
        case 0x00: return canonical(x + y);
        case 0x01: return canonical(x - y);
        case 0x02: return canonical(x * y);
        case 0x03: return canonical(std::fma(x, y, z));
        case 0x04: return canonical(std::fma(-x, y, z));
        case 0x05: return canonical(std::fma(x, y, -z));
        case 0x06: return canonical(static_cast<float>(std::ldexp(static_cast<double>(x), scale)));
        case kScaledFma:
            if (!std::isfinite(x) || !std::isfinite(z)) return canonical(x + z);
            return canonical(scaled_fma(x, z, scale));
        case 0x08: return nan ? 0x7FC00000u : below(x, y) ? a : b;
        case 0x09: return nan ? 0x7FC00000u : below(x, y) ? b : a;
        case 0x0A: return mask(x == y);
        case 0x0B: return mask(x < y);
        case 0x0C: return mask(x <= y);
        case 0x0D: return mask(nan);
        case 0x11: return mask(static_cast<uint32_t>(scale) >> class_index(x) & 1);
        case 0x12: {
            if (x == 0 || std::isinf(x) || std::isnan(x)) return canonical(x);
            int exponent;
            return raw(2 * std::frexp(x, &exponent));
        }
        case 0x13: return static_cast<uint32_t>(x == 0 ? -512 : std::isfinite(x) ? std::ilogb(x) : 512);
        case 0x14: return to_int(x, std::nearbyint(static_cast<double>(x)));
        case 0x15: return to_int(x, std::trunc(static_cast<double>(x)));
        case 0x16: return raw(static_cast<float>(int_a));
        case 0x17: return half_bits(x);
        case 0x18: return canonical(from_half(a));
        case 0x19: return bfloat_bits(x);
        case 0x20: return a + b;
        case 0x21: return a - b;
        case 0x22: return a & b;
        case 0x23: return a | b;
        case 0x24: return a ^ b;
        case 0x25: return a << b % 32;
        case 0x26: return a >> b % 32;
        case 0x27: return static_cast<uint32_t>(int_a >> b % 32);
        case 0x28: return int_a < int_b ? a : b;
        case 0x29: return int_a < int_b ? b : a;
        case 0x2A: return mask(int_a == int_b);
        case 0x2B: return mask(int_a < int_b);
        default: std::fprintf(stderr, "no definition of opcode %02x\n", opcode); std::abort();
    }
}

void draw_operands() {
    uint64_t r = draw();
    int exponent = r >> 8 & 0xFF;
    switch (r & 7) {
        case 0:  // any bits
            a = static_cast<uint32_t>(draw());
            b = static_cast<uint32_t>(draw());
            c = static_cast<uint32_t>(draw());
            scale = static_cast<int32_t>(draw());
            return;
        case 1:  // near in exponent: cancellation, alignment, sticky bits of a sum
            a = value(exponent);
            b = value(exponent + draw_near(28));
            break;
        case 2:  // subnormal against anything
            a = value(0);
            b = value(exponent);
            break;
        case 3:  // products around the smallest subnormal and normal
            a = value(exponent);
            b = value(127 - exponent + draw_near(28));
            break;
        case 4:  // products around the largest
            a = value(exponent);
            b = value(381 - exponent + draw_near(2));
            break;
        case 5:  // integers and what is nearly one
            a = value(127 + static_cast<int>(draw() % 34));
            b = draw() & 1 ? value(118 + static_cast<int>(draw() % 18)) : a;
            break;
        case 6:  // around the limits of float16
            a = value(100 + static_cast<int>(draw() % 45));
            b = value(exponent);
            break;
        default:  // everyday numbers
            a = value(118 + exponent % 18);
            b = value(118 + static_cast<int>(draw() % 18));
            break;
    }
    int exponent_a = static_cast<int>(a >> 23 & 0xFF);
    int product = exponent_a + static_cast<int>(b >> 23 & 0xFF) - 127;
    scale = static_cast<int32_t>(draw() % 4 ? draw_near(40) : draw_near(600));
    switch (r >> 16 & 3) {
        case 0: c = value(product + draw_near(80)); break;      // the product's size
        case 1: c = value(exponent_a + scale + draw_near(3)); break;  // the scaled operand's
        case 2:  // the product's negative but for its last places
            c = (raw(as_float(a) * as_float(b)) ^ 0x80000000u) + static_cast<uint32_t>(draw_near(2));
            break;
        default: c = value(static_cast<int>(draw() % 255)); break;
    }
    if (r >> 18 & 1) scale = static_cast<int>(c >> 23 & 0xFF) - exponent_a + draw_near(50);
}

}  // namespace

extern "C" int vector_alu_begin(int random_rounds, int first_seed) {
    static const uint32_t magnitudes[] = {
        0x00000000, 0x00000001, 0x00000002, 0x00000003, 0x003FFFFF, 0x00400000, 0x007FFFFF, 0x00800000, 0x00800001,
        0x00FFFFFF, 0x01000000, 0x1FFFFFFF, 0x20000000, 0x33000000, 0x33000001, 0x33800000, 0x387FFFFF, 0x38800000,
        0x3F000000, 0x3F000001, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3FC00000, 0x3FFFFFFF, 0x40200000, 0x477FEFFF,
        0x477FF000, 0x4AFFFFFF, 0x4B000001, 0x4B800000, 0x4EFFFFFF, 0x4F000000, 0x5F7FFFFF, 0x7E800000, 0x7F000001,
        0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF};
    corners.clear();
    for (uint32_t m : magnitudes) {
        corners.push_back(m);
        corners.push_back(m | 0x80000000u);
    }
    state = 0x9E3779B97F4A7C15ull ^ (static_cast<uint64_t>(static_cast<uint32_t>(first_seed)) << 17);
    corner_index = 0;
    wrong = 0;
    checked = dumped = 0;
    const char* path = std::getenv("VECTOR_ALU_DUMP");
    dump = path ? std::fopen(path, "wb") : nullptr;
    if (path && !dump) std::abort();
    return static_cast<int>(corners.size() * corners.size() * corners.size()) + random_rounds;
}

extern "C" void vector_alu_operands(int* out_a, int* out_b, int* out_c, int* out_scale) {
    size_t n = corners.size();
    random_operands = corner_index == n * n * n;
    if (!random_operands) {
        static const int32_t scales[] = {0, 1, -1, 24, -24, 127, -127, 298, -298, 1023, -1024, INT32_MAX, INT32_MIN};
        a = corners[corner_index / (n * n)];
        b = corners[corner_index / n % n];
        c = corners[corner_index % n];
        scale = scales[corner_index % 13];
        corner_index++;
    } else {
        draw_operands();
    }
    *out_a = static_cast<int>(a);
    *out_b = static_cast<int>(b);
    *out_c = static_cast<int>(c);
    *out_scale = scale;
}

extern "C" void vector_alu_check(int opcode, int result) {
    uint32_t got = static_cast<uint32_t>(result), want = expected(opcode);
    checked++;
    if (got != want && wrong++ < 10) {
        std::fprintf(stderr, "opcode %02x of %08x, %08x, %08x, %d: %08x, must be %08x\n", opcode, a, b, c, scale, got,
                     want);
    }
    if (dump && dumped < kDumped && (corner_index % kCornersADump == 0 || random_operands)) {
        const uint32_t record[] = {static_cast<uint32_t>(opcode), a, b, c, static_cast<uint32_t>(scale), got};
        std::fwrite(record, sizeof(record), 1, dump);
        dumped++;
    }
}

extern "C" void vector_alu_end(int* operations, int* failures) {
    if (dump) std::fclose(dump);
    dump = nullptr;
    *operations = static_cast<int>(checked);
    *failures = wrong;
}
