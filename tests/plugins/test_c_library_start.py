"""How the C library finds a server or starts one, and what a server that it starts has of its process."""

import ctypes
import gc
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import echo_npu
from echo_npu.server import protocol
from echo_npu.server.server import DeviceServer
from tests.plugins.c_library import FLAGS, SOURCES, loaded
from tests.plugins.scripted_server import hello, scripted

HIGH = 5000
"""A descriptor beyond the usual limit of 1024, below the usual limit of the limit."""

FACTS = """output=$(readlink /proc/$$/fd/1)
exec > {facts}
echo "$@"
cut -d ' ' -f 6 /proc/$$/stat
readlink /proc/$$/fd/0
echo $output
readlink /proc/$$/fd/2
readlink /proc/$$/fd/* | grep -c {inherited}
exit 1
"""


@pytest.fixture
def no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_place_of_a_server: Callable[[str], Path]
) -> Path:
    """A program in place of the server, which writes its facts to a file. Return that."""
    facts = tmp_path / "facts"
    in_place_of_a_server(FACTS.format(facts=facts, inherited=tmp_path / "inherited"))
    monkeypatch.delenv("ECHO_NPU_DEBUG_LEVEL", raising=False)
    return facts


def facts_of(library_file: Path, facts: Path) -> list[str]:
    """Have the library start the program; return its arguments, session, standard input, output and error,
    and how many files it has inherited."""
    count = ctypes.c_int()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, HIGH + 1), hard))
    inherited = os.open(facts.parent / "inherited", os.O_CREAT | os.O_RDWR)
    high = os.dup2(inherited, HIGH)  # which makes it inheritable
    try:
        os.set_inheritable(inherited, True)
        assert loaded(library_file).echoNpuGetDeviceCount(ctypes.byref(count)) == 1
    finally:
        os.close(inherited)
        os.close(high)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return facts.read_text().splitlines()


def test_a_server_has_a_session_of_its_own_and_no_files_of_the_program(
    library_file: Path, no_server: Path
) -> None:
    arguments, session, *ends, inherited = facts_of(library_file, no_server)
    assert arguments == "serve --idle 10 --devices 1"
    assert int(session) != os.getsid(0)
    assert ends == 3 * ["/dev/null"]
    assert inherited == "0"


