// Register operations on their way from Python to the AXI4-Lite master in axil_bfm.sv, and the answers on their way
// back. Python hands over a whole list at once, so a command window of 16 words and its doorbell are one crossing.

#include <cstdint>
#include <deque>
#include <vector>

namespace {

struct Operation {
    uint32_t write, addr, data;
};
struct Answer {
    uint32_t data, resp;
};

std::deque<Operation> waiting;
std::vector<Answer> answers;

}  // namespace

extern "C" {

// ---- called by axil_bfm.sv ----
// The next operation; 0 when there is none.
unsigned int echo_axil_next(unsigned int* write, unsigned int* addr, unsigned int* data) {
    if (waiting.empty()) return 0;
    const Operation op = waiting.front();
    waiting.pop_front();
    *write = op.write;
    *addr = op.addr;
    *data = op.data;
    return 1;
}
void echo_axil_answer(unsigned int data, unsigned int resp) { answers.push_back({data, resp}); }

// ---- called from Python in the same process ----
// `operations` is count triples (write, addr, data).
void echo_axil_submit(const uint32_t* operations, unsigned int count) {
    for (unsigned int i = 0; i < count; ++i)
        waiting.push_back({operations[3 * i], operations[3 * i + 1], operations[3 * i + 2]});
}
// Takes the answers so far, at most `room` pairs (data, resp); returns how many.
unsigned int echo_axil_collect(uint32_t* pairs, unsigned int room) {
    unsigned int count = 0;
    for (; count < room && count < answers.size(); ++count) {
        pairs[2 * count] = answers[count].data;
        pairs[2 * count + 1] = answers[count].resp;
    }
    answers.erase(answers.begin(), answers.begin() + count);
    return count;
}
void echo_axil_flush(void) {
    waiting.clear();
    answers.clear();
}
}
