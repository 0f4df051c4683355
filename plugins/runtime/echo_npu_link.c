// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "echo_npu_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Of close_range, from Linux 5.11 on. Headers may be older.
enum { CLOSE_ON_EXEC = 1 << 2 };

enum { START_SECONDS = 60, QUEUE_SECONDS = 5, POLL_MILLISECONDS = 20, OLD_DESCRIPTORS = 65536 };

static int fail(struct echo_npu_link *link, int status, const char *format, ...) {
    va_list more;
    va_start(more, format);
    vsnprintf(link->message, sizeof link->message, format, more);
    va_end(more);
    return status;
}

static int ended(struct echo_npu_link *link) {
    int error = errno;
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    return fail(link, ECHO_NPU_NO_SERVER, "the device server has ended%s%s", error ? ": " : "", error ? strerror(error) : "");
}

static int place(struct echo_npu_link *link, struct sockaddr_un *address) {
    const char *given = getenv("ECHO_NPU_SOCKET"), *runtime = getenv("XDG_RUNTIME_DIR");
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int size;
    if (given && *given)
        size = snprintf(address->sun_path, sizeof address->sun_path, "%s", given);
    else if (runtime && *runtime)
        size = snprintf(address->sun_path, sizeof address->sun_path, "%s/echo-npu/server.sock", runtime);
    else
        size = snprintf(address->sun_path, sizeof address->sun_path, "/tmp/echo-npu-%u/server.sock", (unsigned)getuid());
    if (size >= (int)sizeof address->sun_path)
        return fail(link, ECHO_NPU_NO_SERVER, "the path of the device server's socket is too long");
    return ECHO_NPU_OK;
}

// Connect once. Only a server of the same user is one. After a failure errno is EAGAIN if a server is there that takes no
// connection; its queue of those is full.
static int connect_once(struct echo_npu_link *link, const struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail(link, ECHO_NPU_NO_SERVER, "no socket: %s", strerror(errno));
    struct ucred peer;
    socklen_t size = sizeof peer;
    int error;
    time_t until = time(NULL) + QUEUE_SECONDS;
    while ((error = connect(fd, (const struct sockaddr *)address, sizeof *address) < 0 ? errno : 0) == EAGAIN && time(NULL) < until)
        poll(NULL, 0, POLL_MILLISECONDS);
    if (error) {
        const char *why = error == EAGAIN ? "the one there takes no connection" : strerror(error);
        fail(link, ECHO_NPU_NO_SERVER, "no device server at %s: %s", address->sun_path, why);
        close(fd);
        errno = error;
        return ECHO_NPU_NO_SERVER;
    }
    fcntl(fd, F_SETFL, 0);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != getuid()) {
        close(fd);
        return fail(link, ECHO_NPU_NO_SERVER, "the server at %s belongs to another user", address->sun_path);
    }
    link->fd = fd;
    return ECHO_NPU_OK;
}

// Let a program that is run next have the first three descriptors and `kept`, and no others. Without close_range only
// those below OLD_DESCRIPTORS are looked at: a limit of a thousand million would take minutes.
static void inherit_only(int kept) {
    int done = -1;
#ifdef SYS_close_range
    done = (int)syscall(SYS_close_range, 3U, ~0U, CLOSE_ON_EXEC);
#endif
    for (int fd = 3; done < 0 && fd < OLD_DESCRIPTORS; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(kept, F_SETFD, 0);
}

// The program that serves, from the environment.
static const char *server_command(void) {
    const char *command = getenv("ECHO_NPU_COMMAND");
    return command && *command ? command : NULL;
}

// Become the server; return only if that is impossible. It keeps nothing that this process has open but `life`, and its
// standard error only where somebody reads it: a pipe would stay open for as long as the server runs. It blocks no signals,
// even if the thread that starts it does.
static void become_server(int life) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    const char *command = server_command(), *devices = getenv("ECHO_NPU_DEVICES");
    command = command ? command : "echo-npu";
    devices = devices && *devices ? devices : "1";
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    if (!isatty(2) && !getenv("ECHO_NPU_DEBUG_LEVEL"))
        dup2(null, 2);
    inherit_only(life);
    execlp(command, command, "serve", "--idle", "10", "--devices", devices, (char *)NULL);
}

