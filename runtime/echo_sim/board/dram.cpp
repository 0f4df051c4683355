// The memory behind m_axi: an AXI4 slave over one sparse memory object that Python maps as well. An offset into it is
// an address.
//
// The SystemVerilog shell (dram_model.sv) calls echo_dram_tick once a clock, and only while a channel is valid or
// something is outstanding. All outputs are registered in the shell. Everything that a test may set is a named knob,
// which Python sets at any time through the C functions at the end of this file.
//
// The model exposes hazards: a write becomes visible only when its response leaves, and a read takes its data at a
// random moment between acceptance and delivery. A master that reads what it wrote without waiting for the response,
// or that overwrites what it is still reading, gets wrong data in some run.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <string>
#include <vector>

#include "axi_protocol.hpp"
#include "contract.hpp"

namespace {

using namespace echo;

constexpr uint8_t kOkay = 0, kDecErr = 3;

constexpr size_t kChannels = std::size(kChannelNames);

// The place of `name` in a list of the contract; the list's length where it is not there.
template <size_t kSize>
size_t place(const char* const (&names)[kSize], const std::string& name) {
    return size_t(std::find(std::begin(names), std::end(names), name) - std::begin(names));
}

// A range of addresses that answers with an error; `count` bursts, or for ever when negative.
struct Fault {
    uint64_t lo, hi;
    bool on_read, on_write;
    uint8_t resp;
    int64_t count;
};

// One burst that answers with an error, whatever its address: the `burst`-th accepted in its direction from now on.
struct BurstFault {
    bool armed = false, hit = false, write = false;
    uint64_t burst = 0;
    uint32_t beat = 0;  // of a read: which of its beats, modulo their number
    uint8_t resp = 0;
    Request req;        // once it is hit
};

struct WriteBeat {
    uint64_t strb;
    uint8_t data[64];
};

struct WriteBurst {
    Request req;
    uint64_t ready_cycle = 0;  // when its response may leave; valid once all beats are in
    uint8_t resp = kOkay;      // injected
    std::vector<WriteBeat> beats;
    bool complete() const { return beats.size() == req.beats(); }
};

struct ReadBurst {
    Request req;
    uint64_t ready_cycle = 0;
    uint32_t next_beat = 0;
    bool sampled = false;         // data was taken at acceptance
    std::vector<uint8_t> data;    // beats() * bus_bytes when sampled
    std::vector<uint8_t> resp;    // one for each beat, decided at acceptance
};

class Dram {
  public:
    void init(uint32_t bus_bytes, const uint64_t* limits) {
        if (bus_bytes_ && bus_bytes_ != bus_bytes) {
            fprintf(stderr, "dram_model: one instance a simulation\n");
            abort();
        }
        if (bus_bytes > 64) {
            fprintf(stderr, "dram_model: buses wider than 512 bits are not supported\n");
            abort();
        }
        bus_bytes_ = bus_bytes;
        std::copy(limits, limits + 4, limits_);
        if (memory_ && end() > kMemoryBytes) {  // Python was faster, and got what every device has
            munmap(memory_, kMemoryBytes);
            memory_ = nullptr;
        }
        open_memory();
    }

    void reset() {
        writes_.clear();
        orphans_.clear();
        reads_.clear();
        awready_ = wready_ = arready_ = bvalid_ = rvalid_ = rlast_ = false;
        checker_.reset();
    }

