// Runs cases that Python drew (tb/faults), in place of cocotb. A plain loop clocks the board, without Python and VPI.
//
// CASES holds 32-bit words, as tb/faults/script.py writes them: the numbers of routines and of cases, where each
// begins, and their operations. For each case RESULTS gets a record: its number, how it ended, its clock cycles, how
// often the device wrote to memory that it may not write and where first, and the words that its operations recorded.
// After each case memory is restored, so that every case finds the same memory.

#include "cases.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "Vtop.h"
#include "contract.hpp"
#include "hostile_host.hpp"
#include "npu_tb.hpp"
#include "verilated.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

extern "C" {
int echo_dram_set(const char* name, unsigned long long value);
int echo_dram_get(const char* name, unsigned long long* value);
void echo_dram_clear_statistics(void);
void echo_dram_clear_faults(void);
void echo_dram_fail_burst(int write, unsigned long long burst, unsigned int beat, int resp);
int echo_dram_failed_burst(unsigned long long* addr, unsigned int* id);
int echo_dram_hold(const char* channel, unsigned long long cycles);
const char* echo_dram_violation(unsigned int index);
void echo_dram_watch_writes(void (*watch)(unsigned int addr, unsigned long long strb, unsigned int bus_bytes));
}

namespace {

using namespace echo;

constexpr uint32_t kMagic = 0x5341434E;  // "NCAS"
constexpr int kAnswerLimit = 1000;       // clock cycles that an access of a register may take
constexpr uint64_t kHostLimit = 300000;  // clock cycles that all requests of the host may take

using Host = HostileHost<Vtop>;

enum Ending : uint32_t { kDone, kHang, kNoAnswer, kViolation };

[[noreturn]] void fail(const std::string& message) {
    fprintf(stderr, "%s\n", message.c_str());
    exit(2);
}

// Thrown where a case cannot go on.
struct Stop {
    Ending ending;
};

uint8_t* memory;

// ---- where the device may write, and what to restore ----
std::vector<std::pair<uint32_t, uint32_t>> allowed;  // [lo, hi), sorted, apart
std::vector<std::pair<uint32_t, std::vector<uint8_t>>> overwritten;
uint32_t stray_writes, first_stray;
bool host_writes;  // the hostile host has a place to write to

void keep(uint32_t addr, uint32_t bytes) {
    overwritten.emplace_back(addr, std::vector<uint8_t>(memory + addr, memory + addr + bytes));
}

bool is_allowed(uint32_t lo, uint32_t hi) {
    if (host_writes && lo >= Host::kWrites && hi <= Host::kReads) return true;
    auto above = std::upper_bound(allowed.begin(), allowed.end(), std::make_pair(lo, ~0u));
    return above != allowed.begin() && hi <= std::prev(above)->second;
}

// A write beat of the device. Ranges that adjoin are one range, so a run of bytes lies in one of them.
void watch(unsigned int addr, unsigned long long strb, unsigned int bus_bytes) {
    const uint32_t base = addr & ~(bus_bytes - 1);
    if (base + uint64_t{bus_bytes} <= kMemoryBytes) keep(base, bus_bytes);
    for (uint32_t lane = 0; lane < bus_bytes;) {
        if (!(strb >> lane & 1)) {
            ++lane;
            continue;
        }
        const uint32_t first = lane;
        while (lane < bus_bytes && strb >> lane & 1) ++lane;
        if (!is_allowed(base + first, base + lane) && stray_writes++ == 0) first_stray = base + first;
    }
}

void allow(const uint32_t* ranges, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) allowed.emplace_back(ranges[2 * i], ranges[2 * i + 1]);
    std::sort(allowed.begin(), allowed.end());
    std::vector<std::pair<uint32_t, uint32_t>> joined;
    for (const auto& range : allowed) {
        if (!joined.empty() && range.first <= joined.back().second)
            joined.back().second = std::max(joined.back().second, range.second);
        else
            joined.push_back(range);
    }
    allowed = std::move(joined);
}

