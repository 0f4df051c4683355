// Runs cases in place of cocotb (cases.cpp).
#pragma once

namespace echo {

// Plays the cases of one file and writes their records to the other. Returns the program's exit status: 0 when all
// cases ended, 3 when one did not, which is then the last one played. The program exits with 2 when the file is
// invalid. ECHO_NPU_MEMORY names the device memory. The random initial state depends on +verilator+seed.
int play_cases(const char* cases_path, const char* results_path);

}  // namespace echo
