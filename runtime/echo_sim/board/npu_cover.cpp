// Counts how often npu_cover.sv saw each state with each set of events, until Python takes the counts.

#include <cstdint>
#include <cstdlib>
#include <unordered_map>

namespace {

// The layout that Python reads (tb/functional/states.py).
struct Seen {
    uint32_t state, events;
    uint64_t count;
};

std::unordered_map<uint64_t, uint64_t> counts;

}  // namespace

extern "C" {

// ---- called by npu_cover.sv ----
// Whether functional coverage is on: the variable names a folder for it.
unsigned int echo_cover_enabled(void) {
    const char* folder = std::getenv("ECHO_NPU_FUNCTIONAL");
    return folder && *folder;
}
void echo_cover_tick(unsigned int state, unsigned int events) { ++counts[uint64_t{state} << 32 | events]; }

// ---- called from Python in the same process ----
unsigned long long echo_cover_pending(void) { return counts.size(); }
// Copies all of them to `out`, which has room for `echo_cover_pending()`, and forgets them.
void echo_cover_take(Seen* out) {
    for (const auto& [key, count] : counts) *out++ = {uint32_t(key >> 32), uint32_t(key), count};
    counts.clear();
}
}
