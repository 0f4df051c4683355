// The main program's other use: executing cases in place of cocotb (cases.cpp).
#pragma once

namespace echo {

// Plays the cases of one file and writes their records to the other. Returns the program's exit status: 0 when all
// ended, 3 when one did not, which is then the last; the program ends with 2 when it cannot make sense of them.
// ECHO_NPU_MEMORY names the device memory. What is random at first depends on +verilator+seed.
int play_cases(const char* cases_path, const char* results_path);

}  // namespace echo
