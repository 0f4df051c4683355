// The surroundings of command_processor, and what it must make of them (docs/packets.md, docs/architecture.md).
//
// cp_drive chooses the inputs of a clock: a host that submits through window and ring, makes mistakes, resets and clears
// errors; a memory that holds the ring; engines that end, fail and fault whenever they like, often in one clock with
// something else. cp_check follows with a model that has no idea of phases: packets in the order in which they are
// taken, commands under way, what is done and what has failed. It judges order, hazards, retirement, errors, interrupts
// and state in every clock, and counts which two events met in one clock, or up to two apart: each pair has to, in the end.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "contract.hpp"
#include "svdpi.h"

namespace {

constexpr uint32_t kDepth = 16, kPages = 6, kPage = 0x1000, kBase = 0x100000, kRing = 0x200000, kBeatWords = 8,
                   kBeats = 2;
constexpr int kPatience = 3000;  // clocks without any progress

uint64_t random_state;
uint32_t draw(uint32_t below) {  // xorshift64*
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return uint32_t((random_state * 0x2545F4914F6CDD1Dull >> 32) % below);
}
bool chance(uint32_t percent) { return draw(100) < percent; }

// ---- what can happen in a clock ----
enum Event { eDoorbell, eRefusedDoorbell, ePop, eTail, eBadTail, eHead, eMatrixDone, eVectorDone, eMatrixError,
             eNextError, eVectorError, eVectorFault, eFetchError, eReset, eClear, eRetire, eMatrixStart, eVectorStart,
             eRefuse, eIdle, kEvents };
const char* const kNames[] = {"doorbell", "refused doorbell", "packet from window", "tail", "bad tail",
                              "packet from ring", "matrix done", "vector done", "matrix error", "error of the next one",
                              "vector error", "vector fault", "fetch error", "soft reset", "clear", "retirement",
                              "matrix start", "vector start", "bad packet", "memory idle"};
constexpr int kApart = 2;
std::array<uint32_t, kApart + 1> history;  // events of the last clocks, the newest first
uint32_t events;                           // of this clock; which packet was taken shows one clock later
std::deque<std::string> story;             // of the last clocks, for the reader of a complaint
uint64_t met[kApart + 1][kEvents][kEvents];    // [clocks later][earlier][later]

// ---- commands ----
struct Command {
    uint32_t words[16] = {};
    bool matrix = false, vector = false, fence = false, extended = false, irq = false;
    uint32_t bad = 0, bad_addr = 0;            // the error for which it is refused
    std::vector<std::pair<uint32_t, uint32_t>> reads;
    std::pair<uint32_t, uint32_t> writes{1, 0}, right{1, 0};
    // its life
    bool whole = false, from_ring = false, started = false, done = false, odd = false;
    std::vector<std::shared_ptr<Command>> waits;  // for these to be done, all but its right operand
    uint32_t error = 0, error_addr = 0, number = 0, head = 0;
};
using Pointer = std::shared_ptr<Command>;
struct Slot {
    Pointer command;
    bool extension = false;
};

bool meet(std::pair<uint32_t, uint32_t> a, std::pair<uint32_t, uint32_t> b) {
    return a.first <= a.second && b.first <= b.second && a.first <= b.second && b.first <= a.second;
}
bool conflict(const Command& a, const Command& b) {
    bool found = meet(a.writes, b.writes);
    for (const auto& each : a.reads) found |= meet(each, b.writes);
    for (const auto& each : b.reads) found |= meet(each, a.writes);
    return found;
}

bool held(const Command& command) {
    for (const auto& each : command.waits)
        if (!each->done) return true;
    return false;
}

uint32_t drawn;
Pointer draw_command() {
    auto c = std::make_shared<Command>();
    uint32_t* w = c->words;
    const uint32_t kind = draw(20), id = drawn++ % 256;
    const uint32_t dst = draw(kPages);
    const uint32_t to = (chance(5) ? kRing : kBase + dst * kPage) + 4 * id;  // some write the ring
    uint32_t from[2];
    for (uint32_t& each : from) each = kBase + (dst + 1 + draw(kPages - 1)) % kPages * kPage + 4 * draw(256);
    c->irq = chance(30);
    w[1] = uint32_t(c->irq) << echo::kFlagIrq;
    if (kind < 3) {
        w[0] = kind ? echo::kOpcodeNop : echo::kOpcodeSync;
        c->fence = true;
    } else if (kind < 11) {
        // The engine takes a product with one column turned, so the first operand is its right one.
        const uint32_t k = 1 + draw(256), m = 1 + draw(2);
        c->matrix = true;
        w[0] = echo::kOpcodeMatmul, w[2] = from[0], w[4] = from[1], w[6] = to, w[8] = m, w[10] = k, w[12] = 1;
        c->reads = {{from[0], from[0] + 4 * m * k - 1}, {from[1], from[1] + 4 * k - 1}};
        c->writes = {to, to + 4 * m - 1};
        c->right = c->reads[m == 1];
    } else {
        const uint32_t bytes = 1 + draw(2048);
        c->vector = true;
        w[0] = echo::kOpcodeMemcpy, w[2] = from[0], w[6] = to, w[8] = bytes;
        c->reads = {{from[0], from[0] + bytes - 1}};
        c->writes = {to, to + bytes - 1};
        c->extended = chance(30);
        w[1] |= uint32_t(c->extended) << echo::kFlagExt;
    }
    if (chance(2)) {
        switch (draw(4)) {
            case 0: c->bad = echo::kErrBadOpcode, w[0] = 0x55, w[1] &= ~(1u << echo::kFlagExt); break;
            case 1:
                if (!c->fence) c->bad = echo::kErrBadDimension, w[8] = 0;
                break;
            case 2:
                if (c->matrix) c->bad = echo::kErrMisaligned, c->bad_addr = w[4] = from[1] + 1;
                break;
            default:
                if (!c->fence) c->bad = echo::kErrRegisterWindow, c->bad_addr = w[6] = echo::kRegistersBase + 4 * id;
        }
        if (c->bad == echo::kErrBadOpcode) c->extended = false;
    }
    return c;
}
void words_of(const Slot& slot, uint32_t* words) {
    memset(words, 0, 64);
    if (!slot.command) return;
    if (slot.extension) words[0] = echo::kExtensionMagic;
    else memcpy(words, slot.command->words, 64);
}

// ---- inputs of the clock, and what the model knows ----
struct Inputs {
    bool rst_n, soft_reset, clear, doorbell, tail_write, idle, fetch_error, desc_ready, data_valid, matrix_ready;
    bool fault, fault_index;
    uint32_t tail, errors, error_writes, error_addr[3], fetch_error_addr, done, fault_addr;
    Slot packet;
    uint32_t beat[kBeatWords];
};
Inputs in;
uint64_t clock_no, clocks, most_clocks;
int quiet;
std::string complaint;
void demand(bool holds, const char* what) {
    if (!holds && complaint.empty()) complaint = what;
}

enum Mode { mRun, mFail, mError, mReset } mode;
std::deque<Slot> window;
std::vector<Slot> ring(256);
uint32_t size = 8, head, tail, retired, taken, level_before;
bool was_running = true;
bool submitted, cleared;
uint32_t submit_error;
uint32_t watchdog, age;      // clocks that the oldest command may take, and has taken
bool was_oldest, retired_before;
uint64_t ring_done;          // when the last command that writes the ring was done
uint64_t fetched[256];       // when each slot of the ring was asked for
bool fetch_failed;
uint32_t fetch_failed_addr;
std::deque<Pointer> pending;  // taken, and neither retired nor given up
uint32_t expected_code, expected_index, expected_addr;
enum Reason { rNone, rPacket, rSubmission, rFetch } reason;  // why nothing more is taken
uint32_t state_before;
bool abort_seen, error_seen;  // outputs in the clock before

// engines
struct Work {
    Pointer command;
    int left;
};
std::deque<Work> matrix_work;
bool odd;  // the next command of the matrix engine is
std::deque<Work> vector_work;
int idle_in;
// ring fetches
struct Beat {
    uint32_t slot, part;
    bool fails;
};
std::deque<Beat> beats;
int beat_in;
// host
std::deque<Slot> to_window;  // the rest of a command
uint32_t written;            // slots of the ring beyond the tail that hold packets
uint32_t window_rate = 10, ring_rate = 10, rates_for;  // percent of the clocks; they change now and then
int reset_clocks = 3;

void forget_host() {
    to_window.clear();
    written = 0;
}

void forget_all() {
    window.clear();
    pending.clear();
    submit_error = 0;
    fetch_failed = false;
    submitted = false;
    reason = rNone;
    forget_host();
}

uint32_t latency() { return chance(60) ? 1 + draw(6) : 1 + draw(60); }

// ---- inputs ----
void drive_host() {
    if (rates_for-- == 0) {
        static const uint32_t rates[][2] = {{40, 0}, {0, 40}, {5, 30}, {40, 10}, {10, 10}, {3, 3}};
        const uint32_t kind = draw(6);
        window_rate = rates[kind][0], ring_rate = rates[kind][1], rates_for = draw(600);
    }
    // Rare events also meet other rare events.
    if (mode == mRun && in.errors && chance(2)) {
        in.soft_reset = true;
        return;
    }
    const uint32_t what = draw(100);
    if (mode == mError && chance(25)) {
        in.clear = true;
        in.soft_reset = chance(10);
        return;
    }
    if (what == 0 && chance(40)) {
        in.soft_reset = true;
        in.clear = chance(10);
        return;
    }
    if (mode == mFail || mode == mError) {
        in.tail_write = chance(10);
        in.tail = draw(size + 1);
        return;
    }
    if (what == 1 && chance(30)) {
        in.tail_write = true;  // beyond the ring, or among the slots that wait
        const uint32_t waiting = (tail + size - head) % size;
        in.tail = (waiting > 2 && chance(50)) ? (head + 2 + draw(waiting - 2)) % size : size + draw(3);
        return;
    }
    if (what < 2 + window_rate || (in.fetch_error && level_before == kDepth)) {
        if (to_window.empty()) {
            const Pointer command = draw_command();
            to_window.push_back({command, false});
            if (command->extended) to_window.push_back({command, true});
        }
        // A command of two packets waits for room for both; a full queue is met by single ones.
        const bool room = level_before + to_window.size() < kDepth;
        if (room || (to_window.size() == 1 && !to_window.front().extension && (in.fetch_error || chance(15)))) {
            in.doorbell = true;
            in.packet = to_window.front();
            to_window.pop_front();
        }
        return;
    }
    if (what < 2 + window_rate + ring_rate) {
        uint32_t room = (head + 2 * size - tail - 1 - written) % size;
        const Pointer command = draw_command();
        if (room >= 1u + command->extended && mode == mRun) {
            for (uint32_t i = 0; i <= uint32_t(command->extended); ++i) {
                ring[(tail + written) % size] = {command, i == 1};
                ++written;
            }
        }
        if (written && chance(60)) {
            in.tail_write = true;
            in.tail = (tail + written) % size;
        }
    }
}

void drive_engines() {
    if (abort_seen) {
        matrix_work.clear();
        vector_work.clear();
        beats.clear();
        in.idle = idle_in <= 0;
        --idle_in;
        return;
    }
    idle_in = int(draw(6)) - 1;
    in.idle = matrix_work.empty() && vector_work.empty();
    in.matrix_ready = matrix_work.size() < 2 && chance(95);
    in.desc_ready = chance(80);
    bool ends = false;
    if (!matrix_work.empty() && !held(*matrix_work.front().command) && --matrix_work.front().left <= 0)
        in.done |= 1, ends = true;
    // Ends often meet in one clock.
    if (!vector_work.empty() && (--vector_work.front().left <= 0 || (ends && chance(40)))) in.done |= 2, ends = true;
    if (!matrix_work.empty() && !held(*matrix_work.front().command) && (in.done & 2) && chance(40)) in.done |= 1;
    const uint32_t often = ends ? 8 : 1;
    auto fails = [&](uint32_t owner) {
        if (!chance(often) || !chance(25)) return;
        in.errors |= 1u << owner;
        if (chance(40)) in.error_writes |= 1u << owner;
        in.error_addr[owner] = draw(1 << 28);
    };
    if (!matrix_work.empty()) fails(0);
    if (!vector_work.empty()) fails(1);
    if (matrix_work.size() > 1) fails(2), fails(2);
    if (!vector_work.empty() && ((chance(often) && chance(25)) || (in.errors && chance(20)))) {
        in.fault = true;
        in.fault_index = chance(50);
        in.fault_addr = draw(1 << 28);
        in.done &= ~2u;  // it ends with its fault
    }
    // Two errors, of different commands, in one clock.
    if (in.errors && chance(40)) {
        if (!matrix_work.empty()) in.errors |= 1, in.error_addr[0] = draw(1 << 28);
        if (!vector_work.empty()) in.errors |= 2, in.error_addr[1] = draw(1 << 28);
        if (matrix_work.size() > 1 && chance(50)) in.errors |= 4, in.error_addr[2] = draw(1 << 28);
    }
    if (!beats.empty() && --beat_in <= 0) {
        Beat& beat = beats.front();
        if (beat.part == 0 && (in.errors || in.fault) && chance(50)) beat.fails = true;
        uint32_t words[16];
        words_of(ring[beat.slot], words);
        in.data_valid = true;
        memcpy(in.beat, words + beat.part * kBeatWords, sizeof in.beat);
        if (beat.fails) in.fetch_error = true, in.fetch_error_addr = kBase + 64 * beat.slot;
        beat_in = chance(80) ? 1 : int(draw(10));
    }
}

// ---- the model ----
void take(const Slot& slot, bool from_ring) {
    quiet = 0;
    if (!slot.command) {
        demand(false, "a packet was taken that nobody submitted");
        return;
    }
    Command& command = *slot.command;
    if (from_ring) {
        const std::pair<uint32_t, uint32_t> all{kRing, kRing + 64 * size - 1};
        for (const Pointer& each : pending)
            demand(!each->started || each->done || !meet(each->writes, all), "a packet was taken that may be overwritten");
        demand(fetched[(head + size - 1) % size] > ring_done, "a packet was taken that was overwritten since");
    }
    if (slot.extension) {
        demand(!pending.empty() && pending.back() == slot.command && !command.whole, "an extension of another command");
        command.whole = true;
        return;
    }
    demand(pending.empty() || pending.back()->whole, "a command was taken before the last one was complete");
    demand(!from_ring || level_before == 0, "the ring was served before the window");
    command.whole = !command.extended;
    command.from_ring = from_ring;
    command.number = taken++;
    pending.push_back(slot.command);
}

// The device has begun to stop: why, and what counts as not taken.
void fails() {
    mode = mFail;
    quiet = 0;
    if (reason == rSubmission && !pending.empty() && !pending.back()->whole) pending.pop_back();  // it is dropped
    if (!pending.empty()) {
        Command& front = *pending.front();
        expected_index = front.number;
        if (front.started && front.error) {
            expected_code = front.error, expected_addr = front.error_addr;
            head = front.head;
            taken = front.number + 1;
        } else if (front.bad && front.whole && !front.started) {
            demand(pending.size() == 1, "a packet was taken behind a bad one");
            expected_code = front.bad, expected_addr = front.bad_addr;
        } else if (!front.whole && front.from_ring && fetch_failed) {
            expected_code = echo::kErrReadResponse, expected_addr = fetch_failed_addr;
        } else {
            demand(false, "the device stopped without a reason");
        }
        return;
    }
    expected_index = taken;
    expected_addr = 0;
    if (reason == rSubmission) {
        expected_code = submit_error;
    } else if (reason == rFetch && fetch_failed) {
        expected_code = echo::kErrReadResponse, expected_addr = fetch_failed_addr;
    } else {
        demand(false, "the device stopped without a reason");
    }
}

void starts(bool matrix, uint32_t dst) {
    quiet = 0;
    Pointer found;
    uint32_t under_way = 0;
    for (const Pointer& each : pending) {
        if (each->started) {
            ++under_way;
            continue;
        }
        found = each;
        break;
    }
    if (!found || found->fence || found->bad || !found->whole || found->matrix != matrix || found->words[6] != dst) {
        demand(false, "another command started than the next one");
        return;
    }
    demand(under_way < 3, "more commands are under way than there can be");
    demand(matrix ? in.matrix_ready : vector_work.empty(), "a command started on an engine that cannot take it");
    for (const Pointer& each : pending) {
        if (each == found) break;
        if (each->done || !conflict(*each, *found)) continue;
        demand(matrix && !meet(each->writes, found->right), "a command started that must wait for one under way");
        found->waits.push_back(each);
    }
    if (matrix) found->odd = odd, odd = !odd;
    found->started = true;
    found->head = head;
    (matrix ? matrix_work : vector_work).push_back({found, int(latency())});
}

void ends() {
    // Errors belong to the oldest command of an engine, or to the next one of the matrix engine.
    auto fail = [](std::deque<Work>& work, size_t at, uint32_t owner) {
        if (!(in.errors >> owner & 1) || work.size() <= at) return;
        Command& command = *work[at].command;
        if (command.error) return;
        command.error = (in.error_writes >> owner & 1) ? echo::kErrWriteResponse : echo::kErrReadResponse;
        command.error_addr = in.error_addr[owner];
    };
    fail(matrix_work, 0, 0);
    fail(matrix_work, 1, 2);
    fail(vector_work, 0, 1);
    if (in.fault && !vector_work.empty() && !vector_work.front().command->error) {
        vector_work.front().command->error = in.fault_index ? echo::kErrBadIndex : echo::kErrBadProgram;
        vector_work.front().command->error_addr = in.fault_addr;
    }
    if (in.fault && !vector_work.empty()) vector_work.front().left = 1 << 30;  // it waits until it is stopped
    for (auto* work : {&matrix_work, &vector_work}) {
        if (!(in.done >> (work == &vector_work) & 1)) continue;
        Command& command = *work->front().command;
        command.done = true;
        if (meet(command.writes, {kRing, kRing + 64 * size - 1})) ring_done = clock_no;
        work->pop_front();
    }
    if (was_oldest && watchdog && age >= watchdog && !pending.front()->done && !pending.front()->error)
        pending.front()->error = echo::kErrTimeout;
}

bool retires(bool vector_retire, bool irq) {
    quiet = 0;
    if (pending.empty()) {
        demand(false, "a command retired that there is none of");
        return false;
    }
    const Command& front = *pending.front();
    demand(front.fence ? !front.bad : front.started && front.done && !front.error, "a command retired that is not over");
    demand(vector_retire == front.vector, "vector_retire_o");
    demand(irq == front.irq, "irq_command_o");
    pending.pop_front();
    ++retired;
    return true;
}

void count() {
    for (int i = int(history.size()) - 1; i > 0; --i) history[i] = history[i - 1];
    history[0] = events;
    for (int apart = 0; apart <= kApart; ++apart)
        for (int a = 0; a < kEvents; ++a)
            for (int b = 0; b < kEvents; ++b)
                if (history[apart] >> a & 1 && events >> b & 1) ++met[apart][a][b];
    events = 0;
}

// Pairs that never met and could: in one clock, and one or two clocks apart either way round.
int missing(bool say) {
    // One port writes registers; the device takes one packet a clock, looks at one at a time, and stops for an error.
    const std::set<int> host = {eDoorbell, eRefusedDoorbell, eTail, eBadTail, eReset};
    const std::set<int> inside = {ePop, eHead, eRetire, eMatrixStart, eVectorStart, eRefuse, eFetchError};
    const std::set<int> engines = {eMatrixDone, eVectorDone, eMatrixError, eNextError, eVectorError, eVectorFault};
    // A reset keeps packets and commands back; one command is on the vector engine, and ends with its fault; what has
    // room for a packet refuses none.
    const std::set<std::pair<int, int>> never = {
        {eReset, ePop}, {eReset, eHead}, {eReset, eMatrixStart}, {eReset, eRefuse}, {eVectorDone, eVectorStart},
        {eVectorError, eVectorStart}, {eVectorFault, eVectorStart}, {eVectorDone, eVectorFault},
        {eNextError, eMatrixStart}, {eRefusedDoorbell, eHead}};
    int found = 0;
    for (int a = 0; a < kEvents; ++a) {
        for (int b = 0; b < kEvents; ++b) {
            const bool wanted = (host.count(a) && (engines.count(b) || inside.count(b)))
                                || (engines.count(a) && (inside.count(b) || (engines.count(b) && a < b)));
            if (!wanted) continue;
            if (!never.count({a, b}) && met[0][a][b] == 0)
                ++found, say && printf("never in one clock: %s, %s\n", kNames[a], kNames[b]);
            if (host.count(a) && b != eHead && met[1][b][a] + met[2][b][a] == 0)
                ++found, say && printf("never one behind the other: %s, %s\n", kNames[b], kNames[a]);
        }
    }
    return found;
}

}  // namespace