void take_back() {
    for (auto each = overwritten.rbegin(); each != overwritten.rend(); ++each)
        memcpy(memory + each->first, each->second.data(), each->second.size());
    overwritten.clear();
}

// ---- the board ----
class Board {
  public:
    Board() { power_on(); }
    ~Board() {
        top_->final();
#if VM_COVERAGE
        Verilated::threadContextp()->coveragep()->write();
#endif
    }

    // A new device, whose every register and memory is random.
    void power_on(uint32_t seed) {
        top_->final();
#if VM_COVERAGE
        gone_.push_back(std::move(top_));  // it keeps its counts until they are written
#endif
        Verilated::randSeed(int(seed % 0x7FFFFFFF) + 1);
        power_on();
    }
    void power_on() {
        top_ = std::make_unique<Vtop>();
        set_idle(*top_);
        top_->bus_enable = top_->axil_external = 1;
        tick();
        reset(3);
    }

    // Here and below, inputs do not change at the clock's edge: assertions sample the values from before the evaluation
    // in which the clock rises.
    void reset(uint32_t cycles) {
        host_.stop(*top_);
        top_->s_axil_awvalid = top_->s_axil_wvalid = top_->s_axil_arvalid = 0;
        top_->s_axil_bready = top_->s_axil_rready = 1;
        top_->rst_n = 0;
        top_->eval();
        run(cycles);
        top_->rst_n = 1;
        top_->eval();
        run(1);
        std::fill(std::begin(window_), std::end(window_), 0u);
    }

    // The host on s_axi, until a reset.
    void start_host(uint32_t seed, uint32_t withheld) { host_.start(*top_, memory, seed, withheld); }

    // Lets the host finish what it has begun; returns how much of it was wrong. A reset may have ended it before.
    uint32_t end_host() {
        if (!host_.active()) return 0;
        host_.release();
        for (uint64_t limit = cycle() + kHostLimit; !host_.idle(); tick())
            if (cycle() >= limit) throw Stop{kHang};
        const uint32_t wrong = host_.wrong();
        host_.stop(*top_);
        return wrong;
    }

    void run(uint64_t cycles) {
        for (uint64_t i = 0; i < cycles; ++i) tick();
    }

    // Clock cycles since the program began.
    uint64_t cycle() const { return cycle_; }

    // Writes, back to back, two of which may be in flight; returns the response of the last one. The upper half of an
    // offset is the clocks by which the address comes behind the one before it.
    uint32_t write(const std::vector<std::pair<uint32_t, uint32_t>>& writes) {
        Vtop& top = *top_;
        size_t address = 0, data = 0, answered = 0;
        uint32_t response = 0, pause = writes.empty() ? 0 : writes[0].first >> 16;
        for (int quiet = 0; answered < writes.size();) {
            top.s_axil_awvalid = address < writes.size() && pause == 0;
            if (top.s_axil_awvalid) top.s_axil_awaddr = uint16_t(writes[address].first);
            top.s_axil_wvalid = data < writes.size();
            if (top.s_axil_wvalid) top.s_axil_wdata = writes[data].second;
            top.s_axil_wstrb = 15;
            top.eval();
            tick();
            bool moved = pause != 0;
            if (pause) --pause;
            if (top.s_axil_awvalid && top.s_axil_awready) {
                moved = true;
                if (++address < writes.size()) pause = writes[address].first >> 16;
            }
            if (top.s_axil_wvalid && top.s_axil_wready) ++data, moved = true;
            if (top.s_axil_bvalid) ++answered, moved = true, response = top.s_axil_bresp;
            quiet = moved ? 0 : quiet + 1;
            if (quiet > kAnswerLimit) throw Stop{kNoAnswer};
        }
        top.s_axil_awvalid = top.s_axil_wvalid = 0;
        top.eval();
        return response;
    }

