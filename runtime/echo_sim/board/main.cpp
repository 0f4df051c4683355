// The main program of the simulated board under cocotb. It makes the clock, and it calls VPI only when Python may have
// to run: at the time that Python waits for, and when a signal changes that Python waits for. In between, the clock
// runs in a plain loop. cocotb's own main program would call VPI several times for each clock edge.
//
// What Python may wait for: time, `irq`, `bfm_done`, and everything while `bus_enable` is 1. `bus_clk` runs then.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

#include "Vtop.h"
#include "cases.hpp"
#include "npu_tb.hpp"
#include "verilated.h"
#include "verilated_vpi.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

extern "C" void vlog_startup_routines_bootstrap(void);

double sc_time_stamp() { return 0; }  // what Verilator asks at time 0; later it knows the time itself

namespace {

constexpr uint64_t kHalfPeriod = 5000;  // ps
constexpr uint64_t kBusDelay = 1000;    // from clk to bus_clk
constexpr uint64_t kNever = ~0ull;

#if VM_TRACE
// Ends the simulation when the waveform cannot be written. Verilator's own exit would wait for a lock that it holds.
class WaveFile final : public VerilatedVcdFile {
  public:
    ssize_t write(const char* data, ssize_t size) override {
        const ssize_t written = VerilatedVcdFile::write(data, size);
        if (written < 0 && errno != EAGAIN && errno != EINTR) {
            fprintf(stderr, "the waveform cannot be written: %s\n", strerror(errno));
            _exit(1);
        }
        return written;
    }
};
#endif

class Simulation {
  public:
    explicit Simulation(const char* trace_file) {
        echo::set_idle(top_);
#if VM_TRACE
        context_.traceEverOn(true);
        if (trace_file) {
            trace_ = std::make_unique<VerilatedVcdC>(&wave_file_);
            top_.trace(trace_.get(), 99);
            trace_->open(trace_file);
        }
#else
        (void)trace_file;
#endif
    }

    void run() {
        VerilatedVpi::callCbs(cbStartOfSimulation);
        answer_changes();
        evaluate();
        while (!context_.gotFinish()) {
            const bool python_ran = step(next_time());
            // A callback for the next time step shows only when it is called. After one step without any there is none.
            if (!python_ran && alone()) run_clock();
        }
        top_.final();
    }

    // Idempotent: a fatal error ends the program from within the simulation.
    void finish() {
        if (finished_) return;
        finished_ = true;
        VerilatedVpi::callCbs(cbEndOfSimulation);
#if VM_TRACE
        if (trace_) trace_->close();
#endif
#if VM_COVERAGE
        context_.coveragep()->write();
#endif
    }

    int errors() const { return context_.errorCount(); }

  private:
    uint64_t next_time() const {
        return std::min({edge_, bus_rise_, bus_fall_, uint64_t{VerilatedVpi::cbNextDeadline()}});
    }

    // Does everything that happens at one time, in the order of IEEE 1800; returns whether a callback was called.
    bool step(uint64_t time) {
        bool called = VerilatedVpi::cbNextDeadline() <= time;
        context_.time(time);
        called |= VerilatedVpi::callCbs(cbNextSimTime);
        called |= answer_changes();
        VerilatedVpi::callTimedCbs();
        called |= answer_changes();
        if (called) top_.eval_step();  // what Python changed reaches the clock gates before the clock does
        if (time == edge_) toggle();
        if (time == bus_rise_) {
            top_.bus_clk = 1;
            bus_rise_ = kNever;
        }
        if (time == bus_fall_) {
            top_.bus_clk = 0;
            bus_fall_ = kNever;
        }
        return called | evaluate();
    }

    void toggle() {
        const bool rises = !echo::kClockFalls || !top_.tick;
        if (rises && top_.bus_enable) {
            bus_rise_ = edge_ + kBusDelay;
            bus_fall_ = edge_ + kHalfPeriod;
        }
        advance();
    }

    void advance() {
        top_.tick = !top_.tick;
        edge_ += echo::kClockFalls ? kHalfPeriod : 2 * kHalfPeriod;
    }

    // Lets the design and Python come to rest at the present time; returns whether a callback was called.
    bool evaluate() {
        bool called = false;
        do {
            do {
                top_.eval_step();
                VerilatedVpi::clearEvalNeeded();
                VerilatedVpi::doInertialPuts();
                called |= answer_changes();
            } while (VerilatedVpi::evalNeeded());
            called |= VerilatedVpi::callCbs(cbReadWriteSynch);
            VerilatedVpi::doInertialPuts();
            called |= answer_changes();
        } while (VerilatedVpi::evalNeeded());
        top_.eval_end_step();
        called |= VerilatedVpi::callCbs(cbReadOnlySynch);
#if VM_TRACE
        if (trace_) trace_->dump(context_.time());
#endif
        return called;
    }

    // Calls the callbacks of value changes until none is left: a callback may change values.
    static bool answer_changes() {
        if (!VerilatedVpi::callValueCbs()) return false;
        while (VerilatedVpi::callValueCbs()) {
        }
        return true;
    }

    // Whether only the clock moves, and nothing samples each edge.
    bool alone() const {
#if VM_TRACE
        if (trace_) return false;
#endif
        return !top_.bus_enable && bus_rise_ == kNever && bus_fall_ == kNever;
    }

    // Runs the clock alone, up to the time or the change that Python may wait for.
    void run_clock() {
        const uint64_t deadline = VerilatedVpi::cbNextDeadline();
        const auto irq = top_.irq;
        const auto done = top_.bfm_done;
        while (edge_ < deadline && !context_.gotFinish()) {
            context_.time(edge_);
            advance();
            top_.eval();
            if (top_.irq != irq || top_.bfm_done != done) {
                evaluate();
                return;
            }
        }
    }

    VerilatedContext& context_ = *Verilated::threadContextp();
    Vtop top_{""};
#if VM_TRACE
    WaveFile wave_file_;
    std::unique_ptr<VerilatedVcdC> trace_;
#endif
    uint64_t edge_ = kHalfPeriod;  // when tick changes next
    uint64_t bus_rise_ = kNever, bus_fall_ = kNever;
    bool finished_ = false;
};

}  // namespace

int main(int argc, char** argv) {
    const char* trace_file = nullptr;
    for (int i = 1; i + 1 < argc; ++i)
        if (strcmp(argv[i], "--trace-file") == 0) trace_file = argv[i + 1];
    Verilated::commandArgs(argc, argv);
    if (argc > 3 && strcmp(argv[1], "--cases") == 0) return echo::play_cases(argv[2], argv[3]);  // without cocotb
    Verilated::fatalOnVpiError(false);  // cocotb asks for objects that Verilator does not have
    Simulation simulation(trace_file);
    vlog_startup_routines_bootstrap();
    Verilated::addExitCb([](void* self) { static_cast<Simulation*>(self)->finish(); }, &simulation);
    simulation.run();
    simulation.finish();
    return simulation.errors() > 0 ? 1 : 0;
}
