// The surroundings of command_processor, and what it must make of them (docs/packets.md, docs/architecture.md).
//
// cp_drive chooses the inputs of a clock: a host that submits through window and ring, makes mistakes, resets and clears
// errors; a memory that holds the ring; engines that end, fail and fault whenever they like, often in one clock with
// something else; a program memory that fills gaps and sweeps what an aborted load has left. cp_check follows with a model that has no idea of phases: packets in the order in which they are
// taken, commands under way, what is done and what has failed. It judges order, hazards, retirement, errors, interrupts
// and state in every clock. It counts which two events met in one clock, or up to two apart, and what else the device
// promises an order or an answer for: each pair and each situation has to occur, in the end.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "contract.hpp"
#include "svdpi.h"

#pragma GCC diagnostic error "-Wswitch"  // an opcode that draw_command does not know

namespace {

constexpr uint32_t kDepth = 16, kPages = 6, kPage = 0x1000, kBase = 0x100000, kRing = 0x200000, kBeatWords = 8,
                   kBeats = echo::kPacketWords / kBeatWords, kPacketBytes = 4 * echo::kPacketWords, kMostSlots = 65535;
// Words of a command's packet.
constexpr uint32_t kOpcode = echo::kCommandWordOpcode, kFlags = echo::kCommandWordFlags,
                   kSrc1 = echo::kCommandWordSrc1Addr, kSrc2 = echo::kCommandWordSrc2Addr,
                   kDst = echo::kCommandWordDstAddr, kM = echo::kCommandWordM, kK = echo::kCommandWordK,
                   kN = echo::kCommandWordN;
constexpr uint32_t kNoOpcode = 0x55;
constexpr bool is_opcode(uint32_t code) {
    for (uint32_t each : echo::kOpcodes)
        if (each == code) return true;
    return false;
}
static_assert(!is_opcode(kNoOpcode), "the contract has this opcode: choose another one for bad packets");
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

// ---- what must have occurred, beside the pairs ----
constexpr int kOpcodes = int(std::size(echo::kOpcodes));
constexpr uint32_t kMostParts = echo::kVectorExtensions;  // extensions of a command
constexpr uint32_t kOwners = 3;                           // of errors of memory
enum Situation { sRetired, sRefused = sRetired + kOpcodes, sWindowParts = sRefused + kOpcodes,
                 sRingParts = sWindowParts + 3, sWindowWait = sRingParts + 3, sRingWait = sWindowWait + kMostParts,
                 sDropped = sRingWait + kMostParts, sUnread = sDropped + kMostParts, sPartReset = sUnread + kMostParts,
                 sLoadBehind = sPartReset + kMostParts, sLoadSwept, sGapFilled, sLoadFailed, sLoadTimeout, sLoadReset,
                 sEntryLoaded, sEntryAtEnd, sEntryBeyond, sEntryFirst, sEntryLater, sDoneAndError, sDoneAndOverdue,
                 sErrorAndOverdue, sErrorAndFault, sFaultAndOverdue, sTwoEngines, sYoungerFirst, sSamePair,
                 sResetAndClear, sResetAndStop, sHeldAlone, sThree, sFarSlot, sFarTail, sFarBack, sReported, kSituations = sReported + kOwners * kOwners };
uint64_t seen[kSituations];
const char* const kOwnerNames[] = {"the matrix engine", "the vector engine", "its younger product"};
constexpr uint32_t kParts[] = {0, 1, kMostParts};  // numbers of extensions that a command may have
const char* const kOthers[] = {
    "a load that waits for commands under way", "a load that waits for program memory to be swept",
    "a load with a gap before it", "a load that fails", "a load that takes too long", "a soft reset of a load",
    "an entry that the load under way defines", "an entry just behind the loaded part", "an entry far behind it",
    "a broken rule before that of the entry", "a broken rule behind that of the entry",
    "a command that is done and has an error in one clock", "a command that is done when its time is over",
    "an error of memory when its time is over", "an error of memory and a fault in one clock",
    "a fault when its time is over", "errors of both engines in one clock",
    "an error of a younger command before one of the oldest",
    "errors of both commands of the matrix engine in one clock", "a soft reset and a clear in one clock",
    "a soft reset in the clock in which an engine's error stops the device", "a product held by a vector command alone",
    "three commands under way", "a packet from a slot beyond the first 255",
    "a tail beyond these slots behind a head that is not", "a tail among such slots, refused"};
std::string name_of(int situation) {
    const auto number = [](uint32_t value) { return std::to_string(value); };
    if (situation < sRefused) return std::string("a retired ") + echo::kOpcodeNames[situation - sRetired];
    if (situation < sWindowParts) return std::string("a refused ") + echo::kOpcodeNames[situation - sRefused];
    if (situation < sRingParts) return number(kParts[situation - sWindowParts]) + " extensions from the window";
    if (situation < sWindowWait) return number(kParts[situation - sRingParts]) + " extensions from the ring";
    if (situation < sRingWait) return "wait for the window, extension " + number(situation - sWindowWait + 1);
    if (situation < sDropped) return "wait for the ring, extension " + number(situation - sRingWait + 1);
    if (situation < sUnread) return "a refused doorbell, waiting for extension " + number(situation - sDropped + 1);
    if (situation < sPartReset) return "a fetch error at extension " + number(situation - sUnread + 1);
    if (situation < sLoadBehind) return "a soft reset, waiting for extension " + number(situation - sPartReset + 1);
    if (situation < sReported) return kOthers[situation - sLoadBehind];
    const int owner = (situation - sReported) / int(kOwners), other = (situation - sReported) % int(kOwners);
    return std::string("a reported error of ") + kOwnerNames[owner] + " in the clock of one of " + kOwnerNames[other];
}
void saw(int situation, bool happened = true) { seen[situation] += happened; }
void saw_opcode(Situation first, uint32_t opcode) {
    for (int place = 0; place < kOpcodes; ++place) saw(first + place, echo::kOpcodes[place] == opcode);
}

// ---- commands ----
struct Command {
    uint32_t words[echo::kPacketWords] = {}, extensions[kMostParts][echo::kPacketWords] = {};
    uint32_t parts = 0, taken_parts = 0;       // extensions
    bool matrix = false, vector = false, fence = false, irq = false;
    uint32_t kind = 0, entry = 0;              // of a command of the vector engine
    uint32_t bad = 0, bad_addr = 0;            // the error for which it is refused
    std::vector<std::pair<uint32_t, uint32_t>> reads;
    std::pair<uint32_t, uint32_t> writes{1, 0}, right{1, 0};
    // its life
    bool whole = false, from_ring = false, started = false, done = false, odd = false, kept = false, swept = false;
    bool entry_missed = false;                 // its entry was not loaded when it was taken
    std::vector<std::shared_ptr<Command>> waits;  // for these to be done, all but its right operand
    uint32_t error = 0, error_addr = 0, number = 0, head = 0;
    uint32_t owner = 0, meets = 0;             // of its error of memory, and the owners of all of that clock
};
using Pointer = std::shared_ptr<Command>;
struct Slot {
    Pointer command;
    uint32_t part = 0;  // 0: the packet, else an extension
};

// ---- program memory, as the vector engine has it ----
constexpr uint32_t kProgramWords = 4096;
enum Kind : uint32_t { kProgram, kCopy, kGather, kLoad };
struct Programs {
    uint32_t loaded = 0, filled = 0, first = 0, end = 0, sweep = 0;
    bool open = false;

