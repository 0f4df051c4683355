// A host on s_axi that obeys AXI4 but is otherwise hostile: random bursts, addresses long before their data, data
// before its address, pauses on every channel, accesses outside of memory. From some clock on it may withhold write
// data, or take no responses or no read data.
//
// The ports of npu_tb show what the device drove before the clock's edge: call `drive` before an edge, `sample` after
// it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

namespace echo {

template <typename Top>
class HostileHost {
  public:
    // What the host withholds: a set of these.
    enum Withheld : uint32_t { kWriteData = 1, kResponses = 2, kReadData = 4 };

    // Where it writes and where it reads. Nothing else uses this memory.
    static constexpr uint32_t kArea = 0x4000, kWrites = 0x03000000, kReads = kWrites + kArea;

    void start(Top& top, uint8_t* memory, uint32_t seed, uint32_t withheld) {
        stop(top);
        rng_.seed(seed);
        memory_ = memory;
        for (uint32_t i = 0; i < 2 * kArea; ++i) memory[kWrites + i] = uint8_t(rng_());
        written_.assign(memory + kWrites, memory + kReads);
        for (auto* chance : {&address_chance_, &data_chance_, &response_chance_, &read_chance_})
            *chance = 1u << (4 + rng_() % 5);  // of 256
        constexpr uint32_t kNever = ~0u;
        data_left_ = withheld & kWriteData ? rng_() % 300 : kNever;
        responses_left_ = withheld & kResponses ? rng_() % 8 : kNever;
        reads_left_ = withheld & kReadData ? rng_() % 300 : kNever;
        active_ = asks_ = true;
        wrong_ = 0;
    }

    // Withholds nothing any more, and starts no new bursts.
    void release() {
        asks_ = false;
        data_left_ = responses_left_ = reads_left_ = ~0u;
    }

    // Stops driving, in reset or at the end.
    void stop(Top& top) {
        active_ = false;
        beats_.clear();
        for (auto& each : write_answers_) each.clear();
        for (auto& each : reads_) each.clear();
        outstanding_ = 0;
        top.s_axi_awvalid = top.s_axi_wvalid = top.s_axi_arvalid = top.s_axi_bready = top.s_axi_rready = 0;
    }

    bool active() const { return active_; }
    bool idle() const { return outstanding_ == 0; }

    // The number of wrong answers and of wrong bytes in memory.
    uint32_t wrong() const {
        uint32_t differ = 0;
        for (uint32_t i = 0; i < kArea; ++i) differ += memory_[kWrites + i] != written_[i];
        return wrong_ + differ;
    }

    void drive(Top& top) {
        if (!top.s_axi_awvalid && asks_ && chance(address_chance_)) write_address(top);
        if (!top.s_axi_arvalid && asks_ && chance(address_chance_)) read_address(top);
        if (!top.s_axi_wvalid && !beats_.empty() && data_left_ && chance(data_chance_)) {
            const Beat& beat = beats_.front();
            std::memcpy(&top.s_axi_wdata, beat.data, kBus);
            top.s_axi_wstrb = decltype(top.s_axi_wstrb)(beat.strobes);
            top.s_axi_wlast = beat.last;
            top.s_axi_wvalid = 1;
        }
        top.s_axi_bready = responses_left_ && chance(response_chance_);
        top.s_axi_rready = reads_left_ && chance(read_chance_);
    }

    void sample(Top& top) {
        if (top.s_axi_awvalid && top.s_axi_awready) top.s_axi_awvalid = 0;
        if (top.s_axi_arvalid && top.s_axi_arready) top.s_axi_arvalid = 0;
        if (top.s_axi_wvalid && top.s_axi_wready) {
            top.s_axi_wvalid = 0;
            beats_.pop_front();
            --data_left_;
        }
        if (top.s_axi_bvalid && top.s_axi_bready) {
            auto& expected = write_answers_[top.s_axi_bid];
            if (expected.empty() || expected.front().resp != top.s_axi_bresp) ++wrong_;
            if (!expected.empty()) expected.pop_front(), --outstanding_;
            --responses_left_;
        }
        if (top.s_axi_rvalid && top.s_axi_rready) {
            auto& expected = reads_[top.s_axi_rid];
            if (expected.empty()) {
                ++wrong_;
            } else {
                wrong_ += !is_right(top, expected.front());
                if (++expected.front().beat == expected.front().beats) expected.pop_front(), --outstanding_;
            }
            --reads_left_;
        }
    }

  private:
    static constexpr uint32_t kBus = sizeof(Top::s_axi_wdata), kOkay = 0, kDecErr = 3, kIncr = 1;