    // Inputs as they were before the clock edge; returns the flags after it.
    uint32_t tick(uint64_t cycle, uint32_t valids, const Request& aw, const Request& ar, const uint8_t* wdata,
                  uint64_t wstrb, uint32_t* resp, uint8_t* rdata) {
        const bool awvalid = valids & 1, wvalid = valids & 2, bready = valids & 4, arvalid = valids & 8,
                   rready = valids & 16, wlast = valids & 32;
        checker_.stable_aw(cycle, awvalid, awready_, aw);
        checker_.stable_ar(cycle, arvalid, arready_, ar);
        checker_.stable_w(cycle, wvalid, wready_, wdata, wstrb, wlast, bus_bytes_);

        refill(cycle);
        if (awvalid && awready_) accept_write(cycle, aw);
        if (wvalid && wready_) accept_beat(cycle, wdata, wstrb, wlast);
        if (arvalid && arready_) accept_read(cycle, ar);
        if (bvalid_ && bready) bvalid_ = false;
        if (rvalid_ && rready) rvalid_ = false;
        if ((awvalid && !awready_) || (wvalid && !wready_) || (arvalid && !arready_)) ++stall_cycles_;

        if (!bvalid_) offer_response(cycle);
        if (!rvalid_) offer_data(cycle, rdata);
        awready_ = writes_.size() < max_outstanding_[1] && !stalled(kChannelAw);
        wready_ = orphans_.size() < kMaxOrphans && tokens_[1] + int64_t(bandwidth_[1]) >= 0 && !stalled(kChannelW);
        arready_ = reads_.size() < max_outstanding_[0] && !stalled(kChannelAr);

        *resp = uint32_t{bid_} | uint32_t{bresp_} << 8 | uint32_t{rid_} << 10 | uint32_t{rresp_} << 18;
        const bool busy = bvalid_ || rvalid_ || !writes_.empty() || !reads_.empty() || !orphans_.empty() ||
                          checker_.waiting() || awvalid || wvalid || arvalid;
        return uint32_t{awready_} | wready_ << 1 | bvalid_ << 2 | arready_ << 3 | rvalid_ << 4 | rlast_ << 5 |
               busy << 6;
    }

    void seed(uint64_t value) { rng_ = value * 0x9E3779B97F4A7C15ull + 0xD1B54A32D192ED03ull; }

    bool set(const std::string& name, uint64_t value) {
        const size_t found = place(kKnobNames, name);
        if (found == std::size(kKnobNames)) return false;
        const uint64_t positive = std::max<uint64_t>(value, 1);
        const auto chance = uint32_t(std::min(value, kSurest));
        switch (Knob(found)) {
            case kKnobReadLatency: latency_[0] = positive; break;
            case kKnobWriteLatency: latency_[1] = positive; break;
            case kKnobReadBandwidth: bandwidth_[0] = positive; break;
            case kKnobWriteBandwidth: bandwidth_[1] = positive; break;
            case kKnobMaxReads: max_outstanding_[0] = positive; break;
            case kKnobMaxWrites: max_outstanding_[1] = positive; break;
            case kKnobReorder: reorder_ = value != 0; break;
            case kKnobSeed: seed(value); break;
            case kKnobEarlyRead: early_read_ = uint32_t(value); break;
            case kKnobStallAw: stall_[kChannelAw] = chance; break;
            case kKnobStallW: stall_[kChannelW] = chance; break;
            case kKnobStallB: stall_[kChannelB] = chance; break;
            case kKnobStallAr: stall_[kChannelAr] = chance; break;
            case kKnobStallR: stall_[kChannelR] = chance; break;
        }
        return true;
    }

    bool get(const std::string& name, uint64_t* value) const {
        const size_t found = place(kStatisticNames, name);
        if (found == std::size(kStatisticNames)) return false;
        *value = statistic(Statistic(found));
        return true;
    }

    void clear_statistics() {
        for (int dir = 0; dir < 2; ++dir) bursts_[dir] = beats_[dir] = bytes_[dir] = peak_[dir] = 0;
        stall_cycles_ = error_responses_ = decode_errors_ = first_error_address_ = 0;
        checker_.clear();
    }