    bool ready() const { return !open && !sweep; }
    bool filling() const { return open && filled < first; }
    void clock(bool begins, bool completes, bool aborts, const Command& load) {
        if (aborts && open) sweep = std::max(std::min(end, filled), first) - first, open = false;
        else if (sweep) --sweep;
        else if (filling()) ++filled;
        if (completes) loaded = std::max(loaded, end), filled = std::max(filled, end), open = false;
        if (begins) open = true, first = load.entry, end = load.entry + load.words[kM];
    }
};
Programs programs;
bool programs_ready_before;
uint32_t promised;  // loaded words when all loads have retired that the host has drawn

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
uint32_t vector_magic[kMostParts];
uint64_t memory_offset;  // between an address here, of 32 bits, and the device's
void add_parts(Command& c, uint32_t parts) {
    c.parts = parts;
    c.words[kFlags] |= uint32_t(parts > 0) << echo::kFlagExt;
    for (uint32_t i = 0; i < parts; ++i)
        c.extensions[i][echo::kExtensionWordMagic] = (parts == 1) ? echo::kExtensionMagic : vector_magic[i];
}
uint32_t& extension_word(Command& c, uint32_t word) {  // of all extensions
    return c.extensions[word / echo::kPacketWords][word % echo::kPacketWords];
}

void draw_matmul(Command& c, const uint32_t* from, uint32_t to) {
    uint32_t* w = c.words;
    // Few destinations are wide: those of one or two elements meet other ranges at their ends.
    const uint32_t n = chance(60) ? 1 : 1 + draw(128), m = 1 + draw(2), k = 1 + draw(n == 1 ? 256 : 6);
    c.matrix = true;
    w[kOpcode] = echo::kOpcodeMatmul, w[kSrc1] = from[0], w[kSrc2] = from[1], w[kDst] = to;
    w[kM] = m, w[kK] = k, w[kN] = n;
    c.reads = {{from[0], from[0] + 4 * m * k - 1}, {from[1], from[1] + 4 * k * n - 1}};
    c.writes = {to, to + 4 * m * n - 1};
    bool vectors = false;
    if (chance(15)) {
        add_parts(c, 1);
        if (chance(50)) {
            vectors = true;
            w[kFlags] |= 1u << echo::kFlagColScale, extension_word(c, echo::kExtensionWordColumnVectors) = from[2];
            c.reads.push_back({from[2], from[2] + 4 * n - 1});
        }
        if (chance(50)) {
            vectors = true;
            w[kFlags] |= 1u << echo::kFlagRowScale, extension_word(c, echo::kExtensionWordRowScales) = from[3];
            c.reads.push_back({from[3], from[3] + 4 * m - 1});
        }
    }
    // The engine takes a product with one column turned, so the first operand is its right one.
    c.right = c.reads[n > 1 || m == 1 || vectors];
}

void draw_vector(Command& c, const uint32_t* from, uint32_t to) {
    uint32_t* w = c.words;
    const uint32_t length = 1 + draw(256), rows = 1 + draw(2);
    c.entry = (promised && chance(97)) ? (chance(30) ? promised - 1 : draw(promised)) : promised + draw(3);
    w[kOpcode] = echo::kOpcodeVector, w[kSrc1] = from[0], w[kSrc2] = from[1], w[kDst] = to;
    w[kM] = rows, w[kN] = length;
    add_parts(c, kMostParts);
    extension_word(c, echo::kVectorExtensionWordEntry) = c.entry;
    extension_word(c, echo::kVectorExtensionWordS2Addr) = from[2];
    extension_word(c, echo::kVectorExtensionWordS3Addr) = from[3];
    const uint32_t bytes = 4 * length * rows, all = 4;
    constexpr uint32_t kHalf = echo::kVectorExtensionWordMagic3 - echo::kVectorExtensionWordDescriptorsLow;
    for (uint32_t stream = 0; stream <= all; ++stream) {
        if (stream < all && chance(50)) continue;
        auto set = [&](uint32_t field, uint32_t value) {
            const uint32_t word = echo::kDescriptorWords * stream + field / 32;  // of both halves of the list
            const uint32_t place = word < kHalf ? echo::kVectorExtensionWordDescriptorsLow + word
                                                : echo::kVectorExtensionWordDescriptorsHigh + word - kHalf;
            extension_word(c, place) |= value << field % 32;
        };
        set(echo::kDescriptorRowStride, 4 * length);
        set(echo::kDescriptorSegLen, length);
        set(echo::kDescriptorSegs, 1);
        set(echo::kDescriptorPasses, stream < all);
        set(echo::kDescriptorEnable, 1);
        if (stream < all) c.reads.push_back({from[stream], from[stream] + bytes - 1});
    }
    c.writes = {to, to + bytes - 1};
}

void draw_load(Command& c, const uint32_t* from, uint32_t to) {
    uint32_t* w = c.words;
    const uint32_t count = 1 + draw(chance(50) ? 8 : 120);
    uint32_t first = draw(programs.loaded + 1);
    // Most of them keep within what is loaded, some leave a gap.
    if (first + count > programs.loaded && chance(80)) first = programs.loaded - std::min(programs.loaded, count);
    else if (chance(5)) first = programs.loaded + draw(20);
    first = std::min(first, kProgramWords - count);
    c.kind = kLoad, c.entry = first;
    w[kOpcode] = echo::kOpcodeLoadProgram, w[kSrc1] = from[0] & ~7u, w[kDst] = to, w[kM] = count, w[kK] = first;
    c.reads = {{w[kSrc1], w[kSrc1] + 8 * count - 1}};
}

void draw_other(Command& c, const uint32_t* from, uint32_t to, uint32_t opcode) {
    uint32_t* w = c.words;
    w[kOpcode] = opcode, w[kSrc1] = from[0], w[kDst] = to;
    uint32_t bytes = 1 + draw(2048);
    if (opcode == echo::kOpcodeMemcpy) {
        c.kind = kCopy;
        w[kM] = bytes;
        c.reads = {{from[0], from[0] + bytes - 1}};
        if (chance(30)) add_parts(c, 1);
    } else if (opcode == echo::kOpcodeAddTensor) {
        c.entry = echo::kBuiltinEntry;
        w[kSrc2] = from[1], w[kM] = 1 + draw(512), bytes = 4 * w[kM];
        c.reads = {{from[0], from[0] + bytes - 1}, {from[1], from[1] + bytes - 1}};
    } else {
        c.kind = kGather;
        const uint32_t row = 1 + draw(16);
        w[kSrc2] = from[1], w[kM] = 1 + draw(100), w[kK] = 1 + draw(100), w[kN] = row, bytes = w[kM] * row;
        c.reads = {{from[0], from[0] + w[kK] * row - 1}, {from[1], from[1] + 4 * w[kM] - 1}};
    }
    c.writes = {to, to + bytes - 1};
}

// The first error of a command's packets. That of its entry depends on what is loaded when its turn has come.
uint32_t broken(const Command& c, uint32_t& address) {
    const bool early = c.bad == echo::kErrBadOpcode || c.bad == echo::kErrBadFlags || c.bad == echo::kErrBadExtension
                       || c.bad == echo::kErrBadDimension;
    const bool beyond = c.words[kOpcode] == echo::kOpcodeVector && c.entry >= programs.loaded;
    address = (beyond && !early) ? c.entry : c.bad_addr;
    return (beyond && !early) ? uint32_t(echo::kErrBadProgram) : c.bad;
}

// Break a rule of any kind, if the command has it.
void spoil(Command& c, uint32_t id) {
    uint32_t* w = c.words;
    const uint32_t opcode = w[kOpcode];
    const bool load = opcode == echo::kOpcodeLoadProgram;
    auto alone = [&c] { c.parts = 0, c.words[kFlags] &= ~(1u << echo::kFlagExt); };
    switch (draw(7)) {
        case 0: c.bad = echo::kErrBadOpcode, w[kOpcode] = kNoOpcode, alone(); break;
        case 1: c.bad = echo::kErrBadFlags, w[kFlags] |= 1u << 29, alone(); break;
        case 2:
            if (c.fence) return;
            c.bad = echo::kErrBadDimension, w[load ? kK : kM] = load ? kProgramWords : 0;
            break;
        case 3: {
            if (c.fence || opcode == echo::kOpcodeMemcpy) return;
            uint32_t& place = w[load ? kSrc1 : opcode == echo::kOpcodeVector ? kDst : kSrc2];
            c.bad = echo::kErrMisaligned, c.bad_addr = ++place;
            break;
        }
        case 4:
            if (opcode == echo::kOpcodeVector) c.bad = echo::kErrBadExtension, alone();
            break;
        case 5:
            if (c.parts) c.bad = echo::kErrBadExtension, c.extensions[draw(c.parts)][echo::kExtensionWordMagic] ^= 1u << draw(32);
            break;
        default:
            if (!c.fence) c.bad = echo::kErrRegisterWindow, c.bad_addr = w[load ? kSrc1 : kDst] = echo::kRegistersBase + 8 * id;
    }
}

// What a kind below kKinds stands for. An opcode that is never drawn is a situation that never occurs.
constexpr uint32_t kKinds = 40;
echo::Opcode opcode_of(uint32_t kind) {
    if (kind < 4) return echo::kOpcodeNop;
    if (kind < 6) return echo::kOpcodeSync;
    if (kind < 22) return echo::kOpcodeMatmul;
    if (kind < 26) return echo::kOpcodeMemcpy;
    if (kind < 29) return echo::kOpcodeAddTensor;
    if (kind < 32) return echo::kOpcodeGather;
    return (kind < 37 && (promised || chance(20))) ? echo::kOpcodeVector : echo::kOpcodeLoadProgram;
}

Pointer draw_command() {
    auto c = std::make_shared<Command>();
    uint32_t* w = c->words;
    const uint32_t kind = draw(kKinds), id = drawn++ % 256;
    const uint32_t dst = draw(kPages);
    const uint32_t to = (chance(5) ? kRing : kBase + dst * kPage) + 4 * id;  // some write the ring
    uint32_t from[4];
    for (uint32_t& each : from) each = kBase + (dst + 1 + draw(kPages - 1)) % kPages * kPage + 4 * draw(256);
    c->irq = chance(30);
    w[kFlags] = uint32_t(c->irq) << echo::kFlagIrq;
    const echo::Opcode opcode = opcode_of(kind);
    switch (opcode) {  // without a default: the compiler names an opcode that is missing
        case echo::kOpcodeNop:
        case echo::kOpcodeSync: c->fence = true, w[kOpcode] = opcode; break;
        case echo::kOpcodeMatmul: draw_matmul(*c, from, to); break;
        case echo::kOpcodeMemcpy:
        case echo::kOpcodeAddTensor:
        case echo::kOpcodeGather: draw_other(*c, from, to, opcode); break;
        case echo::kOpcodeVector: draw_vector(*c, from, to); break;
        case echo::kOpcodeLoadProgram: draw_load(*c, from, to); break;
    }
    c->vector = !c->fence && !c->matrix;
    if (chance(3)) spoil(*c, id);
    if (c->kind == kLoad && !c->bad) promised = std::max(promised, c->entry + w[kM]);
    return c;
}
uint64_t on_device(uint32_t address) {
    const bool in_memory = address >= kBase && address < kRing + kPacketBytes * kMostSlots;
    return address + (in_memory ? memory_offset : 0);
}
void place(uint32_t* words, uint32_t low, uint32_t high) {
    const uint64_t address = on_device(words[low]);
    words[low] = uint32_t(address);
    if (address >> 32) words[high] = uint32_t(address >> 32);
}
// The words of a packet as the device gets them.
void words_of(const Slot& slot, uint32_t* words) {
    memset(words, 0, kPacketBytes);
    if (!slot.command) return;
    memcpy(words, slot.part ? slot.command->extensions[slot.part - 1] : slot.command->words, kPacketBytes);
    if (slot.part == 0) {
        for (uint32_t low : {kSrc1, kSrc2, kDst}) place(words, low, low + 1);
    } else if (slot.part == 1 && slot.command->parts > 1) {
        place(words, echo::kVectorExtensionWordS2Addr, echo::kVectorExtensionWordS2AddrHigh);
        place(words, echo::kVectorExtensionWordS3Addr, echo::kVectorExtensionWordS3AddrHigh);
    } else if (slot.command->matrix) {
        place(words, echo::kExtensionWordColumnVectors, echo::kExtensionWordRows);
        place(words, echo::kExtensionWordRowScales, echo::kExtensionWordRowScalesHigh);
    }
}

// ---- inputs of the clock, and what the model knows ----
struct Inputs {
    bool rst_n, soft_reset, clear, doorbell, tail_write, idle, fetch_error, desc_ready, data_valid, matrix_ready;
    bool program_ready;
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
std::vector<Slot> ring(kMostSlots);
uint32_t size = 8, head, tail, retired, taken, level_before;
bool was_running = true;
bool submitted, cleared;
uint32_t submit_error;
uint32_t watchdog, age;      // clocks that the oldest command may take, and has taken
bool was_oldest, retired_before;
uint64_t ring_done;          // when the last command that writes the ring was done
std::vector<uint64_t> fetched(kMostSlots);       // when each slot of the ring was asked for
bool fetch_failed;
uint32_t fetch_failed_addr;
std::deque<Pointer> pending;  // taken, and neither retired nor given up
uint32_t expected_code, expected_index;
uint64_t expected_addr;
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
    promised = programs.loaded;
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

// All registers are at their first values.
void begins_anew() {
    forget_all();
    mode = mRun;
    retired = taken = head = tail = 0;
    size = 2 + draw(chance(60) ? 9 : chance(50) ? 200 : kMostSlots - 2);
    watchdog = chance(70) ? 0 : 3 + draw(60);
}

// The reset of the whole device, in the midst of anything. It empties program memory, so that loads go beyond its loaded
// part again.
void resets_all() {
    begins_anew();
    reset_clocks = 1 + int(draw(4));
    programs = Programs(), promised = 0;
    matrix_work.clear();
    vector_work.clear();
    beats.clear();
    odd = cleared = abort_seen = was_oldest = retired_before = false;
    quiet = 0;
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
    // It ends the state ERROR, and means nothing before: not while the device works, nor while it stops.
    if (mode != mError && chance(3)) {
        in.clear = true;
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
            for (uint32_t i = 0; i <= command->parts; ++i) to_window.push_back({command, i});
        }
        // A command of several packets waits for room for all; a full queue is met by single ones.
        const bool room = level_before + to_window.size() < kDepth;
        if (room || (to_window.size() == 1 && !to_window.front().part && (in.fetch_error || chance(15)))) {
            in.doorbell = true;
            in.packet = to_window.front();
            to_window.pop_front();
        }
        return;
    }
    if (what < 2 + window_rate + ring_rate) {
        uint32_t room = (head + 2 * size - tail - 1 - written) % size;
        const Pointer command = draw_command();
        if (room >= 1 + command->parts && mode == mRun) {
            for (uint32_t i = 0; i <= command->parts; ++i) {
                ring[(tail + written) % size] = {command, i};
                ++written;
            }
        }
        if (written && chance(60)) {
            in.tail_write = true;
            in.tail = (tail + (chance(70) ? written : 1 + draw(written))) % size;  // often in the midst of a command
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
    if (!vector_work.empty() && !programs.filling()
        && (--vector_work.front().left <= 0 || (ends && chance(40))))
        in.done |= 2, ends = true;
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
    // A load has no program that could be bad.
    if (!vector_work.empty() && vector_work.front().command->kind != kLoad && ((chance(often) && chance(25)) || (in.errors && chance(20)))) {
        in.fault = true;
        in.fault_index = chance(50);
        in.fault_addr = draw(1 << 28);
        in.done &= ~2u;  // it ends with its fault
    }
    // Two errors, of different commands, in one clock.
    if (in.errors && chance(40)) {
        const bool at_work[] = {!matrix_work.empty(), !vector_work.empty(), matrix_work.size() > 1};
        for (uint32_t owner = 0; owner < kOwners; ++owner)
            if (at_work[owner] && chance(70)) in.errors |= 1u << owner, in.error_addr[owner] = draw(1 << 28);
    }
    if (!beats.empty() && --beat_in <= 0) {
        Beat& beat = beats.front();
        if (beat.part == 0 && (in.errors || in.fault) && chance(50)) beat.fails = true;
        uint32_t words[echo::kPacketWords];
        words_of(ring[beat.slot], words);
        in.data_valid = true;
        memcpy(in.beat, words + beat.part * kBeatWords, sizeof in.beat);
        if (beat.fails) in.fetch_error = true, in.fetch_error_addr = kBase + kPacketBytes * beat.slot;
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
        const std::pair<uint32_t, uint32_t> all{kRing, kRing + kPacketBytes * size - 1};
        for (const Pointer& each : pending)
            demand(!each->started || each->done || !meet(each->writes, all), "a packet was taken that may be overwritten");
        demand(fetched[(head + size - 1) % size] > ring_done, "a packet was taken that was overwritten since");
    }
    if (slot.part) {
        const bool next = !pending.empty() && pending.back() == slot.command && !command.whole;
        demand(next && slot.part == command.taken_parts + 1, "an extension of another command, or out of turn");
        command.taken_parts = slot.part;
        command.whole = slot.part == command.parts;
        return;
    }
    demand(pending.empty() || pending.back()->whole, "a command was taken before the last one was complete");
    demand(!from_ring || level_before == 0, "the ring was served before the window");
    command.whole = !command.parts;
    command.from_ring = from_ring;
    command.entry_missed = command.entry >= programs.loaded;
    command.number = taken++;
    pending.push_back(slot.command);
}

void note_refusal(const Command& command, uint32_t rule) {
    saw_opcode(sRefused, command.words[kOpcode]);
    if (command.words[kOpcode] != echo::kOpcodeVector) return;
    saw(sEntryAtEnd, rule == echo::kErrBadProgram && command.entry == programs.loaded);
    saw(sEntryBeyond, rule == echo::kErrBadProgram && command.entry > programs.loaded);
    const bool beyond = command.entry >= programs.loaded;
    saw(sEntryFirst, beyond && (rule == echo::kErrBadExtension || rule == echo::kErrBadDimension));
    saw(sEntryLater, beyond && command.bad && rule == echo::kErrBadProgram);
}

void note_failure(const Command& command) {
    saw(sLoadFailed, command.kind == kLoad && command.error != echo::kErrTimeout);
    saw(sLoadTimeout, command.kind == kLoad && command.error == echo::kErrTimeout);
}

// The device has begun to stop: why, and what counts as not taken.
void fails() {
    mode = mFail;
    quiet = 0;
    if (reason == rSubmission && !pending.empty() && !pending.back()->whole) {  // it is dropped
        saw(sDropped + int(pending.back()->taken_parts));
        pending.pop_back();
    }
    if (!pending.empty()) {
        Command& front = *pending.front();
        expected_index = front.number;
        uint32_t address = 0;
        const uint32_t rule = broken(front, address);
        const uint32_t missing_part = std::min(front.taken_parts, kMostParts - 1);
        if (front.started && front.error) {
            note_failure(front);
            for (uint32_t other = 0; other < kOwners; ++other)
                saw(int(sReported + kOwners * front.owner + other), front.meets >> other & 1 && other != front.owner);
            expected_code = front.error, expected_addr = front.error_addr;
            head = front.head;
            taken = front.number + 1;
        } else if (rule && front.whole && !front.started) {
            demand(pending.size() == 1, "a packet was taken behind a bad one");
            expected_code = rule, expected_addr = (rule == echo::kErrMisaligned) ? on_device(address) : address;
            note_refusal(front, rule);
        } else if (!front.whole && front.from_ring && fetch_failed) {
            saw(sUnread + int(missing_part));
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

void starts(bool matrix, uint32_t dst, uint32_t kind, uint32_t entry) {
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
    uint32_t address;
    if (!found || found->fence || broken(*found, address) || !found->whole || found->matrix != matrix || found->words[kDst] != dst) {
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
    if (!matrix) {
        demand(kind == found->kind, "the kind of a vector command");
        demand(kind == kCopy || kind == kGather || entry == found->entry, "the entry of a vector command");
    }
    if (found->kind == kLoad) {
        demand(under_way == 0, "a load started before all commands before it had retired");
        demand(programs_ready_before, "a load started while program memory was not ready");
        saw(sLoadBehind, found->kept);
        saw(sLoadSwept, found->swept);
        saw(sGapFilled, found->entry > programs.filled);
    }
    saw(sEntryLoaded, found->words[kOpcode] == echo::kOpcodeVector && found->entry_missed);
    saw(sThree, under_way == 2);
    saw(sHeldAlone, matrix && found->waits.size() == 1 && found->waits[0]->vector);
    if (matrix) found->odd = odd, odd = !odd;
    found->started = true;
    found->head = head;
    (matrix ? matrix_work : vector_work).push_back({found, int(latency())});
}

// Reports that meet in this clock, before they are taken.
void note_reports() {
    if (pending.empty()) return;
    const Command& oldest = *pending.front();
    const bool late = was_oldest && watchdog && age >= watchdog && !oldest.done && !oldest.error;
    const bool matrix = !matrix_work.empty(), vector = !vector_work.empty();
    const bool errors[kOwners] = {matrix && (in.errors & 1), vector && (in.errors & 2), matrix_work.size() > 1 && (in.errors & 4)};
    const bool own_error = errors[oldest.vector], own_done = in.done >> oldest.vector & 1;
    const bool own_fault = oldest.vector && in.fault;
    if (oldest.started && !oldest.done && !oldest.error) {
        saw(sDoneAndError, own_error && own_done);
        saw(sDoneAndOverdue, late && own_done && !own_error && !own_fault);
        saw(sErrorAndOverdue, late && own_error);
        saw(sErrorAndFault, own_error && own_fault);
        saw(sFaultAndOverdue, late && own_fault && !own_error);
        saw(sTwoEngines, errors[0] && errors[1]);
        saw(sSamePair, errors[0] && errors[2]);
        bool younger = false;
        for (const Pointer& each : pending) younger |= each.get() != &oldest && each->error;
        saw(sYoungerFirst, younger && (own_error || own_fault));
    }
}

void ends() {
    note_reports();
    // Errors belong to the oldest command of an engine, or to the next one of the matrix engine.
    auto fail = [](std::deque<Work>& work, size_t at, uint32_t owner) {
        if (!(in.errors >> owner & 1) || work.size() <= at) return;
        Command& command = *work[at].command;
        if (command.error) return;
        command.error = (in.error_writes >> owner & 1) ? echo::kErrWriteResponse : echo::kErrReadResponse;
        command.error_addr = in.error_addr[owner];
        command.owner = owner, command.meets = in.errors;
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
        if (meet(command.writes, {kRing, kRing + kPacketBytes * size - 1})) ring_done = clock_no;
        work->pop_front();
    }
    if (was_oldest && watchdog && age >= watchdog && !pending.front()->done && !pending.front()->error)
        pending.front()->error = echo::kErrTimeout;
}

// What the newest command waits for.
void note_waits() {
    if (mode != mRun || pending.empty()) return;
    Command& newest = *pending.back();
    const bool empty = newest.from_ring ? head == tail : window.empty();
    const int part = int(std::min(newest.taken_parts, kMostParts - 1));
    if (!newest.whole) {
        saw((newest.from_ring ? sRingWait : sWindowWait) + part, empty);
        saw(sPartReset + part, in.soft_reset);
    }
    if (newest.kind == kLoad && newest.whole && !newest.started) {
        newest.kept |= pending.front()->started;
        newest.swept |= pending.size() == 1 && !in.program_ready;
    }
    saw(sLoadReset, in.soft_reset && newest.kind == kLoad && newest.started);
    saw(sResetAndStop, in.soft_reset && pending.front()->started && pending.front()->error);
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
    saw_opcode(sRetired, front.words[kOpcode]);
    const int parts = front.parts > 1 ? 2 : int(front.parts);
    saw((front.from_ring ? sRingParts : sWindowParts) + parts);
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
    // One without a meeting is none, and the older of two products is reported.
    const std::set<int> no_situations = {sReported + 0, sReported + 4, sReported + 6, sReported + 8};
    for (int situation = 0; situation < kSituations; ++situation)
        if (!no_situations.count(situation) && !seen[situation]) ++found, say && printf("never: %s\n", name_of(situation).c_str());
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
    in.program_ready = programs.ready();
    if (in.rst_n) {
        drive_engines();
        drive_host();
    }
    uint32_t words[echo::kPacketWords];
    words_of(in.packet, words);
    memcpy(packet, words, kPacketBytes);
    memcpy(beat, in.beat, sizeof in.beat);
    memset(inputs, 0, 32 * 4);
    const bool flags[] = {in.rst_n, in.soft_reset, in.clear, in.doorbell, true, in.tail_write, in.idle, in.fetch_error,
                          in.desc_ready, in.data_valid, in.matrix_ready, in.fault, in.fault_index, clock_no >= clocks,
                          in.program_ready};
    for (uint32_t i = 0; i < sizeof flags; ++i) inputs[0] |= uint32_t(flags[i]) << i;
    inputs[1] = kRing, inputs[2] = size, inputs[3] = in.tail;
    inputs[4] = in.errors, inputs[5] = in.error_writes, inputs[6] = in.fetch_error_addr, inputs[7] = in.done;
    inputs[8] = in.fault_addr, inputs[9] = watchdog, inputs[10] = programs.loaded;
    for (int i = 0; i < 3; ++i) inputs[12 + i] = in.error_addr[i];
    if (clock_no >= clocks) {
        const int never = missing(true);
        printf("%llu clocks, %u packets; %d situations or pairs of events never occurred\n", (unsigned long long)clock_no, drawn, never);
        fflush(stdout);
        if (never) exit(1);
    }
}

extern "C" void cp_begin(int magic1, int magic2, int magic3, long long offset) {
    memory_offset = uint64_t(offset);
    vector_magic[0] = uint32_t(magic1), vector_magic[1] = uint32_t(magic2), vector_magic[2] = uint32_t(magic3);
}

extern "C" int cp_check(const svBitVecVal* pulses_in, const svBitVecVal* levels_in, int ring_in, int retired_in, int index_in,
                        long long address_in, int matrix_dst, int vector_dst, int vector_entry, int desc_addr,
                        int desc_bytes) {
    const uint32_t pulses = *pulses_in, levels = *levels_in;
    auto pulse = [&](int bit) { return (pulses >> bit & 1) != 0; };
    const bool matrix_start = pulse(1), vector_start = pulse(2), full = pulse(3), abort = pulse(4), reset_done = pulse(5);
    const bool irq_done = pulse(6), irq_error = pulse(7), irq_command = pulse(8), retire = pulse(9);
    const bool vector_retire = pulse(10), desc_valid = pulse(11), refuses = pulse(13), tail_set = pulse(14);
    const uint32_t state = levels & 3, level = levels >> 2 & 255, code = levels >> 10 & 255;
    const uint32_t head_now = uint32_t(ring_in) & 0xFFFF, tail_now = uint32_t(ring_in) >> 16;
    demand(!tail_set || tail_now == tail, "ring_tail_o");
    ++clock_no;
    if (reset_clocks) {
        --reset_clocks;
        state_before = echo::kStateIdle;
        was_running = true;
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
        saw(sFarSlot, head > 255);
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
    demand(mode != mRun || (code == 0 && index_in == 0 && address_in == 0), "an error shows while commands run");
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
    const bool vector_stays = !(pulses >> 19 & 1);
    bool vector_inside = false;
    for (const Pointer& each : pending) vector_inside |= each->started && each->vector;
    demand(vector_stays || !running || !vector_inside, "the command of the vector engine changed before its end");
    if (vector_start) {
        starts(false, uint32_t(vector_dst), pulses >> 17 & 3, uint32_t(vector_entry));
        happens(eVectorStart);
    }
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
    const bool load_begins = vector_start && !vector_work.empty() && vector_work.front().command->kind == kLoad;
    const bool load_retires = retire && !pending.empty() && pending.front()->kind == kLoad;
    programs.clock(load_begins, load_retires, abort,
                   load_begins ? *vector_work.front().command : Command());
    note_waits();
    programs_ready_before = in.program_ready;
    retired_before = retire;
    if (retire) happens(eRetire, retires(vector_retire, irq_command));
    else demand(!irq_command && !vector_retire, "an interrupt without a retirement");
    if (matrix_start) starts(true, uint32_t(matrix_dst), 0, 0), happens(eMatrixStart);
    happens(eIdle, in.idle && !running);

    if (in.data_valid && !beats.empty()) {
        if (beats.front().fails && !fetch_failed) fetch_failed = true, fetch_failed_addr = in.fetch_error_addr;
        beats.pop_front();
    }
    if (desc_valid && in.desc_ready) {
        const uint32_t first = (uint32_t(desc_addr) - kRing) / kPacketBytes, slots = uint32_t(desc_bytes) / kPacketBytes;
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
            saw(sFarBack, back && in.tail > 255);
            happens(eBadTail);
        } else {
            submitted |= in.tail != head_now;
            saw(sFarTail, in.tail > 255 && head_now <= 255);
            const uint32_t added = (in.tail + size - tail) % size;
            written -= std::min(written, added);
            tail = in.tail;
            happens(eTail);
        }
    } else if (in.tail_write && mode != mReset && in.tail < size && !back) {
        tail = in.tail;
    }
    demand(tail_set == (mode == mError && in.clear), "ring_tail_set_o");
    happens(eReset, in.soft_reset);
    saw(sResetAndClear, in.soft_reset && in.clear && mode == mError);
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
        begins_anew();
        if (chance(10)) resets_all();
    }
    if (reset_clocks == 0 && draw(4000) == 0) resets_all();
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
            line += " " + std::to_string(each->words[kOpcode]) + (each->parts ? "+" : "") + (each->bad ? "!" : "")
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
