// Records what npu_trace.sv sees, change by change, until Python takes it.
//
// Memory is bounded: a full record ends with the event kTraceCut.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "contract.hpp"

namespace {

constexpr size_t kMaxEvents = size_t{1} << 21;
constexpr uint64_t kWindow = 256;  // cycles over which beats and products are summed
constexpr unsigned kClients = 16;

// The layout that Python reads (runtime/echo_sim/trace_events.py).
struct Event {
    uint64_t cycle;
    uint32_t kind, channel;
    uint64_t a, b, c;
};

// The time in which a client has bursts outstanding, in one direction.
struct Transfer {
    uint64_t start = 0, beats = 0, bursts = 0;
    uint64_t outstanding = 0;  // beats of a read, bursts of a write
    uint64_t address = 0;
};

struct Burst {
    unsigned client;
    uint32_t left;
};

class Recorder {
  public:
    uint32_t beat_bytes = 0;
    std::array<std::array<std::string, kClients>, 2> names;

    void start(uint64_t cycle) {
        const uint32_t bytes = beat_bytes;
        const auto kept = names;
        *this = Recorder();
        beat_bytes = bytes;
        names = kept;
        window_ = cycle / kWindow;
    }

    // Everything that is under way ends here.
    void stop(uint64_t cycle) {
        set_levels(cycle, 0);
        close_window(cycle / kWindow + 1);
        for (unsigned write = 0; write < 2; ++write)
            for (unsigned client = 0; client < kClients; ++client)
                if (transfers_[write][client].outstanding) finish(cycle, write, client);
    }

    void tick(uint64_t cycle, uint32_t levels, uint32_t waiting, uint32_t pulses, uint32_t macs, uint32_t read,
              uint64_t araddr, uint32_t write, uint64_t awaddr) {
        if (cycle / kWindow != window_) close_window(cycle / kWindow);
        set_levels(cycle, levels);
        if (waiting != waiting_) {
            waiting_ = waiting;
            push({cycle, echo::kTraceQueue, 0, waiting >> 16, waiting & 0xFFFF, 0});
        }
        for (uint32_t engine = 0; engine < 8; ++engine) {
            if (pulses >> (8 + engine) & 1) push({cycle, echo::kTraceStart, engine, 0, 0, 0});
            if (pulses >> (16 + engine) & 1) push({cycle, echo::kTraceDone, engine, 0, 0, 0});
        }
        if (pulses & 1) push({cycle, echo::kTraceRetire, 0, 0, 0, 0});
        macs_ += macs;
        watch_reads(cycle, read, araddr);
        watch_writes(cycle, write, awaddr);
    }

    size_t pending() const { return events_.size(); }

    void take(Event* to) {
        std::copy(events_.begin(), events_.end(), to);
        events_.clear();
    }

  private:
    std::vector<Event> events_;
    bool full_ = false;
    uint32_t levels_ = 0, waiting_ = 0;
    uint64_t window_ = 0, macs_ = 0, read_beats_ = 0, write_beats_ = 0;
    bool quiet_ = true;  // the last window had nothing in it
    std::array<std::array<Transfer, kClients>, 2> transfers_;
    std::deque<Burst> write_order_;
    uint32_t early_beats_ = 0;  // write data that came before its address

    void push(const Event& event) {
        if (full_) return;
        full_ = events_.size() + 1 == kMaxEvents;
        if (full_) events_.push_back({event.cycle, echo::kTraceCut, 0, 0, 0, 0});
        else events_.push_back(event);
    }

    void set_levels(uint64_t cycle, uint32_t levels) {
        if (levels == levels_) return;
        levels_ = levels;
        push({cycle, echo::kTraceLevels, 0, levels, 0, 0});
    }