    void add_fault(const Fault& fault) { faults_.push_back(fault); }
    void fail_burst(const BurstFault& fault) { burst_fault_ = fault; }
    const BurstFault& failed_burst() const { return burst_fault_; }
    void clear_faults() {
        faults_.clear();
        burst_fault_ = BurstFault();
        std::fill(std::begin(held_), std::end(held_), 0);
    }
    // The channel moves nothing for so many calls: clocks, as long as something is outstanding.
    bool hold(const std::string& name, uint64_t cycles) {
        const size_t channel = place(kChannelNames, name);
        if (channel == kChannels) return false;
        held_[channel] = cycles;
        return true;
    }
    void watch_writes(void (*watch)(unsigned int, unsigned long long, unsigned int)) { watch_ = watch; }
    const char* violation(size_t index) const { return checker_.message(index); }
    // Python may ask before the first evaluation has run the initial blocks.
    int fd() {
        open_memory();
        return fd_;
    }

  private:
    static constexpr uint64_t kSurest = 0xF000;  // of 65536: a channel that never moves would be a hang
    static constexpr size_t kMaxOrphans = 256;  // write beats that may run ahead of their address

    uint64_t statistic(Statistic which) const {
        switch (which) {
            case kStatReadBursts: return bursts_[0];
            case kStatWriteBursts: return bursts_[1];
            case kStatReadBeats: return beats_[0];
            case kStatWriteBeats: return beats_[1];
            case kStatReadBytes: return bytes_[0];
            case kStatWriteBytes: return bytes_[1];
            case kStatPeakReads: return peak_[0];
            case kStatPeakWrites: return peak_[1];
            case kStatStallCycles: return stall_cycles_;
            case kStatErrorResponses: return error_responses_;
            case kStatDecodeErrors: return decode_errors_;
            case kStatViolations: return checker_.count();
            case kStatOutstanding: return writes_.size() + reads_.size() + orphans_.size();
            case kStatFirstErrorAddress: return first_error_address_;
        }
        return 0;
    }

    void open_memory() {
        if (memory_) return;
        if (fd_ >= 0) {
            map_memory();
            return;
        }
        if (const char* path = getenv("ECHO_NPU_MEMORY"); path && *path) {
            fd_ = open(path, O_RDWR | O_CLOEXEC);
            if (fd_ < 0) {
                fprintf(stderr, "dram_model: cannot open the device memory %s: %s\n", path, strerror(errno));
                abort();
            }
        } else {
            // A test without a host process: memory that vanishes with this one.
            fd_ = memfd_create("echo-npu-memory", MFD_CLOEXEC);
            if (fd_ < 0 || ftruncate(fd_, off_t(end())) != 0) {
                perror("dram_model: memfd_create");
                abort();
            }
        }
        map_memory();
    }

    // The first address behind memory.
    uint64_t end() const { return std::max(limits_[1], limits_[3]) + 1; }
    bool inside(uint64_t addr, uint32_t bytes) const {
        const uint64_t last = addr + bytes - 1;
        return (addr >= limits_[0] && last <= limits_[1]) || (addr >= limits_[2] && last <= limits_[3]);
    }

