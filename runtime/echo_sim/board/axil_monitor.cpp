// The register writes that axil_monitor.sv saw, kept until Python takes them.

#include <cstdint>
#include <deque>
#include <utility>

namespace {

// The layout that Python reads (runtime/echo_sim/native.py).
struct Write {
    uint64_t cycle;
    uint32_t addr, data, strb, resp;
};

std::deque<uint32_t> addresses;
std::deque<std::pair<uint32_t, uint32_t>> data_beats;
std::deque<Write> writes;
bool recording = false;  // off by default: without a reader the list would only grow

}  // namespace

extern "C" {

// ---- called by axil_monitor.sv ----
void echo_axil_saw_reset(void) {
    addresses.clear();
    data_beats.clear();
}
void echo_axil_saw_address(const unsigned int* addr) { addresses.push_back(*addr); }
void echo_axil_saw_data(unsigned int data, const unsigned int* strb) { data_beats.emplace_back(data, *strb); }
void echo_axil_saw_answer(unsigned long long cycle, const unsigned int* resp) {
    if (addresses.empty() || data_beats.empty()) return;  // no request: the checkers report it
    if (recording) writes.push_back({cycle, addresses.front(), data_beats.front().first, data_beats.front().second, *resp});
    addresses.pop_front();
    data_beats.pop_front();
}

// ---- called from Python in the same process ----
// Starts an empty record.
void echo_axil_record(void) {
    recording = true;
    writes.clear();
}
// Takes the oldest write; 0 when there is none.
int echo_axil_take_write(Write* out) {
    if (writes.empty()) return 0;
    *out = writes.front();
    writes.pop_front();
    return 1;
}
}