// Start a server that outlives this process. Return 0, or the errno for which the program could not be run. *life is a
// descriptor that hangs up when the server ends.
static int start_server(int *life) {
    int ends[2], lives[2], error = 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    if (pipe2(lives, O_CLOEXEC) < 0) {
        error = errno;
        close(ends[0]);
        close(ends[1]);
        return error;
    }
    pid_t child = fork();
    if (child == 0) {
        // One of the first three, if the program has closed them, would become /dev/null.
        int told = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
        pid_t server = setsid() < 0 ? -1 : fork();
        if (server == 0)
            become_server(lives[1]);
        if (server > 0)
            _exit(0);
        error = errno;
        _exit(write(told, &error, sizeof error) != (ssize_t)sizeof error);
    }
    if (child < 0)
        error = errno;
    close(ends[1]);
    close(lives[1]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    // The pipe closes when the program runs.
    ssize_t got;
    while ((got = read(ends[0], &error, sizeof error)) < 0 && errno == EINTR) {
    }
    if (got < 0)
        error = errno;
    close(ends[0]);
    if (error)
        close(lives[0]);
    *life = lives[0];
    return error;
}

// Connect to the server, and start one if none runs and `start` is not 0.
static int reach(struct echo_npu_link *link, const struct sockaddr_un *address, int start) {
    int status = connect_once(link, address), life = -1;
    if (!status || !start || errno == EAGAIN)
        return status;
    const char *program = server_command() ? "the program in ECHO_NPU_COMMAND" : "echo-npu";
    int error = start_server(&life);
    if (error)
        return fail(link, ECHO_NPU_NO_SERVER, "no device server runs, and %s cannot be started: %s", program, strerror(error));
    time_t until = time(NULL) + START_SECONDS;
    int over = 0;
    while ((status = connect_once(link, address)) && !over && time(NULL) < until) {
        struct pollfd end = {life, 0, 0};
        over = poll(&end, 1, POLL_MILLISECONDS) > 0;  // if another server was first, it listens now
    }
    close(life);
    if (status && over) {
        char why[sizeof link->message];
        memcpy(why, link->message, sizeof why);
        fail(link, status, "%.500s, and %s has ended: `echo-npu serve` says why", why, program);
    }
    return status;
}

static int exactly(struct echo_npu_link *link, void *data, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        ssize_t got = recv(link->fd, (char *)data + at, bytes - at, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got ? errno : 0;
            return ended(link);
        }
        at += (size_t)got;
    }
    return ECHO_NPU_OK;
}

static int send_all(struct echo_npu_link *link, const void *data, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        ssize_t sent = send(link->fd, (const char *)data + at, bytes - at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return ended(link);
        at += (size_t)sent;
    }
    return ECHO_NPU_OK;
}

// End a connection whose other side breaks the protocol: nobody knows where its next answer would begin.
static int broken(struct echo_npu_link *link, const char *what, uint64_t number) {
    close(link->fd);
    link->fd = -1;
    return fail(link, ECHO_NPU_BAD_MESSAGE, "the device server breaks the protocol: %s %llu", what, (unsigned long long)number);
}

// Read what follows the head of an answer.
static int content(struct echo_npu_link *link, const struct echo_npu_head *head, void *answer, size_t most, size_t *got) {
    if (head->bytes > ECHO_NPU_MAX_MESSAGE)
        return broken(link, "the length", head->bytes);
    if (head->zero || head->kind > ECHO_NPU_NOT_A_NUMBER)
        return broken(link, head->zero ? "the reserved word" : "the status", head->zero ? head->zero : head->kind);
    char *target = head->kind == ECHO_NPU_OK ? answer : link->message;
    size_t room = head->kind == ECHO_NPU_OK ? most : sizeof link->message - 1;
    size_t stored = head->bytes < room ? (size_t)head->bytes : room;
    if (stored && exactly(link, target, stored))
        return ECHO_NPU_NO_SERVER;
    for (uint64_t left = head->bytes - stored; left;) {
        char dropped[4096];
        size_t part = left < sizeof dropped ? (size_t)left : sizeof dropped;
        if (exactly(link, dropped, part))
            return ECHO_NPU_NO_SERVER;
        left -= part;
    }
    if (head->kind != ECHO_NPU_OK)
        link->message[stored] = 0;
    if (head->kind != ECHO_NPU_OK && !link->message[0])
        fail(link, (int)head->kind, "the device server gives no reason");
    if (got)
        *got = (size_t)head->bytes;
    return (int)head->kind;
}