extern "C" void cp_drive(svBitVecVal* inputs, svBitVecVal* packet, svBitVecVal* beat) {
    if (clocks == 0) {
        const char* seed = getenv("COMMAND_PROCESSOR_SEED");
        const char* length = getenv("COMMAND_PROCESSOR_CLOCKS");
        random_state = 0x9E3779B97F4A7C15ull ^ (seed ? strtoull(seed, nullptr, 10) : 1) << 8;
        clocks = length ? strtoull(length, nullptr, 10) : 1000000;
        most_clocks = 10 * clocks;
    }
    // More clocks if a rare pair of events has yet to meet.
    if (clock_no >= clocks && clocks < most_clocks && missing(false)) clocks += 500000;
    in = Inputs{};
    in.rst_n = reset_clocks == 0;
    in.idle = true;
    if (in.rst_n) {
        drive_engines();
        drive_host();
    }
    uint32_t words[16];
    words_of(in.packet, words);
    memcpy(packet, words, 64);
    memcpy(beat, in.beat, sizeof in.beat);
    memset(inputs, 0, 32 * 4);
    const bool flags[] = {in.rst_n, in.soft_reset, in.clear, in.doorbell, true, in.tail_write, in.idle, in.fetch_error,
                          in.desc_ready, in.data_valid, in.matrix_ready, in.fault, in.fault_index, clock_no >= clocks};
    for (uint32_t i = 0; i < sizeof flags; ++i) inputs[0] |= uint32_t(flags[i]) << i;
    inputs[1] = kRing, inputs[2] = size, inputs[3] = in.tail;
    inputs[4] = in.errors, inputs[5] = in.error_writes, inputs[6] = in.fetch_error_addr, inputs[7] = in.done;
    inputs[8] = in.fault_addr, inputs[9] = watchdog;
    for (int i = 0; i < 3; ++i) inputs[12 + i] = in.error_addr[i];
    if (clock_no >= clocks) {
        const int never = missing(true);
        printf("%llu clocks, %u packets; %d pairs of events never met\n", (unsigned long long)clock_no, drawn, never);
        fflush(stdout);
        if (never) exit(1);
    }
}