    struct Beat {
        uint8_t data[kBus];
        uint64_t strobes;
        bool last;
    };
    struct Burst {
        uint32_t addr, size, beats, beat;
        bool refused;
        uint32_t lowest(uint32_t number) const { return number ? (addr & -(1u << size)) + (number << size) : addr; }
        uint32_t end(uint32_t number) const { return (addr & -(1u << size)) + ((number + 1) << size); }
    };

    // A write without a response: what the response must be, and the bytes from `first` to before `end`.
    struct Write {
        uint32_t resp, first, end;
    };

    uint32_t random(uint32_t below) { return uint32_t(rng_() % below); }
    bool chance(uint32_t of256) { return random(256) < of256; }

    // A random burst within a page of `area`, or within one that is not memory.
    Burst draw(uint32_t area) {
        Burst burst{};
        uint32_t full = 0;
        while (2u << full <= kBus) ++full;
        burst.size = random(3) ? full : random(full + 1);
        burst.beats = random(4) ? 1 + random(16) : 1 + random(256);
        burst.beats = std::min(burst.beats, 4096u >> burst.size);
        const uint32_t room = 4096 - (burst.beats << burst.size);
        burst.refused = random(10) == 0;
        const uint32_t page = burst.refused ? uint32_t(kMemoryBytes) + (random(2) << 29) : area + 4096 * random(kArea / 4096);
        burst.addr = page + (random(room + 1) & -(1u << burst.size)) + (random(2) ? 0 : random(1u << burst.size));
        return burst;
    }

    void write_address(Top& top) {
        const Burst burst = draw(kWrites);
        const uint32_t id = random(16);
        const Write write{burst.refused ? kDecErr : kOkay, burst.addr, burst.end(burst.beats - 1)};
        if (overlaps(write, id)) return;
        top.s_axi_awid = id;
        top.s_axi_awaddr = burst.addr;
        top.s_axi_awlen = burst.beats - 1;
        top.s_axi_awsize = burst.size;
        top.s_axi_awburst = kIncr;
        top.s_axi_awprot = random(8);
        top.s_axi_awlock = top.s_axi_awqos = 0;
        top.s_axi_awcache = 3;
        top.s_axi_awvalid = 1;
        write_answers_[id].push_back(write);
        ++outstanding_;
        for (uint32_t i = 0; i < burst.beats; ++i) {
            Beat beat{};
            for (auto& byte : beat.data) byte = uint8_t(rng_());
            for (uint32_t at = burst.lowest(i); at < burst.end(i); ++at) {
                if (chance(20)) continue;
                beat.strobes |= uint64_t{1} << (at % kBus);
                if (!burst.refused) written_[at - kWrites] = beat.data[at % kBus];
            }
            beat.last = i + 1 == burst.beats;
            beats_.push_back(beat);
        }
    }

    // AXI4 keeps the order of writes of one ID only, so those of different IDs under way have no byte in common.
    bool overlaps(const Write& write, uint32_t id) const {
        for (uint32_t other = 0; other < 16; ++other)
            for (const Write& each : write_answers_[other])
                if (other != id && write.first < each.end && each.first < write.end) return true;
        return false;
    }

    void read_address(Top& top) {
        const Burst burst = draw(kReads);
        top.s_axi_arid = random(16);
        top.s_axi_araddr = burst.addr;
        top.s_axi_arlen = burst.beats - 1;
        top.s_axi_arsize = burst.size;
        top.s_axi_arburst = kIncr;
        top.s_axi_arprot = random(8);
        top.s_axi_arlock = top.s_axi_arqos = 0;
        top.s_axi_arcache = 3;
        top.s_axi_arvalid = 1;
        reads_[top.s_axi_arid].push_back(burst);
        ++outstanding_;
    }

    bool is_right(const Top& top, const Burst& burst) const {
        if (top.s_axi_rlast != (burst.beat + 1 == burst.beats)) return false;
        if (top.s_axi_rresp != (burst.refused ? kDecErr : kOkay)) return false;
        uint8_t data[kBus];
        std::memcpy(data, &top.s_axi_rdata, kBus);
        for (uint32_t at = burst.lowest(burst.beat); at < burst.end(burst.beat); ++at)
            if (data[at % kBus] != (burst.refused ? 0 : memory_[at])) return false;
        return true;
    }

    std::mt19937 rng_;
    uint8_t* memory_ = nullptr;
    bool active_ = false, asks_ = false;
    uint32_t address_chance_ = 0, data_chance_ = 0, response_chance_ = 0, read_chance_ = 0;
    uint32_t data_left_ = 0, responses_left_ = 0, reads_left_ = 0;  // beats and responses until it withholds them
    std::deque<Beat> beats_;
    std::deque<Write> write_answers_[16];  // by ID
    std::deque<Burst> reads_[16];
    std::vector<uint8_t> written_;  // what kWrites must hold when all is answered
    uint32_t outstanding_ = 0, wrong_ = 0;
};

}  // namespace echo