    // One write whose address, data and readiness for the answer come `skew` (a byte each) clocks late, and a read
    // beside it unless `read` is negative. Returns both responses.
    void both(uint32_t offset, uint32_t value, uint32_t strobes, uint32_t skew, int64_t read, uint32_t* bresp,
              uint32_t* rdata, uint32_t* rresp) {
        Vtop& top = *top_;
        bool address = false, data = false, answered = false;
        bool asked = read < 0, told = read < 0;
        for (uint32_t clock = 0; !(answered && told); ++clock) {
            top.s_axil_awvalid = !address && clock >= (skew & 255);
            top.s_axil_awaddr = uint16_t(offset);
            top.s_axil_wvalid = !data && clock >= (skew >> 8 & 255);
            top.s_axil_wdata = value;
            top.s_axil_wstrb = strobes & 15;
            top.s_axil_bready = clock >= (skew >> 16 & 255);
            top.s_axil_arvalid = !asked && clock >= (skew >> 24);
            top.s_axil_araddr = uint16_t(read);
            top.eval();
            tick();
            if (top.s_axil_awvalid && top.s_axil_awready) address = true;
            if (top.s_axil_wvalid && top.s_axil_wready) data = true;
            if (top.s_axil_arvalid && top.s_axil_arready) asked = true;
            if (top.s_axil_bvalid && top.s_axil_bready) answered = true, *bresp = top.s_axil_bresp;
            if (top.s_axil_rvalid && !told) told = true, *rdata = top.s_axil_rdata, *rresp = top.s_axil_rresp;
            if (clock > uint32_t{kAnswerLimit} + 1024) throw Stop{kNoAnswer};
        }
        top.s_axil_awvalid = top.s_axil_wvalid = top.s_axil_arvalid = 0;
        top.s_axil_bready = 1;
        top.eval();
    }

    // Reads, back to back: pairs of data and response.
    void read(const uint32_t* offsets, size_t count, uint32_t* pairs) {
        Vtop& top = *top_;
        size_t address = 0, answered = 0;
        for (int quiet = 0; answered < count;) {
            top.s_axil_arvalid = address < count;
            if (top.s_axil_arvalid) top.s_axil_araddr = uint16_t(offsets[address]);
            top.eval();
            tick();
            bool moved = false;
            if (top.s_axil_arvalid && top.s_axil_arready) ++address, moved = true;
            if (top.s_axil_rvalid) {
                pairs[2 * answered] = top.s_axil_rdata;
                pairs[2 * answered + 1] = top.s_axil_rresp;
                ++answered;
                moved = true;
            }
            quiet = moved ? 0 : quiet + 1;
            if (quiet > kAnswerLimit) throw Stop{kNoAnswer};
        }
        top.s_axil_arvalid = 0;
        top.eval();
    }
    uint32_t read(uint32_t offset) {
        uint32_t pair[2];
        read(&offset, 1, pair);
        return pair[0];
    }

    // Words that the command window holds already are not written again.
    void packet(const uint32_t* words) {
        writes_.clear();
        for (uint32_t i = 0; i < kPacketWords; ++i)
            if (window_[i] != words[i]) writes_.emplace_back(kRegCmdWindow + 4 * i, window_[i] = words[i]);
        writes_.emplace_back(kRegDoorbell, 1);
        write(writes_);
    }
    // Reads back the command window, whose content is unknown.
    void sync_window() {
        uint32_t offsets[kPacketWords], pairs[2 * kPacketWords];
        for (uint32_t i = 0; i < kPacketWords; ++i) offsets[i] = kRegCmdWindow + 4 * i;
        read(offsets, kPacketWords, pairs);
        for (uint32_t i = 0; i < kPacketWords; ++i) window_[i] = pairs[2 * i];
    }

    // Waits until nothing is under way, and clears the interrupts. Returns whether that took at most `limit` clocks.
    // The end of a soft reset, and work whose interrupt is masked, show only in STATUS: it is read every `poll` clocks.
    bool wait(uint64_t limit, uint64_t poll) {
        const uint64_t end = cycle() + limit;
        while (kStatusState.get(read(kRegStatus)) == kStateBusy) {
            if (cycle() >= end) return false;
            for (uint64_t next = cycle() + poll; !top_->irq && cycle() < next;) tick();
            if (top_->irq) write({{kRegIrqStatus, kIrqStatusMask}});
        }
        write({{kRegIrqStatus, kIrqStatusMask}});
        return true;
    }