    void close_window(uint64_t next) {
        const bool quiet = !read_beats_ && !write_beats_ && !macs_;
        if (!quiet || !quiet_) push({window_ * kWindow, echo::kTraceWindow, 0, read_beats_, write_beats_, macs_});
        if (!quiet && next > window_ + 1) push({(window_ + 1) * kWindow, echo::kTraceWindow, 0, 0, 0, 0});
        quiet_ = quiet || next > window_ + 1;
        read_beats_ = write_beats_ = macs_ = 0;
        window_ = next;
    }

    void begin(uint64_t cycle, unsigned write, unsigned client, uint64_t address, uint64_t outstanding) {
        Transfer& transfer = transfers_[write][client];
        if (!transfer.outstanding) transfer = Transfer{cycle, 0, 0, 0, address};
        transfer.outstanding += outstanding;
        ++transfer.bursts;
    }

    void finish(uint64_t cycle, unsigned write, unsigned client) {
        Transfer& transfer = transfers_[write][client];
        push({cycle, echo::kTraceTransfer, write << 8 | client, transfer.start, transfer.beats | transfer.bursts << 32,
              transfer.address});
        transfer = Transfer{};
    }

    void watch_reads(uint64_t cycle, uint32_t read, uint64_t address) {
        if (read >> 8 & 1) begin(cycle, 0, read >> 20 & 15, address, (read >> 24) + 1);
        if (!(read & 1)) return;
        ++read_beats_;
        const unsigned client = read >> 4 & 15;
        Transfer& transfer = transfers_[0][client];
        if (!transfer.outstanding) return;  // asked for before the record began
        ++transfer.beats;
        if (!--transfer.outstanding) finish(cycle + 1, 0, client);
    }

    void watch_writes(uint64_t cycle, uint32_t write, uint64_t address) {
        if (write >> 8 & 1) {
            begin(cycle, 1, write >> 20 & 15, address, 1);
            write_order_.push_back({write >> 20 & 15, (write >> 24) + 1});
        }
        if (write & 1) {
            ++write_beats_;
            ++early_beats_;
        }
        while (early_beats_ && !write_order_.empty()) {
            Burst& burst = write_order_.front();
            const uint32_t beats = std::min(early_beats_, burst.left);
            transfers_[1][burst.client].beats += beats;
            early_beats_ -= beats;
            burst.left -= beats;
            if (burst.left == 0) write_order_.pop_front();
        }
        if (write >> 2 & 1) {
            const unsigned client = write >> 4 & 15;
            Transfer& transfer = transfers_[1][client];
            if (transfer.outstanding && !--transfer.outstanding) finish(cycle + 1, 1, client);
        }
    }
};

Recorder recorder;

}  // namespace

extern "C" {

// ---- called by npu_trace.sv ----
void echo_trace_init(unsigned int beat_bytes) { recorder.beat_bytes = beat_bytes; }
void echo_trace_name(unsigned int is_write, unsigned int client, const char* name) {
    recorder.names[is_write & 1][client % kClients] = name;
}
void echo_trace_tick(unsigned long long cycle, unsigned int levels, unsigned int waiting,
                     unsigned int pulses, unsigned int macs, unsigned int read, unsigned long long araddr,
                     unsigned int write, unsigned long long awaddr) {
    recorder.tick(cycle, levels, waiting, pulses, macs, read, araddr, write, awaddr);
}

// ---- called from Python in the same process ----
// Starts an empty record.
void echo_trace_start(unsigned long long cycle) { recorder.start(cycle); }
// Ends, at this cycle, everything that is under way.
void echo_trace_stop(unsigned long long cycle) { recorder.stop(cycle); }
// How many events wait; echo_trace_take copies all of them and forgets them.
unsigned int echo_trace_pending(void) { return static_cast<unsigned int>(recorder.pending()); }
void echo_trace_take(void* to) { recorder.take(static_cast<Event*>(to)); }
// What the client of an ID is called; empty where there is none.
const char* echo_trace_client(unsigned int is_write, unsigned int client) {
    return recorder.names[is_write & 1][client % kClients].c_str();
}
unsigned int echo_trace_beat_bytes(void) { return recorder.beat_bytes; }
unsigned int echo_trace_window(void) { return kWindow; }
}
