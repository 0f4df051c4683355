// Simulates the gates that table.py wrote, for the module npu_top that design.py writes.
//
// A net is a byte, 0 or 1. Between clock edges only gates whose inputs changed are evaluated, in the order of their
// depth, so each at most once. At a rising edge every register of a clock that its gates let through takes its input,
// all of them at once. Registers and memories power up with random bits, and an undefined bit is random in each run.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "svdpi.h"

namespace {

constexpr int32_t Magic = 0x45544147;
constexpr int32_t Zero = 0, One = 1;  // nets; the third is the undefined bit
constexpr int32_t Read = -1;  // in place of a truth table

[[noreturn]] void fail(const std::string& text) {
    std::fprintf(stderr, "%%Error: netlist: %s\n", text.c_str());
    std::exit(1);
}

// A gate, whose output is bit `4 * select + 2 * b + a` of its truth table; or a read port of a memory, which has its
// number in `a` and `b`.
struct Gate {
    int32_t table, a, b, select, output;
};
struct Register {
    int32_t domain, enable, input, output;
};
struct ClockGate {
    int32_t domain, source, enable, test;
};
struct ReadPort {
    std::vector<int32_t> address, data;
};
struct WritePort {
    int32_t domain;
    std::vector<int32_t> address, data, enable;
};
struct Memory {
    int32_t size, width;
    std::vector<uint8_t> bits;
    std::vector<ReadPort> reads;
    std::vector<WritePort> writes;
    std::vector<int32_t> readers;  // gates
};

class Netlist {
public:
    Netlist(const std::string& path, uint32_t seed) {
        read(path);
        connect();
        power_up(seed);
    }

    void set_inputs(const svBitVecVal* bits) {
        for (size_t i = 0; i < inputs_.size(); ++i) set(inputs_[i], bits[i / 32] >> (i % 32) & 1);
    }

    void get_outputs(svBitVecVal* bits) const {
        std::fill(bits, bits + (outputs_.size() + 31) / 32, 0u);
        for (size_t i = 0; i < outputs_.size(); ++i) bits[i / 32] |= uint32_t(values_[outputs_[i]]) << (i % 32);
    }

    void settle() {
        for (auto& level : waiting_) {
            // A gate wakes deeper ones only, so the list does not grow here.
            for (int32_t number : level) {
                awake_[number] = 0;
                const Gate& gate = gates_[number];
                if (gate.table == Read) {
                    read_memory(memories_[gate.a], memories_[gate.a].reads[gate.b]);
                } else {
                    set(gate.output, value(gate));
                }
            }
            level.clear();
        }
    }

    void clock() {
        std::fill(ticks_.begin(), ticks_.end(), 0);
        ticks_[0] = 1;
        for (const ClockGate& gate : clock_gates_)
            ticks_[gate.domain] = ticks_[gate.source] && (values_[gate.enable] || values_[gate.test]);
        changed_.clear();
        for (size_t domain = 0; domain < ticks_.size(); ++domain) {
            if (!ticks_[domain]) continue;
            for (int32_t i = first_[domain]; i < first_[domain + 1]; ++i) {
                const Register& each = registers_[i];
                if (values_[each.enable] && values_[each.input] != values_[each.output]) changed_.push_back(each.output);
            }
        }
        written_.clear();
        for (size_t m = 0; m < memories_.size(); ++m)
            for (const WritePort& port : memories_[m].writes)
                if (ticks_[port.domain]) write_memory(int32_t(m), port);
        for (int32_t net : changed_) set(net, !values_[net]);
        for (const auto& [memory, place, bit] : written_) {
            if (memories_[memory].bits[place] == bit) continue;
            memories_[memory].bits[place] = bit;
            for (int32_t reader : memories_[memory].readers) wake(reader);
        }
    }

private:
    struct Written {
        int32_t memory;
        size_t place;
        uint8_t bit;
    };