def test_the_number_of_devices_is_the_users(
    library_file: Path, no_server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHO_NPU_DEVICES", "3")
    monkeypatch.setenv("ECHO_NPU_DEBUG_LEVEL", "1")
    arguments, *_, error, _ = facts_of(library_file, no_server)
    assert arguments == "serve --idle 10 --devices 3"
    assert error != "/dev/null"


def test_an_empty_command_is_none(
    library_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHO_NPU_SOCKET", str(tmp_path / "none.sock"))
    monkeypatch.setenv("ECHO_NPU_COMMAND", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    own, count = loaded(library_file), ctypes.c_int()
    assert own.echoNpuGetDeviceCount(ctypes.byref(count)) == 1
    assert b"and echo-npu cannot be started: No such file" in own.echoNpuGetLastErrorMessage()


def test_the_servers_own_place_is_found(
    library_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ECHO_NPU_SOCKET", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("ECHO_NPU_COMMAND", str(tmp_path / "missing"))
    server = DeviceServer(tmp_path / "echo-npu" / "server.sock", [partial(echo_npu.open, "cmodel")] * 2)
    thread = threading.Thread(target=server.serve)
    thread.start()
    count = ctypes.c_int()
    try:
        error = loaded(library_file).echoNpuGetDeviceCount(ctypes.byref(count))
    finally:
        server.stop()
        thread.join(60)
    assert (error, count.value) == (0, 2)


def compiled(library: Path, *words: str) -> Path:
    """Compile the library with more words for the compiler."""
    subprocess.run(
        ["cc", *FLAGS, *words, "-shared", "-fPIC", *SOURCES, "-pthread", "-o", str(library)], check=True
    )
    return library


@pytest.fixture(scope="module")
def another_user(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of a user whom nobody is."""
    folder = tmp_path_factory.mktemp("another")
    user = folder / "user.c"
    user.write_text("unsigned another_user(void) { return 12345; }\n")
    return compiled(folder / "libanother.so", "-Dgetuid=another_user", str(user))


def test_a_server_of_another_user_is_refused(
    another_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "server.sock"
    monkeypatch.setenv("ECHO_NPU_SOCKET", str(path))
    monkeypatch.setenv("ECHO_NPU_COMMAND", "/bin/false")
    before = len(os.listdir("/proc/self/fd"))
    server = DeviceServer(path, [partial(echo_npu.open, "cmodel")])
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        own, count = loaded(another_user), ctypes.c_int()
        assert own.echoNpuGetDeviceCount(ctypes.byref(count)) == 1
        assert b"belongs to another user" in own.echoNpuGetLastErrorMessage()
    finally:
        server.stop()
        thread.join(60)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_program_outlives_its_server(library_file: Path, tmp_path: Path) -> None:
    """Python ignores SIGPIPE; a program in C does not."""
    path = tmp_path / "server.sock"
    program = f"""
import ctypes, signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
library, pointer = ctypes.CDLL({str(library_file)!r}), ctypes.c_void_p()
assert not library.echoNpuMalloc(ctypes.byref(pointer), ctypes.c_size_t(64))
print("ready", flush=True)
input()
print([library.echoNpuMalloc(ctypes.byref(pointer), ctypes.c_size_t(64)) for _ in range(3)])
"""
    server = DeviceServer(path, [partial(echo_npu.open, "cmodel")])
    thread = threading.Thread(target=server.serve)
    thread.start()
    environment = {**os.environ, "ECHO_NPU_SOCKET": str(path), "ECHO_NPU_COMMAND": "/bin/false"}
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "ready\n"
            server.stop()
            thread.join(60)
            answer, _ = child.communicate("\n", timeout=120)
        finally:
            child.kill()
            server.stop()
            thread.join(60)
    assert child.returncode != -signal.SIGPIPE
    assert answer.startswith("[1, ")


PLACES = [
    ({"ECHO_NPU_SOCKET": "{}/own.sock", "XDG_RUNTIME_DIR": "{}/user"}, "{}/own.sock"),
    ({"ECHO_NPU_SOCKET": "", "XDG_RUNTIME_DIR": "{}/user"}, "{}/user/echo-npu/server.sock"),
    ({"XDG_RUNTIME_DIR": "{}/user"}, "{}/user/echo-npu/server.sock"),
    ({"XDG_RUNTIME_DIR": ""}, "/tmp/echo-npu-12345/server.sock"),
    ({}, "/tmp/echo-npu-12345/server.sock"),
]
"""Variables, and where a server is looked for then; {} is a folder of the test."""


@pytest.mark.parametrize(("variables", "place"), PLACES)
def test_where_a_server_is_looked_for(
    another_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], place: str
) -> None:
    for name in ("ECHO_NPU_SOCKET", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    monkeypatch.setenv("ECHO_NPU_COMMAND", "/bin/false")
    own, count = loaded(another_user), ctypes.c_int()
    assert own.echoNpuGetDeviceCount(ctypes.byref(count)) == 1
    wanted = f"no device server at {place.format(tmp_path)}: No such file or directory, and "
    assert own.echoNpuGetLastErrorMessage().decode().startswith(wanted)


@pytest.mark.parametrize("variable", ["ECHO_NPU_SOCKET", "XDG_RUNTIME_DIR"])
def test_a_path_has_at_most_107_bytes(
    library_file: Path, no_server: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """A socket's address holds 108, of which the last one is zero. For a longer path no server is started."""
    if variable == "XDG_RUNTIME_DIR":
        monkeypatch.delenv("ECHO_NPU_SOCKET")
    rest = 0 if variable == "ECHO_NPU_SOCKET" else len("/echo-npu/server.sock")
    own, count = loaded(library_file), ctypes.c_int()
    for length in (108, 5000, 107):
        monkeypatch.setenv(variable, "/" + "x" * (length - rest - 1))
        assert own.echoNpuGetDeviceCount(ctypes.byref(count)) == 1
        too_long = own.echoNpuGetLastErrorMessage() == b"the path of the device server's socket is too long"
        assert too_long == (length > 107)
        assert no_server.exists() == (length == 107)


def test_an_empty_number_of_devices_is_one(
    library_file: Path, no_server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHO_NPU_DEVICES", "")
    assert facts_of(library_file, no_server)[0] == "serve --idle 10 --devices 1"


def test_a_server_has_the_terminal_of_its_program_for_errors_alone(
    library_file: Path, no_server: Path
) -> None:
    other, terminal = os.openpty()
    name, before = os.ttyname(terminal), [os.dup(each) for each in range(3)]
    try:
        for each in range(3):
            os.dup2(terminal, each)
        ends = facts_of(library_file, no_server)[2:5]
    finally:
        for each, old in enumerate(before):
            os.dup2(old, each)
            os.close(old)
        os.close(terminal)
        os.close(other)
    assert ends == ["/dev/null", "/dev/null", name]


@pytest.mark.parametrize("command", ["missing", "ends"])
def test_a_server_that_cannot_be_started_leaves_nothing(
    library_file: Path, no_server: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Neither a descriptor nor a child that nobody waits for."""
    if command == "missing":
        monkeypatch.setenv("ECHO_NPU_COMMAND", str(no_server.parent / "missing"))

    def held() -> tuple[int, str]:
        gc.collect()  # what other tests have left would be closed at some time
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="utf-8")
        return len(os.listdir("/proc/self/fd")), children

    own, before = loaded(library_file), held()
    assert own.echoNpuGetDeviceCount(ctypes.byref(ctypes.c_int())) == 1
    assert held() == before


@pytest.mark.parametrize("closed", [(), (0, 1), (0, 2), (0, 1, 2)])
def test_a_program_without_standard_files_is_told_why_no_server_starts(
    library_file: Path, tmp_path: Path, closed: tuple[int, ...]
) -> None:
    """What the library opens then has their numbers, which a server has for /dev/null."""
    program = f"""
import ctypes, os
for each in {closed}:
    os.close(each)
library = ctypes.CDLL({str(library_file)!r})
library.echoNpuGetLastErrorMessage.restype = ctypes.c_char_p
error = library.echoNpuGetDeviceCount(ctypes.byref(ctypes.c_int()))
open({str(tmp_path / "said")!r}, "wb").write(b"%d %s" % (error, library.echoNpuGetLastErrorMessage()))
"""
    place = {"ECHO_NPU_SOCKET": str(tmp_path / "none.sock"), "ECHO_NPU_COMMAND": str(tmp_path / "missing")}
    subprocess.run([sys.executable, "-S", "-c", program], env={**os.environ, **place}, check=True, timeout=60)
    words = b"the program in ECHO_NPU_COMMAND cannot be started: No such file or directory"
    assert (tmp_path / "said").read_bytes() == b"1 no device server runs, and " + words


def test_a_server_that_another_program_has_started_meanwhile_is_taken(
    library_file: Path, tmp_path: Path, in_place_of_a_server: Callable[[str], Path]
) -> None:
    """The one that the library starts finds the place taken, and ends."""
    path = tmp_path / "none.sock"
    in_place_of_a_server(f"mv {tmp_path}/first.sock {path}")
    own, count = loaded(library_file), ctypes.c_int()
    with scripted(tmp_path / "first.sock", [hello(5)]):
        error = own.echoNpuGetDeviceCount(ctypes.byref(count))
        if error:  # or the other end would wait
            socket.socket(socket.AF_UNIX).connect(str(path))
    assert (error, count.value) == (0, 5)


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, for which a second lasts a hundredth of one."""
    folder = tmp_path_factory.mktemp("hurried")
    clock = folder / "clock.c"
    clock.write_text(
        "#define _GNU_SOURCE\n#include <time.h>\n"
        "time_t hurried_time(time_t *into) {\n"
        "    (void)into;\n    struct timespec now;\n    clock_gettime(CLOCK_MONOTONIC, &now);\n"
        "    return 100 * now.tv_sec + now.tv_nsec / 10000000;\n}\n"
    )
    return compiled(folder / "libhurried.so", "-Dtime=hurried_time", str(clock))


def test_a_server_that_never_listens_is_given_up_after_a_minute(
    hurried: Path, tmp_path: Path, in_place_of_a_server: Callable[[str], Path]
) -> None:
    number = tmp_path / "number"
    in_place_of_a_server(f"echo $$ > {number}\nexec sleep 15")
    own = loaded(hurried)
    start = time.monotonic()
    error = own.echoNpuGetDeviceCount(ctypes.byref(ctypes.c_int()))
    os.kill(int(number.read_text()), signal.SIGKILL)
    assert error == 1
    assert 0.5 < time.monotonic() - start < 10
    assert own.echoNpuGetLastErrorMessage().endswith(b"none.sock: No such file or directory")


def test_a_server_that_takes_no_connection_is_given_up_and_no_other_one_started(
    hurried: Path, no_server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = no_server.parent / "full.sock"
    monkeypatch.setenv("ECHO_NPU_SOCKET", str(path))
    own, descriptors = loaded(hurried), len(os.listdir("/proc/self/fd"))
    with socket.socket(socket.AF_UNIX) as stopped, socket.socket(socket.AF_UNIX) as waiting:
        stopped.bind(str(path))
        stopped.listen(0)
        waiting.connect(str(path))
        start = time.monotonic()
        assert own.echoNpuGetDeviceCount(ctypes.byref(ctypes.c_int())) == 1
        assert time.monotonic() - start < 4
    assert own.echoNpuGetLastErrorMessage().endswith(b"full.sock: the one there takes no connection")
    assert not no_server.exists()
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_place_in_the_queue_is_waited_for(
    library_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that many clients come to at once takes them one after another."""
    path = tmp_path / "full.sock"
    monkeypatch.setenv("ECHO_NPU_SOCKET", str(path))
    own, count = loaded(library_file), ctypes.c_int()

    def late() -> None:
        time.sleep(0.1)
        waiting.close()
        listener.accept()[0].close()
        with listener.accept()[0] as connection:
            connection.recv(protocol.HEAD.size + protocol.HELLO.size, socket.MSG_WAITALL)
            connection.sendall(hello(7).data)
            connection.recv(1)

    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as waiting:
        listener.bind(str(path))
        listener.listen(0)
        waiting.connect(str(path))
        thread = threading.Thread(target=late)
        thread.start()
        error = own.echoNpuGetDeviceCount(ctypes.byref(count))
        thread.join()
    assert (error, count.value) == (0, 7)