extern "C" int cp_check(const svBitVecVal* pulses_in, const svBitVecVal* levels_in, int retired_in, int index_in,
                        long long address_in, int matrix_dst, int vector_dst, int desc_addr, int desc_bytes) {
    const uint32_t pulses = *pulses_in, levels = *levels_in;
    auto pulse = [&](int bit) { return (pulses >> bit & 1) != 0; };
    const bool matrix_start = pulse(1), vector_start = pulse(2), full = pulse(3), abort = pulse(4), reset_done = pulse(5);
    const bool irq_done = pulse(6), irq_error = pulse(7), irq_command = pulse(8), retire = pulse(9);
    const bool vector_retire = pulse(10), desc_valid = pulse(11), refuses = pulse(13), tail_set = pulse(14);
    demand(!tail_set || (levels >> 26) == (tail & 63), "ring_tail_o");
    const uint32_t state = levels & 3, head_now = levels >> 2 & 255, level = levels >> 10 & 255, code = levels >> 18 & 255;
    ++clock_no;
    if (reset_clocks) {
        --reset_clocks;
        state_before = echo::kStateIdle;
        return 0;
    }
    auto happens = [&](Event event, bool does = true) { events |= uint32_t(does) << event; };

    // Effects of the clock before.
    if (mode == mRun && abort) fails();
    if (mode == mFail && !abort) {
        mode = mError;
        demand(state == echo::kStateError, "no state ERROR after a failure");
    }
    if (mode == mRun || cleared) {
        if (cleared) {
            demand(level == 0, "packets are left in the window");
            demand(head_now == tail, "the head is not at the tail after an error");
            head = head_now;
            cleared = false;
        } else {
            const uint32_t held = uint32_t(window.size());
            demand(level == held || level + 1 == held, "queue_level_o");
            if (level + 1 == held) {
                const Slot slot = window.front();
                window.pop_front();
                take(slot, false);
                happens(ePop);
            }
        }
    }
    if (mode == mRun && head_now != head) {
        demand(head != tail && head_now == (head + 1) % size, "ring_head_o");
        const Slot slot = ring[head];
        head = head_now;
        take(slot, true);
        happens(eHead);
    }
    demand(was_running || level <= level_before, "a packet entered the window while the device stopped");
    if (mode == mFail || mode == mError) demand(head_now == head, "ring_head_o after an error");
    demand(uint32_t(retired_in) == retired || mode == mReset, "retired_o");
    if (mode == mRun) {
        const bool busy = !pending.empty() || !window.empty() || head != tail || submit_error;
        demand(state == (busy ? echo::kStateBusy : submitted ? echo::kStateDone : echo::kStateIdle), "state_o");
        demand(full == (level == kDepth), "queue_full_o");
    } else {
        demand(state == (mode == mError ? echo::kStateError : echo::kStateBusy), "state_o while it stops");
    }
    demand(irq_done == (state == echo::kStateDone && state_before == echo::kStateBusy), "irq_done_o");
    demand(irq_error == (state == echo::kStateError && state_before != echo::kStateError), "irq_error_o");
    if (mode == mError) {
        demand(code == expected_code, "error_code_o");
        demand(uint32_t(index_in) == expected_index, "error_index_o");
        demand(uint64_t(address_in) == expected_addr, "error_addr_o");
    }
    demand(abort == (mode == mFail || mode == mReset), "abort_o");
    const bool running = mode == mRun;
    if (running) {
        uint32_t expected = 0;
        for (const Work& each : matrix_work) expected |= uint32_t(held(*each.command)) << each.command->odd;
        demand((pulses >> 15 & 3) == expected, "matrix_held_o");
    } else {
        odd = false;
    }
    count();  // the clock before

    // Events of this clock.
    level_before = level;
    if (vector_start) starts(false, uint32_t(vector_dst)), happens(eVectorStart);
    age = (was_oldest && !retired_before) ? age + 1 : 0;
    was_oldest = running && !pending.empty() && pending.front()->started;
    if (running) {
        happens(eMatrixDone, in.done & 1);
        happens(eVectorDone, in.done & 2);
        happens(eMatrixError, in.errors & 1);
        happens(eVectorError, in.errors & 2);
        happens(eNextError, in.errors & 4);
        happens(eVectorFault, in.fault);
        happens(eFetchError, in.fetch_error);
        happens(eRefuse, refuses);
        if (refuses && reason == rNone) {
            const bool looks = !pending.empty() && !pending.back()->started;
            // A doorbell that is refused ends the wait for an extension, but not one that could not be read.
            const bool waits = looks && !pending.back()->whole && !(pending.back()->from_ring && fetch_failed);
            reason = looks && !(waits && submit_error) ? rPacket : submit_error ? rSubmission : rFetch;
        }
        ends();
    } else {
        demand(!vector_start && !matrix_start && !retire && !desc_valid, "something moves while the device stops");
    }
    retired_before = retire;
    if (retire) happens(eRetire, retires(vector_retire, irq_command));
    else demand(!irq_command && !vector_retire, "an interrupt without a retirement");
    if (matrix_start) starts(true, uint32_t(matrix_dst)), happens(eMatrixStart);
    happens(eIdle, in.idle && !running);

    if (in.data_valid && !beats.empty()) {
        if (beats.front().fails && !fetch_failed) fetch_failed = true, fetch_failed_addr = in.fetch_error_addr;
        beats.pop_front();
    }
    if (desc_valid && in.desc_ready) {
        const uint32_t first = (uint32_t(desc_addr) - kRing) / 64, slots = uint32_t(desc_bytes) / 64;
        const bool inside = beats.empty() && slots > 0 && first < size && slots <= size - first;
        demand(inside, "a fetch beyond the ring");
        fetch_failed = false;  // the slot that failed is read again: it has been overwritten
        for (uint32_t i = 0; inside && i < slots; ++i) {
            const uint32_t slot = first + i;
            demand((slot + size - head) % size < (tail + size - head) % size, "a slot is fetched that is not submitted");
            fetched[slot] = clock_no;
            const bool fails = chance(1) && chance(50);
            for (uint32_t part = 0; part < kBeats; ++part) beats.push_back({slot, part, fails && part == 0});
        }
        beat_in = 1 + int(draw(12));
    }

    // The host.
    if (in.doorbell && running) {
        if (full) {
            if (!submit_error) submit_error = echo::kErrQueueFull;
            happens(eRefusedDoorbell);
        } else {
            window.push_back(in.packet);
            submitted = true;
            happens(eDoorbell);
        }
    }
    // Tails are taken while the device stops, too, and dropped when the error is cleared.
    const uint32_t waiting = (tail + size - head_now) % size;
    const bool back = waiting && (in.tail + size - head_now) % size < waiting;
    if (in.tail_write && running) {
        if (in.tail >= size || back) {
            if (!submit_error) submit_error = echo::kErrRingIndex;
            happens(eBadTail);
        } else {
            submitted |= in.tail != head_now;
            tail = in.tail;
            written = 0;
            happens(eTail);
        }
    } else if (in.tail_write && mode != mReset && in.tail < size && !back) {
        tail = in.tail;
    }
    demand(tail_set == (mode == mError && in.clear), "ring_tail_set_o");
    happens(eReset, in.soft_reset);
    happens(eClear, in.clear && mode == mError);
    if (in.soft_reset) {
        mode = mReset;
        cleared = false;
        forget_host();
    } else if (mode == mError && in.clear) {
        mode = mRun;
        cleared = true;
        forget_all();
        head = tail;
    } else if (reset_done) {
        demand(mode == mReset && in.idle, "reset_done_o");
        forget_all();
        mode = mRun;
        retired = taken = head = tail = 0;
        size = 2 + draw(chance(70) ? 9 : 200);
        watchdog = chance(70) ? 0 : 3 + draw(60);
    }
    if (mode != mRun) forget_host();
    state_before = state;
    was_running = running;
    abort_seen = mode == mFail || mode == mReset || abort;
    quiet = (state == echo::kStateBusy) ? quiet + 1 : 0;
    demand(quiet < kPatience, "nothing moves any more");
    if (events || reset_done) {
        std::string line = "clock " + std::to_string(clock_no) + ":";
        for (int i = 0; i < kEvents; ++i)
            if (events >> i & 1) line += std::string(" ") + kNames[i] + ",";
        line += " mode " + std::to_string(mode) + ", head " + std::to_string(head_now) + ", tail " + std::to_string(tail)
                + " of " + std::to_string(size) + ", pending";
        for (const Pointer& each : pending)
            line += " " + std::to_string(each->words[0]) + (each->extended ? "+" : "") + (each->bad ? "!" : "")
                    + (each->started ? "s" : "") + (each->done ? "d" : "") + (each->error ? "e" : "");
        story.push_back(line);
        if (story.size() > 30) story.pop_front();
    }
    if (complaint.empty()) return 0;
    for (const std::string& line : story) printf("%s\n", line.c_str());
    printf("clock %llu: %s (mode %d, state %u, head %u, level %u, code %u, index %d, %zu pending)\n",
           (unsigned long long)clock_no, complaint.c_str(), mode, state, head_now, level, code, index_in, pending.size());
    fflush(stdout);
    return 1;
}