    std::vector<uint8_t> values_;
    std::vector<int32_t> inputs_, outputs_;
    std::vector<Gate> gates_;
    std::vector<Register> registers_;  // by domain
    std::vector<ClockGate> clock_gates_;  // a source comes before what it clocks
    std::vector<Memory> memories_;
    std::vector<int32_t> first_;  // register of each domain, and the end
    std::vector<int32_t> users_, users_begin_;  // gates that a net is an input of
    std::vector<int32_t> depth_;
    std::vector<std::vector<int32_t>> waiting_;  // gates to evaluate, by depth
    std::vector<uint8_t> awake_, ticks_;
    std::vector<int32_t> changed_;
    std::vector<Written> written_;

    uint8_t value(const Gate& gate) const {
        const int place = values_[gate.select] << 2 | values_[gate.b] << 1 | values_[gate.a];
        return gate.table >> place & 1;
    }

    void wake(int32_t gate) {
        if (awake_[gate]) return;
        awake_[gate] = 1;
        waiting_[depth_[gate]].push_back(gate);
    }

    void set(int32_t net, uint8_t bit) {
        if (values_[net] == bit) return;
        values_[net] = bit;
        for (int32_t i = users_begin_[net]; i < users_begin_[net + 1]; ++i) wake(users_[i]);
    }

    size_t number(const std::vector<int32_t>& nets) const {
        size_t sum = 0;
        for (size_t i = 0; i < nets.size(); ++i) sum |= size_t(values_[nets[i]]) << i;
        return sum;
    }

    void read_memory(const Memory& memory, const ReadPort& port) {
        const size_t word = number(port.address);
        for (int32_t i = 0; i < memory.width; ++i)
            set(port.data[i], word < size_t(memory.size) ? memory.bits[word * memory.width + i] : 0);
    }

    void write_memory(int32_t index, const WritePort& port) {
        const Memory& memory = memories_[index];
        const size_t word = number(port.address);
        if (word >= size_t(memory.size)) return;
        for (int32_t i = 0; i < memory.width; ++i)
            if (values_[port.enable[i]]) written_.push_back({index, word * memory.width + i, values_[port.data[i]]});
    }

    void read(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        const auto integer = [&] {
            int32_t found = 0;
            if (!file.read(reinterpret_cast<char*>(&found), sizeof found)) fail(path + " is too short, or not there");
            return found;
        };
        const auto array = [&](auto& target) {
            using Element = typename std::remove_reference_t<decltype(target)>::value_type;
            target.resize(size_t(integer()) * sizeof(int32_t) / sizeof(Element));
            if (!file.read(reinterpret_cast<char*>(target.data()), std::streamsize(target.size() * sizeof(Element))))
                fail(path + " is too short");
        };
        if (integer() != Magic) fail(path + " is no table of gates");
        std::vector<int32_t> nets, words;
        std::vector<Gate>& gates = gates_;
        array(nets);
        array(inputs_);
        array(outputs_);
        array(gates);
        array(registers_);
        array(clock_gates_);
        array(words);
        values_.assign(size_t(nets.at(0)), 0);
        const int32_t* next = words.data();
        const auto some = [&](int32_t count) {
            std::vector<int32_t> found(next, next + count);
            next += count;
            return found;
        };
        while (next != words.data() + words.size()) {
            const auto sizes = some(5);
            Memory memory{sizes[0], sizes[1], {}, {}, {}, {}};
            memory.bits.resize(size_t(memory.size) * memory.width);
            for (int32_t port = 0; port < sizes[3]; ++port) {
                ReadPort made{some(sizes[2]), some(memory.width)};
                memory.readers.push_back(int32_t(gates_.size()));
                gates_.push_back({Read, int32_t(memories_.size()), port, Zero, Zero});
                memory.reads.push_back(std::move(made));
            }
            for (int32_t port = 0; port < sizes[4]; ++port) {
                const int32_t domain = some(1)[0];
                auto address = some(sizes[2]), data = some(memory.width), enable = some(memory.width);
                memory.writes.push_back({domain, std::move(address), std::move(data), std::move(enable)});
            }
            memories_.push_back(std::move(memory));
        }
    }

    std::vector<int32_t> nets_into(const Gate& gate) const {
        if (gate.table == Read) return memories_[gate.a].reads[gate.b].address;
        return {gate.a, gate.b, gate.select};
    }

    std::vector<int32_t> nets_out_of(const Gate& gate) const {
        return gate.table == Read ? memories_[gate.a].reads[gate.b].data : std::vector<int32_t>{gate.output};
    }

