"""How the C library finds a server or starts one, and what a server that it starts has of its process."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

import echo_npu
from echo_npu.server.server import DeviceServer
from tests.plugins.test_c_library import FLAGS, SOURCES, library_file

__all__ = ["library_file"]

HIGH = 5000
"""A descriptor beyond the usual limit of 1024, below the usual limit of the limit."""

FACTS = """#!/bin/sh
exec > {facts}
echo "$@"
cut -d ' ' -f 6 /proc/$$/stat
readlink /proc/$$/fd/2
readlink /proc/$$/fd/* | grep -c {inherited}
exit 1
"""


@pytest.fixture
def no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of the server, which writes its facts to a file. Return that."""
    facts, command = tmp_path / "facts", tmp_path / "serve"
    command.write_text(FACTS.format(facts=facts, inherited=tmp_path / "inherited"))
    command.chmod(0o700)
    monkeypatch.setenv("ECHO_NPU_SOCKET", str(tmp_path / "none.sock"))
    monkeypatch.setenv("ECHO_NPU_COMMAND", str(command))
    monkeypatch.delenv("ECHO_NPU_DEBUG_LEVEL", raising=False)
    return facts


def facts_of(library_file: Path, facts: Path) -> list[str]:
    """Have the library start the program; return its arguments, session, standard error, and how many
    files it has inherited."""
    count = ctypes.c_int()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, HIGH + 1), hard))
    inherited = os.open(facts.parent / "inherited", os.O_CREAT | os.O_RDWR)
    high = os.dup2(inherited, HIGH)  # which makes it inheritable
    try:
        os.set_inheritable(inherited, True)
        assert ctypes.CDLL(str(library_file)).echoNpuGetDeviceCount(ctypes.byref(count)) == 1
    finally:
        os.close(inherited)
        os.close(high)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return facts.read_text().splitlines()


def test_a_server_has_a_session_of_its_own_and_no_files_of_the_program(
    library_file: Path, no_server: Path
) -> None:
    arguments, session, error, inherited = facts_of(library_file, no_server)
    assert arguments == "serve --idle 10 --devices 1"
    assert int(session) != os.getsid(0)
    assert error == "/dev/null"
    assert inherited == "0"


def test_the_number_of_devices_is_the_users(
    library_file: Path, no_server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHO_NPU_DEVICES", "3")
    monkeypatch.setenv("ECHO_NPU_DEBUG_LEVEL", "1")
    arguments, _, error, _ = facts_of(library_file, no_server)
    assert arguments == "serve --idle 10 --devices 3"
    assert error != "/dev/null"


def test_an_empty_command_is_none(
    library_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHO_NPU_SOCKET", str(tmp_path / "none.sock"))
    monkeypatch.setenv("ECHO_NPU_COMMAND", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    loaded, count = ctypes.CDLL(str(library_file)), ctypes.c_int()
    loaded.echoNpuGetLastErrorMessage.restype = ctypes.c_char_p
    assert loaded.echoNpuGetDeviceCount(ctypes.byref(count)) == 1
    assert b"and echo-npu cannot be started: No such file" in loaded.echoNpuGetLastErrorMessage()


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
        error = ctypes.CDLL(str(library_file)).echoNpuGetDeviceCount(ctypes.byref(count))
    finally:
        server.stop()
        thread.join(60)
    assert (error, count.value) == (0, 2)


def test_a_server_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is one of a user whom nobody is."""
    library, user = tmp_path / "libother.so", tmp_path / "user.c"
    user.write_text("unsigned another_user(void) { return 12345; }\n")
    words = ["-Dgetuid=another_user", "-shared", "-fPIC", *SOURCES, str(user), "-pthread", "-o", str(library)]
    subprocess.run(["cc", *FLAGS, *words], check=True)
    path = tmp_path / "server.sock"
    monkeypatch.setenv("ECHO_NPU_SOCKET", str(path))
    monkeypatch.setenv("ECHO_NPU_COMMAND", "/bin/false")
    server = DeviceServer(path, [partial(echo_npu.open, "cmodel")])
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        loaded, count = ctypes.CDLL(str(library)), ctypes.c_int()
        loaded.echoNpuGetLastErrorMessage.restype = ctypes.c_char_p
        assert loaded.echoNpuGetDeviceCount(ctypes.byref(count)) == 1
        assert b"belongs to another user" in loaded.echoNpuGetLastErrorMessage()
    finally:
        server.stop()
        thread.join(60)


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
