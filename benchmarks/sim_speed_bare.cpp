// The limit of the simulation's speed: npu_tb clocked by a plain loop, with no cocotb, no VPI and no visible signals.
//
// Usage: npu_tb SCRIPT, with ECHO_NPU_MEMORY naming the device memory. The script's lines (benchmarks/sim_speed_replay.py
// writes them): "registers STATUS IRQ_STATUS BUSY_CYCLES" gives their offsets, "write OFFSET VALUE" writes a register,
// "wait" lasts until everything submitted is finished, "spin CYCLES" lets time pass, "measure": what follows is what
// counts. Prints cycles, busy cycles and seconds of that part as JSON.
//
// It also builds against the boards of earlier commits, so it takes nothing from the contract.

#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#if __has_include("../runtime/echo_sim/board/npu_tb.hpp")
#include "../runtime/echo_sim/board/npu_tb.hpp"
#else
#include "../tb/hdl/npu_tb.hpp"  // where earlier commits had it
#endif
#include "Vtop.h"
#include "verilated.h"

extern "C" {
void echo_axil_submit(const uint32_t* operations, unsigned int count);
unsigned int echo_axil_collect(uint32_t* pairs, unsigned int room);
}

namespace {

[[noreturn]] void fail(const std::string& message) {
    fprintf(stderr, "%s\n", message.c_str());
    exit(1);
}

double seconds(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

// Offsets of registers, and what they hold.
struct Registers {
    uint32_t status = 0, irq_status = 0, busy_cycles = 0;
};
constexpr uint32_t kStateBits = 3, kStateBusy = 1, kStateError = 3;
constexpr uint32_t kIrqBits = 3;

class Board {
  public:
    Registers registers;

    Board() {
        echo::set_idle(top_);
        for (int i = 0; i < 10; ++i) tick();
        top_.rst_n = 1;
        for (int i = 0; i < 10; ++i) tick();
    }
    ~Board() { top_.final(); }

    uint64_t cycle() const { return top_.cycle; }
    uint64_t busy_cycles() {
        const uint64_t low = read(registers.busy_cycles);  // first: it latches the high word
        return low | uint64_t{read(registers.busy_cycles + 4)} << 32;
    }

    void write(uint32_t offset, uint32_t value) { access(1, offset, value); }
    uint32_t read(uint32_t offset) { return access(0, offset, 0); }

    void spin(uint64_t cycles) {
        while (cycles--) tick();
    }

    // Until everything submitted is finished. The interrupt may be an old one: it is cleared, and the state decides.
    void wait() {
        for (;;) {
            while (!top_.irq) tick();
            write(registers.irq_status, kIrqBits);
            const uint32_t state = read(registers.status) & kStateBits;
            if (state == kStateError) fail("the device stopped in state ERROR");
            if (state != kStateBusy) return;
        }
    }

  private:
    void tick() {
        top_.tick = !top_.tick;
        top_.eval();
    }

    uint32_t access(uint32_t write, uint32_t offset, uint32_t value) {
        const uint32_t operation[3] = {write, offset, value};
        echo_axil_submit(operation, 1);
        top_.bfm_req = !top_.bfm_done;
        top_.eval();  // a clock gate has to see it before the clock
        while (top_.bfm_req != top_.bfm_done) tick();
        uint32_t answer[2] = {};
        if (echo_axil_collect(answer, 1) != 1 || answer[1] != 0) fail("the device refused a register access");
        return answer[0];
    }

    Vtop top_;
};

}  // namespace

int main(int argc, char** argv) {
    Verilated::commandArgs(argc, argv);
    std::ifstream script(argc > 1 ? argv[1] : "");
    if (!script) fail("usage: npu_tb SCRIPT");
    Board board;
    uint64_t cycle = 0, busy = 0;
    double wall = 0, cpu = 0;
    for (std::string word; script >> word;) {
        if (word == "write") {
            uint32_t offset, value;
            script >> offset >> value;
            board.write(offset, value);
        } else if (word == "wait") {
            board.wait();
        } else if (word == "registers") {
            script >> board.registers.status >> board.registers.irq_status >> board.registers.busy_cycles;
        } else if (word == "spin") {
            uint64_t cycles;
            script >> cycles;
            board.spin(cycles);
        } else if (word == "measure") {
            busy = board.busy_cycles();
            cycle = board.cycle();
            wall = seconds(CLOCK_MONOTONIC);
            cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        } else {
            fail("the script has an unknown word: " + word);
        }
    }
    wall = seconds(CLOCK_MONOTONIC) - wall;
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    cycle = board.cycle() - cycle;
    busy = board.busy_cycles() - busy;
    printf("{\"cycles\": %llu, \"busy_cycles\": %llu, \"wall_s\": %.6f, \"cpu_s\": %.6f}\n", (unsigned long long)cycle,
           (unsigned long long)busy, wall, cpu);
    return 0;
}
