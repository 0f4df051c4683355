// Rules of AXI4 that a master must keep, checked on what the memory model sees of the channels.
// Passive: nothing here changes what the model answers.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace echo {

enum class Burst : uint8_t { fixed = 0, incr = 1, wrap = 2, reserved = 3 };

// An address-channel beat: AW or AR.
struct Request {
    uint64_t addr = 0;
    uint8_t id = 0;
    uint8_t len = 0;   // beats - 1
    uint8_t size = 0;  // log2 of the bytes of a beat
    Burst burst = Burst::incr;

    uint32_t beats() const { return uint32_t{len} + 1; }
    uint32_t beat_bytes() const { return 1u << size; }

    // Address of one beat; only the first of an INCR burst may be unaligned.
    uint64_t beat_addr(uint32_t beat) const {
        const uint64_t mask = beat_bytes() - 1;
        switch (burst) {
            case Burst::fixed: return addr;
            case Burst::wrap: {
                const uint64_t span = beats() << size;
                const uint64_t base = addr & ~(span - 1);
                return base + ((addr - base + (beat << size)) & (span - 1));
            }
            default: return beat == 0 ? addr : (addr & ~mask) + (beat << size);
        }
    }

    bool operator==(const Request& other) const {
        return addr == other.addr && id == other.id && len == other.len && size == other.size &&
               burst == other.burst;
    }
};

class ProtocolChecker {
  public:
    void clear() {
        count_ = 0;
        messages_.clear();
    }
    void reset() { aw_waiting_ = ar_waiting_ = w_waiting_ = false; }
    uint64_t count() const { return count_; }
    const char* message(size_t index) const { return index < messages_.size() ? messages_[index].c_str() : nullptr; }
    bool waiting() const { return aw_waiting_ || ar_waiting_ || w_waiting_; }

    void report(uint64_t cycle, const char* format, ...) __attribute__((format(printf, 3, 4))) {
        ++count_;
        if (messages_.size() >= kKept) return;
        char text[200];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        messages_.push_back("cycle " + std::to_string(cycle) + ": " + text);
    }

    // Legality of one burst, seen when its address is accepted.
    void request(uint64_t cycle, const char* channel, const Request& r, uint32_t bus_bytes) {
        if (r.beat_bytes() > bus_bytes)
            report(cycle, "%s size %u bytes is wider than the bus (%u)", channel, r.beat_bytes(), bus_bytes);
        if (r.burst == Burst::reserved) report(cycle, "%s burst type 3 is reserved", channel);
        if (r.burst == Burst::fixed && r.beats() > 16)
            report(cycle, "%s FIXED burst of %u beats (at most 16)", channel, r.beats());
        if (r.burst == Burst::wrap) {
            const uint32_t n = r.beats();
            if (n != 2 && n != 4 && n != 8 && n != 16)
                report(cycle, "%s WRAP burst of %u beats (2, 4, 8 or 16)", channel, n);
            if (r.addr & (r.beat_bytes() - 1)) 
                report(cycle, "%s WRAP burst at unaligned 0x%08llx", channel, (unsigned long long)r.addr);
        }
        if (r.burst == Burst::incr) {
            const uint64_t last = r.beat_addr(r.len) | (r.beat_bytes() - 1);
            if ((r.addr >> 12) != (last >> 12))
                report(cycle, "%s burst 0x%08llx + %u beats of %u crosses a 4 KiB boundary", channel,
                       (unsigned long long)r.addr, r.beats(), r.beat_bytes());
        }
    }

    // A valid that waits for ready must stay, with the same payload.
    void stable_aw(uint64_t cycle, bool valid, bool ready, const Request& r) {
        stable_address(cycle, "AW", valid, ready, r, aw_waiting_, aw_);
    }
    void stable_ar(uint64_t cycle, bool valid, bool ready, const Request& r) {
        stable_address(cycle, "AR", valid, ready, r, ar_waiting_, ar_);
    }
    void stable_w(uint64_t cycle, bool valid, bool ready, const uint8_t* data, uint64_t strb, bool last,
                  uint32_t bus_bytes) {
        if (w_waiting_) {
            if (!valid) {
                report(cycle, "W: wvalid fell before wready");
            } else if (strb != strb_ || last != last_) {
                report(cycle, "W: wstrb or wlast changed while waiting for wready");
            } else {
                for (uint32_t lane = 0; lane < bus_bytes; ++lane) {
                    if ((strb >> lane & 1) && data[lane] != data_[lane]) {
                        report(cycle, "W: wdata byte %u changed while waiting for wready", lane);
                        break;
                    }
                }
            }
        }
        w_waiting_ = valid && !ready;
        if (w_waiting_) {
            strb_ = strb;
            last_ = last;
            memcpy(data_, data, bus_bytes);
        }
    }

  private:
    static constexpr size_t kKept = 32;

    void stable_address(uint64_t cycle, const char* channel, bool valid, bool ready, const Request& r, bool& waiting,
                        Request& held) {
        if (waiting) {
            if (!valid)
                report(cycle, "%s: valid fell before ready", channel);
            else if (!(r == held))
                report(cycle, "%s: the request changed while waiting for ready", channel);
        }
        waiting = valid && !ready;
        held = r;
    }

    uint64_t count_ = 0;
    std::vector<std::string> messages_;
    bool aw_waiting_ = false, ar_waiting_ = false, w_waiting_ = false, last_ = false;
    Request aw_, ar_;
    uint64_t strb_ = 0;
    uint8_t data_[64] = {};
};

}  // namespace echo