    void connect() {
        std::vector<int32_t> drivers(values_.size(), 0);
        for (const Gate& gate : gates_)
            for (int32_t net : nets_out_of(gate)) ++drivers[net];
        for (const Register& each : registers_) ++drivers[each.output];
        for (int32_t net : inputs_) ++drivers[net];
        if (*std::max_element(drivers.begin(), drivers.end()) > 1) fail("a net has two drivers");
        users_begin_.assign(values_.size() + 1, 0);
        for (const Gate& gate : gates_)
            for (int32_t net : nets_into(gate)) ++users_begin_[net + 1];
        for (size_t net = 0; net < values_.size(); ++net) users_begin_[net + 1] += users_begin_[net];
        users_.resize(users_begin_.back());
        std::vector<int32_t> place(users_begin_.begin(), users_begin_.end() - 1);
        std::vector<int32_t> left(gates_.size(), 0);  // inputs whose depth is not known
        for (size_t i = 0; i < gates_.size(); ++i)
            for (int32_t net : nets_into(gates_[i])) {
                users_[place[net]++] = int32_t(i);
                ++left[i];
            }
        order(left);
        awake_.assign(gates_.size(), 0);
        int32_t domains = 1;
        for (const ClockGate& gate : clock_gates_) domains = std::max(domains, gate.domain + 1);
        ticks_.assign(domains, 0);
        first_.assign(domains + 1, 0);
        for (const Register& each : registers_) ++first_[each.domain + 1];
        for (int32_t domain = 0; domain < domains; ++domain) first_[domain + 1] += first_[domain];
    }

    // Finds the depth of each gate: one more than that of its deepest input.
    void order(std::vector<int32_t>& left) {
        depth_.assign(gates_.size(), 0);
        std::vector<uint8_t> driven(values_.size(), 0);
        for (const Gate& gate : gates_)
            for (int32_t net : nets_out_of(gate)) driven[net] = 1;
        std::vector<int32_t> ready;
        const auto arrive = [&](int32_t net, int32_t depth) {
            for (int32_t i = users_begin_[net]; i < users_begin_[net + 1]; ++i) {
                const int32_t gate = users_[i];
                depth_[gate] = std::max(depth_[gate], depth);
                if (--left[gate] == 0) ready.push_back(gate);
            }
        };
        for (size_t net = 0; net < values_.size(); ++net)
            if (!driven[net]) arrive(int32_t(net), 0);
        size_t done = 0;
        int32_t deepest = 0;
        for (; done < ready.size(); ++done) {
            const int32_t gate = ready[done];
            deepest = std::max(deepest, depth_[gate]);
            for (int32_t net : nets_out_of(gates_[gate])) arrive(net, depth_[gate] + 1);
        }
        if (done != gates_.size()) fail("gates form a circle");
        waiting_.resize(deepest + 1);
    }

    void power_up(uint32_t seed) {
        std::mt19937 random(seed);
        for (uint8_t& each : values_) each = random() & 1;
        values_[Zero] = 0;
        values_[One] = 1;
        for (Memory& memory : memories_)
            for (uint8_t& each : memory.bits) each = random() & 1;
        for (size_t i = 0; i < gates_.size(); ++i) wake(int32_t(i));
        settle();
    }
};

Netlist* netlist = nullptr;

}  // namespace

extern "C" {

// $ECHO_NPU_GATES names a table to simulate in place of `path`, with the same ports.
void npu_gates_load(const char* path, unsigned int seed) {
    const char* other = std::getenv("ECHO_NPU_GATES");
    delete netlist;
    netlist = new Netlist(other && *other ? other : path, seed);
}

// A rising edge of the clock, with the inputs from before it.
void npu_gates_clock(const svBitVecVal* inputs) {
    netlist->set_inputs(inputs);
    netlist->settle();
    netlist->clock();
    netlist->settle();
}

// `turn` changes with each clock, so that the simulator asks again.
void npu_gates_settle(svBit turn, const svBitVecVal* inputs, svBitVecVal* outputs) {
    (void)turn;
    if (!netlist) return;
    netlist->set_inputs(inputs);
    netlist->settle();
    netlist->get_outputs(outputs);
}

}  // extern "C"