  private:
    void tick() {
        const bool host = host_.active();
        if (host) {
            host_.drive(*top_);
            top_->eval();
        }
        top_->tick = !top_->tick;
        top_->eval();
        ++cycle_;
        if (host) host_.sample(*top_);
    }

#if VM_COVERAGE
    std::vector<std::unique_ptr<Vtop>> gone_;
#endif
    std::unique_ptr<Vtop> top_;
    Host host_;
    uint64_t cycle_ = 0;
    uint32_t window_[kPacketWords] = {};
    std::vector<std::pair<uint32_t, uint32_t>> writes_;
};

// ---- cases ----
class Player {
  public:
    Player(Board& board, const std::vector<uint32_t>& words) : board_(board), words_(words) {}

    // Executes one case and returns how it ended.
    Ending play(uint32_t begin, uint32_t end) {
        recorded.clear();
        try {
            execute(begin, end);
        } catch (const Stop& stop) {
            return stop.ending;
        }
        return echo_dram_violation(0) ? kViolation : kDone;
    }

    void execute(uint32_t at, uint32_t end) {
        while (at < end) {
            const uint32_t operation = words_[at] & 255, count = words_[at] >> 8;
            if (at + 1 + count > end) fail("an operation leaves its case");
            one(Operation(operation), &words_[at + 1], count);
            at += 1 + count;
        }
    }

    std::vector<uint32_t> recorded;

  private:
    void one(Operation operation, const uint32_t* args, uint32_t count) {
        switch (operation) {
            case kReset: board_.reset(args[0]); break;
            case kPower: board_.power_on(args[0]); break;
            case kKnob: echo_dram_set(kKnobNames[args[0]], args[1]); break;
            case kAllow: allow(args, count / 2); break;
            case kForbid: allowed.clear(); break;
            case kMemory:
                if (args[0] + uint64_t{args[1]} > kMemoryBytes) fail("a case writes outside of memory");
                keep(args[0], args[1]);
                memcpy(memory + args[0], args + 2, args[1]);
                break;
            case kWrite: {
                writes_.clear();
                for (uint32_t i = 0; i < count; i += 2) writes_.emplace_back(args[i], args[i + 1]);
                board_.write(writes_);
                break;
            }
            case kRead: {
                const size_t had = recorded.size();
                recorded.resize(had + 2 * count);
                board_.read(args, count, &recorded[had]);
                break;
            }
            case kPacket: board_.packet(args); break;
            case kRun: board_.run(args[0]); break;
            case kWait:
                if (!board_.wait(args[0], args[1])) stuck();
                break;
            case kCheck: check(args, count); break;
            case kCall: {
                const uint32_t begin = words_[3 + args[0]], end = words_[4 + args[0]];
                execute(begin, end);
                break;
            }
            case kFailBurst: echo_dram_fail_burst(int(args[0]), args[1], args[2], int(args[3])); break;
            case kFailed: {
                unsigned long long addr = 0;
                unsigned int id = 0;
                recorded.push_back(uint32_t(echo_dram_failed_burst(&addr, &id)));
                recorded.push_back(uint32_t(addr));
                recorded.push_back(id);
                break;
            }
            case kHold: echo_dram_hold(kChannelNames[args[0]], args[1]); break;
            case kClearFaults: echo_dram_clear_faults(); break;
            case kStatistic:
                if (args[0] == 255) {
                    recorded.push_back(uint32_t(board_.cycle()));
                } else {
                    unsigned long long value = 0;
                    echo_dram_get(kStatisticNames[args[0]], &value);
                    recorded.push_back(uint32_t(value));
                }
                break;
            case kBoth: {
                uint32_t bresp = 0, rdata = 0, rresp = 0;
                board_.both(args[0], args[1], args[2], args[3], args[4] == ~0u ? -1 : int64_t(args[4]), &bresp, &rdata,
                            &rresp);
                recorded.insert(recorded.end(), {bresp, rdata, rresp});
                break;
            }
            case kSyncWindow: board_.sync_window(); break;
            case kHost:
                keep(Host::kWrites, 2 * Host::kArea);
                host_writes = true;
                board_.start_host(args[0], args[1]);
                break;
            case kHostEnd: recorded.push_back(board_.end_host()); break;
            default: fail("an unknown operation: " + std::to_string(operation));
        }
    }

