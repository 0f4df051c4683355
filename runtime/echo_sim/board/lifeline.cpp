// Ends the simulator when the process that started it is gone, for whatever reason and at any point of the simulation.
// The starter keeps the write end of a pipe open; ECHO_NPU_LIFELINE is the number of the read end in this process.

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

namespace {

void watch(int fd, pid_t parent) {
    for (;;) {
        pollfd poller{fd, POLLIN, 0};
        const int ready = poll(&poller, 1, 500);
        char byte;
        // Nothing is ever written, so readable means closed. A fork of the starter may keep the pipe open: the
        // change of parent shows its death too.
        if ((ready > 0 && read(fd, &byte, 1) <= 0) || getppid() != parent) _exit(3);
    }
}

struct Lifeline {
    Lifeline() {
        if (const char* text = getenv("ECHO_NPU_LIFELINE"); text && *text)
            std::thread(watch, atoi(text), getppid()).detach();
    }
} lifeline;

}  // namespace
