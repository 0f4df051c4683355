// The main program of a design whose only input is a clock: it runs until $finish.
#include "Vtop.h"
#include "verilated.h"

int main(int argc, char** argv) {
    Verilated::commandArgs(argc, argv);
    Vtop top;
    while (!Verilated::gotFinish()) {
        top.clk = !top.clk;
        top.eval();
    }
    top.final();
    return 0;
}