static int request(struct echo_npu_link *link, int kind, const struct echo_npu_part *parts, size_t count) {
    struct echo_npu_head head = {(uint32_t)kind, 0, 0};
    for (size_t i = 0; i < count; i++)
        head.bytes += parts[i].bytes;
    if (head.bytes > ECHO_NPU_MAX_MESSAGE)
        return fail(link, ECHO_NPU_BAD_ARGUMENT, "a message of %llu bytes", (unsigned long long)head.bytes);
    if (link->fd < 0)
        return fail(link, ECHO_NPU_NO_SERVER, "the connection to the device server has ended");
    int status = send_all(link, &head, sizeof head);
    for (size_t i = 0; i < count && !status; i++)
        status = send_all(link, parts[i].data, parts[i].bytes);
    return status;
}

int echo_npu_link_ask(struct echo_npu_link *link, int kind, const struct echo_npu_part *parts, size_t count, void *answer,
                      size_t most, size_t *got) {
    struct echo_npu_head head;
    int status = request(link, kind, parts, count);
    if (!status)
        status = exactly(link, &head, sizeof head);
    return status ? status : content(link, &head, answer, most, got);
}

static int greet(struct echo_npu_link *link) {
    struct echo_npu_hello hello = {ECHO_NPU_PROTOCOL_VERSION, 0};
    struct echo_npu_part part = {&hello, sizeof hello};
    size_t got = 0;
    int status = echo_npu_link_ask(link, ECHO_NPU_HELLO, &part, 1, &hello, sizeof hello, &got);
    if (!status && got != sizeof hello)
        status = broken(link, "the length of the answer to HELLO", got);
    if (!status && hello.devices > ECHO_NPU_MAX_DEVICES)
        status = broken(link, "the number of devices", hello.devices);
    link->devices = status ? 0 : hello.devices;
    return status;
}

int echo_npu_link_connect(struct echo_npu_link *link, int start) {
    struct sockaddr_un address;
    memset(link, 0, sizeof *link);
    link->fd = -1;
    int status = place(link, &address);
    if (status)
        return status;
    // A server that ends, for want of clients, may end a connection before it answers. There is room for the next one then.
    for (int attempt = 0; attempt < 2; attempt++) {
        status = reach(link, &address, start);
        if (status)
            return status;
        status = greet(link);
        if (status != ECHO_NPU_NO_SERVER)
            break;
    }
    if (status)
        echo_npu_link_close(link);
    return status;
}

int echo_npu_link_open(struct echo_npu_link *link, unsigned device) {
    uint64_t number = device;
    struct echo_npu_part part = {&number, sizeof number};
    struct echo_npu_head head;
    struct echo_npu_opened opened;
    int status = request(link, ECHO_NPU_OPEN, &part, 1);
    if (status)
        return status;

    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {&head, sizeof head};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_LEN(sizeof(int))};  // with the padding there is room for two
    ssize_t size;
    while ((size = recvmsg(link->fd, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL)) < 0 && errno == EINTR) {
    }
    int memory = -1, error = size < 0 ? errno : 0;
    struct cmsghdr *found = size < 0 ? NULL : CMSG_FIRSTHDR(&message);
    if (found && found->cmsg_level == SOL_SOCKET && found->cmsg_type == SCM_RIGHTS)
        memcpy(&memory, CMSG_DATA(found), sizeof memory);
    if (size != (ssize_t)sizeof head) {
        if (memory >= 0)
            close(memory);
        errno = error;
        return ended(link);
    }
    size_t got = 0;
    status = content(link, &head, &opened, sizeof opened, &got);
    struct stat facts;
    if (!status && (memory < 0 || got != sizeof opened || fstat(memory, &facts) < 0 || facts.st_size <= 0))
        status = broken(link, "memory in the answer to OPEN of bytes", got);
    // A mapping that is longer than its file kills who reads it.
    if (!status && opened.bytes != (uint64_t)facts.st_size)
        status = broken(link, "the size of memory", opened.bytes);
    if (!status) {
        void *mapped = mmap(NULL, opened.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
        if (mapped == MAP_FAILED) {
            status = fail(link, ECHO_NPU_OUT_OF_MEMORY, "device memory cannot be mapped: %s", strerror(errno));
        } else {
            link->memory = mapped;
            link->bytes = opened.bytes;
            memcpy(link->description, opened.description, sizeof link->description - 1);
        }
    }
    if (memory >= 0)
        close(memory);
    return status;
}

void echo_npu_link_close(struct echo_npu_link *link) {
    if (link->memory)
        munmap(link->memory, link->bytes);
    link->memory = NULL;
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
}