    void map_memory() {
        struct stat facts;
        if (fstat(fd_, &facts) != 0 || uint64_t(facts.st_size) < end()) {
            fprintf(stderr, "dram_model: the device memory has %lld bytes; it must have %llu\n",
                    (long long)facts.st_size, (unsigned long long)end());
            abort();
        }
        void* map = mmap(nullptr, end(), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
        if (map == MAP_FAILED) {
            perror("dram_model: mmap of the device memory");
            abort();
        }
        memory_ = static_cast<uint8_t*>(map);
    }

    uint32_t random() {
        rng_ ^= rng_ << 13;
        rng_ ^= rng_ >> 7;
        rng_ ^= rng_ << 17;
        return uint32_t(rng_ >> 32);
    }
    bool chance(uint32_t of_65536) { return of_65536 != 0 && (random() & 0xFFFF) < of_65536; }
    bool stalled(Channel channel) {
        if (held_[channel]) {
            --held_[channel];
            return true;
        }
        return chance(stall_[channel]);
    }

    // Whether this burst is the one that a test chose to fail.
    bool hits(const Request& req, bool write) {
        if (!burst_fault_.armed || burst_fault_.write != write || burst_fault_.burst-- != 0) return false;
        burst_fault_.armed = false;
        burst_fault_.hit = true;
        burst_fault_.req = req;
        return true;
    }

    // Bandwidth is a token bucket in each direction, in 1/65536 byte: a beat goes when the bucket is not in debt, and
    // less than one cycle's worth is ever saved up.
    void refill(uint64_t cycle) {
        const uint64_t elapsed = std::min<uint64_t>(cycle - last_cycle_, 1 << 20);
        last_cycle_ = cycle;
        for (int dir = 0; dir < 2; ++dir) {
            const int64_t rate = int64_t(bandwidth_[dir]);
            tokens_[dir] = std::min(tokens_[dir] + rate * int64_t(elapsed), rate - 1);
        }
    }
    void spend(int dir, uint32_t bytes) {
        tokens_[dir] -= int64_t{bus_bytes_} << 16;
        ++beats_[dir];
        bytes_[dir] += bytes;
    }

    // The response that one burst gets: decode errors outside memory, then the injected ones (each hit used once).
    uint8_t response(uint64_t addr, uint32_t bytes, bool write) const {
        if (!inside(addr, bytes)) return kDecErr;
        for (const Fault& fault : faults_)
            if (fault.count != 0 && (write ? fault.on_write : fault.on_read) && addr < fault.hi && addr + bytes > fault.lo)
                return fault.resp;
        return kOkay;
    }
    void use_faults(uint64_t addr, uint32_t bytes, bool write) {
        for (Fault& fault : faults_)
            if (fault.count > 0 && (write ? fault.on_write : fault.on_read) && addr < fault.hi && addr + bytes > fault.lo) {
                --fault.count;
                return;
            }
    }
    void count_error(uint8_t resp, uint64_t addr) {  // addr: of the burst
        if (resp == kOkay) return;
        if (error_responses_++ == 0) first_error_address_ = addr;
        if (!inside(addr, 1)) ++decode_errors_;
    }

    // First byte and number of bytes that a beat really touches: never more than its bus word, whatever its size says.
    uint32_t span(const Request& req, uint32_t beat, uint64_t* addr) const {
        *addr = req.beat_addr(beat);
        const uint32_t size = std::min(req.beat_bytes(), bus_bytes_);
        return size - uint32_t(*addr & (size - 1));
    }

    void accept_write(uint64_t cycle, const Request& req) {
        checker_.request(cycle, "AW", req, bus_bytes_);
        ++bursts_[1];
        writes_.emplace_back();
        WriteBurst& burst = writes_.back();
        burst.req = req;
        burst.ready_cycle = cycle + latency_[1];
        if (hits(req, true)) burst.resp = burst_fault_.resp;
        while (!orphans_.empty() && !burst.complete()) {
            auto [beat, last] = orphans_.front();
            orphans_.pop_front();
            store_beat(cycle, burst, beat, last);
        }
        peak_[1] = std::max<uint64_t>(peak_[1], writes_.size());
    }

    void accept_beat(uint64_t cycle, const uint8_t* data, uint64_t strb, bool last) {
        WriteBeat beat;
        beat.strb = strb;
        memcpy(beat.data, data, bus_bytes_);
        spend(1, uint32_t(__builtin_popcountll(strb)));
        for (WriteBurst& burst : writes_) {
            if (!burst.complete()) {
                store_beat(cycle, burst, beat, last);
                return;
            }
        }
        orphans_.emplace_back(beat, last);
    }

    void store_beat(uint64_t cycle, WriteBurst& burst, const WriteBeat& beat, bool last) {
        uint64_t addr;
        const uint32_t bytes = span(burst.req, uint32_t(burst.beats.size()), &addr);
        const uint32_t lane = uint32_t(addr & (bus_bytes_ - 1));
        const uint64_t legal = (bytes >= 64 ? ~0ull : (1ull << bytes) - 1) << lane;
        if (beat.strb & ~legal)
            checker_.report(cycle, "W: wstrb 0x%llx outside the lanes of the beat at 0x%08llx",
                            (unsigned long long)beat.strb, (unsigned long long)addr);
        if (watch_) watch_(uint32_t(addr), beat.strb, bus_bytes_);  // the player of cases knows small memory alone
        burst.beats.push_back(beat);
        if (last != burst.complete())
            checker_.report(cycle, "W: wlast %d at beat %zu of %u of the burst at 0x%08llx", last,
                            burst.beats.size(), burst.req.beats(), (unsigned long long)burst.req.addr);
        burst.ready_cycle = std::max(burst.ready_cycle, cycle + latency_[1]);
    }

    void accept_read(uint64_t cycle, const Request& req) {
        checker_.request(cycle, "AR", req, bus_bytes_);
        ++bursts_[0];
        reads_.emplace_back();
        ReadBurst& burst = reads_.back();
        burst.req = req;
        burst.ready_cycle = cycle + latency_[0];
        burst.resp.resize(req.beats());
        uint64_t bad_addr = 0;
        uint32_t bad_bytes = 0;
        for (uint32_t beat = 0; beat < req.beats(); ++beat) {
            uint64_t addr;
            const uint32_t bytes = span(req, beat, &addr);
            burst.resp[beat] = response(addr, bytes, false);
            if (burst.resp[beat] != kOkay && bad_bytes == 0) {
                bad_addr = addr;
                bad_bytes = bytes;
            }
        }
        if (bad_bytes) use_faults(bad_addr, bad_bytes, false);
        if (hits(req, false)) burst.resp[burst_fault_.beat % req.beats()] = burst_fault_.resp;
        burst.sampled = chance(early_read_);
        if (burst.sampled) {
            burst.data.resize(size_t{req.beats()} * bus_bytes_);
            for (uint32_t beat = 0; beat < req.beats(); ++beat)
                fetch(req, beat, burst.resp[beat], &burst.data[size_t{beat} * bus_bytes_]);
        }
        peak_[0] = std::max<uint64_t>(peak_[0], reads_.size());
    }

    // One bus word; lanes that the beat does not own, and beats that failed, are filled with a pattern that shows.
    void fetch(const Request& req, uint32_t beat, uint8_t resp, uint8_t* out) const {
        uint64_t addr;
        const uint32_t bytes = span(req, beat, &addr);
        if (resp == kOkay && bytes == bus_bytes_) {
            memcpy(out, memory_ + addr, bus_bytes_);
            return;
        }
        memset(out, 0xDB, bus_bytes_);
        if (resp == kOkay) memcpy(out + (addr & (bus_bytes_ - 1)), memory_ + addr, bytes);
    }

    void offer_response(uint64_t cycle) {
        const size_t index = pick(cycle, writes_, [](const WriteBurst& burst) { return burst.complete(); });
        if (index == writes_.size() || stalled(kChannelB)) return;
        WriteBurst& burst = writes_[index];
        bresp_ = burst.resp;
        uint64_t bad_addr = 0;
        uint32_t bad_bytes = 0;
        for (uint32_t beat = 0; beat < burst.req.beats(); ++beat) {
            uint64_t addr;
            const uint32_t bytes = span(burst.req, beat, &addr);
            if (burst.resp != kOkay) break;  // nothing of it arrives
            const uint8_t resp = response(addr, bytes, true);
            if (resp != kOkay) {
                if (bresp_ == kOkay) bad_addr = addr, bad_bytes = bytes, bresp_ = resp;
                continue;
            }
            const WriteBeat& data = burst.beats[beat];
            const uint64_t base = addr & ~uint64_t{bus_bytes_ - 1};
            if (data.strb == (bus_bytes_ == 64 ? ~0ull : (1ull << bus_bytes_) - 1)) {
                memcpy(memory_ + base, data.data, bus_bytes_);
            } else {
                for (uint32_t lane = 0; lane < bus_bytes_; ++lane)
                    if (data.strb >> lane & 1) memory_[base + lane] = data.data[lane];
            }
        }
        if (bad_bytes) use_faults(bad_addr, bad_bytes, true);
        count_error(bresp_, burst.req.addr);
        bid_ = burst.req.id;
        bvalid_ = true;
        writes_.erase(writes_.begin() + long(index));
    }

    void offer_data(uint64_t cycle, uint8_t* rdata) {
        const size_t index = pick(cycle, reads_, [](const ReadBurst&) { return true; });
        if (index == reads_.size() || tokens_[0] < 0 || stalled(kChannelR)) return;
        ReadBurst& burst = reads_[index];
        const uint32_t beat = burst.next_beat++;
        rresp_ = burst.resp[beat];
        if (burst.sampled)
            memcpy(rdata, &burst.data[size_t{beat} * bus_bytes_], bus_bytes_);
        else
            fetch(burst.req, beat, rresp_, rdata);
        spend(0, std::min(burst.req.beat_bytes(), bus_bytes_));
        count_error(rresp_, burst.req.addr);
        rid_ = burst.req.id;
        rlast_ = burst.next_beat == burst.req.beats();
        rvalid_ = true;
        if (rlast_) reads_.erase(reads_.begin() + long(index));
    }

    // The burst that may answer now: the oldest, or with `reorder` any that is the oldest of its id (read data of
    // different ids may then interleave, as AXI4 allows). Returns queue.size() when there is none.
    template <typename Queue, typename Ready>
    size_t pick(uint64_t cycle, const Queue& queue, Ready ready) {
        if (queue.empty()) return 0;
        const auto due = [&](const auto& burst) { return ready(burst) && burst.ready_cycle <= cycle + 1; };
        if (!reorder_) return due(queue.front()) ? 0 : queue.size();
        bool seen[256] = {};
        size_t chosen = queue.size();
        uint32_t found = 0;
        for (size_t i = 0; i < queue.size(); ++i) {
            const uint8_t id = queue[i].req.id;
            if (seen[id]) continue;
            seen[id] = true;
            if (due(queue[i]) && random() % ++found == 0) chosen = i;
        }
        return chosen;
    }

    uint32_t bus_bytes_ = 0;
    uint64_t limits_[4] = {0, kActivationBase - 1, kActivationBase, kMemoryBytes - 1};  // first and last of both regions
    int fd_ = -1;
    uint8_t* memory_ = nullptr;
    echo::ProtocolChecker checker_;

    // Knobs; [0] read, [1] write. Chances are of 65536.
    uint64_t latency_[2] = {kKnobDefaults[kKnobReadLatency], kKnobDefaults[kKnobWriteLatency]};
    uint64_t bandwidth_[2] = {kKnobDefaults[kKnobReadBandwidth], kKnobDefaults[kKnobWriteBandwidth]};
    uint64_t max_outstanding_[2] = {kKnobDefaults[kKnobMaxReads], kKnobDefaults[kKnobMaxWrites]};
    uint32_t stall_[kChannels] = {
        uint32_t(kKnobDefaults[kKnobStallAw]), uint32_t(kKnobDefaults[kKnobStallW]), uint32_t(kKnobDefaults[kKnobStallB]),
        uint32_t(kKnobDefaults[kKnobStallAr]), uint32_t(kKnobDefaults[kKnobStallR])};
    uint32_t early_read_ = uint32_t(kKnobDefaults[kKnobEarlyRead]);
    bool reorder_ = kKnobDefaults[kKnobReorder];
    uint64_t held_[kChannels] = {};
    std::vector<Fault> faults_;
    BurstFault burst_fault_;
    void (*watch_)(unsigned int, unsigned long long, unsigned int) = nullptr;
    uint64_t rng_ = 0x9E3779B97F4A7C15ull;

    // State
    uint64_t last_cycle_ = 0;
    int64_t tokens_[2] = {0, 0};
    std::deque<WriteBurst> writes_;
    std::deque<std::pair<WriteBeat, bool>> orphans_;
    std::deque<ReadBurst> reads_;
    bool awready_ = false, wready_ = false, arready_ = false, bvalid_ = false, rvalid_ = false, rlast_ = false;
    uint8_t bid_ = 0, bresp_ = 0, rid_ = 0, rresp_ = 0;

    // Statistics
    uint64_t bursts_[2] = {}, beats_[2] = {}, bytes_[2] = {}, peak_[2] = {};
    uint64_t stall_cycles_ = 0, error_responses_ = 0, decode_errors_ = 0, first_error_address_ = 0;
};

Dram dram;

Request unpack(uint64_t addr, uint32_t attributes) {
    return Request{addr, uint8_t(attributes), uint8_t(attributes >> 8), uint8_t(attributes >> 16 & 7),
                   Burst(attributes >> 19 & 3)};
}

}  // namespace

extern "C" {

// ---- called by dram_model.sv ----
void echo_dram_init(unsigned int bus_bytes, unsigned long long weight_first, unsigned long long weight_end,
                    unsigned long long activation_first, unsigned long long activation_end) {
    const uint64_t limits[] = {weight_first, weight_end, activation_first, activation_end};
    dram.init(bus_bytes, limits);
}
void echo_dram_reset(void) { dram.reset(); }
unsigned int echo_dram_tick(unsigned long long cycle, unsigned int valids, unsigned long long aw_addr,
                            unsigned int aw_attr, unsigned long long ar_addr, unsigned int ar_attr,
                            const unsigned int* wdata,
                            unsigned long long wstrb, unsigned int* resp, unsigned int* rdata) {
    return dram.tick(cycle, valids, unpack(aw_addr, aw_attr), unpack(ar_addr, ar_attr),
                     reinterpret_cast<const uint8_t*>(wdata), wstrb, resp, reinterpret_cast<uint8_t*>(rdata));
}

// ---- called from Python in the same process ----
// Knob by name; 0 = no such knob. Bandwidths are bytes a cycle * 65536, chances are of 65536.
int echo_dram_set(const char* name, unsigned long long value) { return dram.set(name, value); }
// Statistic by name; 0 = no such statistic.
int echo_dram_get(const char* name, unsigned long long* value) {
    uint64_t found = 0;
    if (!dram.get(name, &found)) return 0;
    *value = found;
    return 1;
}
void echo_dram_clear_statistics(void) { dram.clear_statistics(); }
void echo_dram_add_fault(unsigned long long lo, unsigned long long hi, int on_read, int on_write, int resp,
                         long long count) {
    dram.add_fault(Fault{lo, hi, on_read != 0, on_write != 0, uint8_t(resp), count});
}
void echo_dram_clear_faults(void) { dram.clear_faults(); }

// ---- called from cases.cpp ----
// The `burst`-th burst from now on, reads and writes counted apart, answers with `resp`, a read at that beat of it.
void echo_dram_fail_burst(int write, unsigned long long burst, unsigned int beat, int resp) {
    dram.fail_burst(BurstFault{true, false, write != 0, burst, beat, uint8_t(resp), {}});
}
// Whether that burst has come; where it began, and its ID.
int echo_dram_failed_burst(unsigned long long* addr, unsigned int* id) {
    const BurstFault& fault = dram.failed_burst();
    *addr = fault.req.addr;
    *id = fault.req.id;
    return fault.hit;
}
// A channel ("aw", "w", "b", "ar", "r") stands still; 0 = no such channel.
int echo_dram_hold(const char* channel, unsigned long long cycles) { return dram.hold(channel, cycles); }
// `watch` is told of every write beat that arrives, with its address and its byte strobes.
void echo_dram_watch_writes(void (*watch)(unsigned int addr, unsigned long long strb, unsigned int bus_bytes)) {
    dram.watch_writes(watch);
}
// The index-th protocol violation as text, or null.
const char* echo_dram_violation(unsigned int index) { return dram.violation(index); }
int echo_dram_fd(void) { return dram.fd(); }
}