    // Records the state of a device that hangs, for the report.
    void stuck() {
        static const uint32_t registers[] = {
            kRegStatus,   kRegErrorCode, kRegErrorIndex, kRegErrorAddr, kRegRetired,   kRegIrqStatus,
            kRegRingHead, kRegRingTail,  kRegMatrixBusy, kRegVectorBusy, kRegReadBeats, kRegWriteBeats};
        recorded.clear();
        for (uint32_t offset : registers) recorded.push_back(board_.read(offset));
        throw Stop{kHang};
    }

    // Compares memory with expected bytes; records how many differ and the address of the first one.
    void check(const uint32_t* args, uint32_t count) {
        uint32_t differ = 0, first = 0;
        for (uint32_t at = 0; at < count;) {
            const uint32_t addr = args[at], bytes = args[at + 1];
            const uint8_t* expected = reinterpret_cast<const uint8_t*>(args + at + 2);
            if (memcmp(memory + addr, expected, bytes) != 0) {
                for (uint32_t i = 0; i < bytes; ++i)
                    if (memory[addr + i] != expected[i] && differ++ == 0) first = addr + i;
            }
            at += 2 + (bytes + 3) / 4;
        }
        recorded.push_back(differ);
        recorded.push_back(first);
    }

    Board& board_;
    const std::vector<uint32_t>& words_;
    std::vector<std::pair<uint32_t, uint32_t>> writes_;
};

std::vector<uint32_t> read_words(const char* path) {
    std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path, "rb"), fclose);
    if (!file) fail(std::string("cannot open ") + path);
    fseek(file.get(), 0, SEEK_END);
    std::vector<uint32_t> words(size_t(ftell(file.get())) / 4);
    rewind(file.get());
    if (fread(words.data(), 4, words.size(), file.get()) != words.size()) fail(std::string("cannot read ") + path);
    return words;
}

void map_memory() {
    const char* path = getenv("ECHO_NPU_MEMORY");
    const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) fail("ECHO_NPU_MEMORY names no device memory");
    void* map = mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) fail("cannot map the device memory");
    memory = static_cast<uint8_t*>(map);
}

}  // namespace

namespace echo {

int play_cases(const char* cases_path, const char* results_path) {
    const std::vector<uint32_t> words = read_words(cases_path);
    if (words.size() < 4 || words[0] != kMagic) fail("these are no cases");
    const uint32_t routines = words[1], cases = words[2];
    std::unique_ptr<FILE, int (*)(FILE*)> results(fopen(results_path, "wb"), fclose);
    if (!results) fail(std::string("cannot write ") + results_path);
    map_memory();
    echo_dram_watch_writes(watch);
    Board board;
    Player player(board, words);
    // Table: where each routine and each case begins, and the end.
    const uint32_t* begins = &words[3 + routines];
    for (uint32_t number = 0; number < cases; ++number) {
        const uint64_t started = board.cycle();
        stray_writes = first_stray = 0;
        host_writes = false;
        const Ending ending = player.play(begins[number], begins[number + 1]);
        const uint32_t cycles = uint32_t(board.cycle() - started);
        if (const char* violation = echo_dram_violation(0)) fprintf(stderr, "%s\n", violation);
        board.reset(2);  // writes that are still on their way to memory do not arrive
        take_back();
        allowed.clear();
        echo_dram_clear_faults();
        echo_dram_clear_statistics();
        const uint32_t head[] = {number, ending, cycles, stray_writes, first_stray, uint32_t(player.recorded.size())};
        fwrite(head, 4, std::size(head), results.get());
        fwrite(player.recorded.data(), 4, player.recorded.size(), results.get());
        fflush(results.get());
        if (ending != kDone) return 3;  // the next case needs a device that is known to be good
    }
    return 0;
}

}  // namespace echo
