// Plays packets against packet_checker as the command processor does, in a native loop.
//
// Usage: packet_checker_tb CASES ANSWERS. A case is 68 words of 32 bits: a packet and its extensions, zeros where there
// are none, the number of loaded words of program memory, base and size of the protected range, and the base's high word.
// An answer is kAnswer
// words; those after the error code and the two of its address are zero if the packet is refused.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../../../../runtime/echo_sim/board/contract.hpp"
#include "Vtop.h"
#include "verilated.h"

namespace {

constexpr int kPacketWords = 64, kCase = 68, kOperands = 5, kOperandWords = 17, kHead = 16;
constexpr int kAnswer = kHead + kOperands * kOperandWords;
constexpr int kMostClocks = 64;

class Checker {
  public:
    Checker() {
        for (int i = 0; i < 4; ++i) clock();
        top_.rst_ni = 1;
        clock();
    }
    ~Checker() { top_.final(); }

    void play(const uint32_t* words, uint32_t* answer) {
        for (int i = 0; i < kPacketWords; ++i) top_.words_i[i] = words[i];
        top_.program_words_i = words[kPacketWords];
        top_.guard_base_i = uint64_t(words[kPacketWords + 3]) << 32 | words[kPacketWords + 1];
        top_.guard_size_i = words[kPacketWords + 2];
        top_.eval();
        answer[0] = top_.head_error_o;
        if (answer[0] || words[0] == echo::kOpcodeNop || words[0] == echo::kOpcodeSync) return;
        if (words[1] & 1u << echo::kFlagExt) {
            answer[0] = top_.extension_error_o;
            if (answer[0]) return;
        }
        top_.start_i = 1;
        clock();
        top_.start_i = 0;
        top_.eval();
        for (int clocks = 0; !top_.done_o; ++clocks) {
            if (clocks == kMostClocks) {
                fprintf(stderr, "the checker does not end\n");
                exit(1);
            }
            clock();
        }
        answer[0] = top_.error_o;
        if (answer[0]) answer[1] = uint32_t(top_.error_addr_o);
        if (answer[0]) answer[2] = uint32_t(top_.error_addr_o >> 32);
        if (!answer[0]) {
            clock();
            for (int i = 3; i < kAnswer; ++i) answer[i] = top_.results_o[i - 3];
            top_.taken_i = 1;
        }
        clock();
        top_.taken_i = 0;
        top_.eval();
    }

  private:
    void clock() {
        top_.clk_i = 1;
        top_.eval();
        top_.clk_i = 0;
        top_.eval();
    }

    Vtop top_;
};

}  // namespace

int main(int argc, char** argv) {
    Verilated::commandArgs(argc, argv);
    FILE* cases = argc > 2 ? fopen(argv[1], "rb") : nullptr;
    FILE* answers = cases ? fopen(argv[2], "wb") : nullptr;
    if (!answers) {
        fprintf(stderr, "usage: packet_checker_tb CASES ANSWERS\n");
        return 1;
    }
    Checker checker;
    uint32_t words[kCase];
    while (fread(words, sizeof words, 1, cases) == 1) {
        std::vector<uint32_t> answer(kAnswer);
        checker.play(words, answer.data());
        fwrite(answer.data(), sizeof(uint32_t), answer.size(), answers);
    }
    return fclose(answers) == 0 ? 0 : 1;
}
