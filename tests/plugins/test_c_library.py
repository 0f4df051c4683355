"""The C library: its header agrees with the server, its functions compute, its errors have words."""

import contextlib
import ctypes
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from echo_npu.server import protocol
from echo_npu.server.graphs import MOST_GRAPHS
from echo_npu.server.protocol import AnswerStatus
from tb.repository import ROOT
from tests.plugins.c_library import (
    FLAGS,
    RANDOM,
    RUNTIME,
    SOURCES,
    DeviceArray,
    loaded,
    memories,
    random,
    sizes,
)
from tests.runtime.server.server_client import ServerClient, opened


def test_the_header_agrees_with_the_server(tmp_path: Path) -> None:
    structs = {
        "head": protocol.HEAD,
        "hello": protocol.HELLO,
        "opened": protocol.OPENED,
        "memory": protocol.MEMORY,
        "blocks": protocol.BLOCKS,
        "range": protocol.RANGE,
        "graph": protocol.GRAPH,
        "counters": protocol.COUNTERS,
        "tensor": protocol.TENSOR,
        "node": protocol.NODE,
    }
    header = (RUNTIME / "echo_npu_protocol.h").read_text(encoding="utf-8")
    assert set(re.findall(r"^struct echo_npu_(\w+) {", header, re.MULTILINE)) == set(structs)
    constants = {
        f"ECHO_NPU_{each.name}": each.value
        for kind in (protocol.RequestKind, protocol.AnswerStatus)
        for each in kind
    }
    constants |= {f"ECHO_NPU_TENSOR_{each.name}": each.value for each in protocol.TensorFlag}
    constants |= {f"ECHO_NPU_GRAPH_{each.name}": each.value for each in protocol.GraphFlag}
    assert set(re.findall(r"^    (ECHO_NPU_\w+) = ", header, re.MULTILINE)) == set(constants)
    constants |= {
        "ECHO_NPU_PROTOCOL_VERSION": protocol.VERSION,
        "ECHO_NPU_MAX_MESSAGE": protocol.MAX_MESSAGE,
        "ECHO_NPU_MAX_NODES": protocol.MAX_NODES,
        "ECHO_NPU_MAX_SOURCES": protocol.MAX_SOURCES,
        "ECHO_NPU_MAX_DEVICES": protocol.MOST_LENT,
        "ECHO_NPU_MOST_GRAPHS": MOST_GRAPHS,
        "ECHO_NPU_DIMENSIONS": protocol.DIMENSIONS,
        "ECHO_NPU_PARAMETER_WORDS": protocol.PARAMETER_WORDS,
    }
    checks = [
        f'_Static_assert(sizeof(struct echo_npu_{name}) == {form.size}, "");'
        for name, form in structs.items()
    ]
    checks += [f'_Static_assert({name} == {value}, "");' for name, value in constants.items()]
    program = tmp_path / "agree.c"
    program.write_text('#include "echo_npu_protocol.h"\n' + "\n".join(checks), encoding="utf-8")
    subprocess.run(["cc", *FLAGS, "-fsyntax-only", str(program)], check=True)


def test_products(library: ctypes.CDLL) -> None:
    a, b, c = random(3, 5, 40), random(3, 40, 7), np.zeros((3, 5, 7), np.float32)
    left, right, product = memories(library, a, b, c)
    assert not library.echoNpuBatchMatMul(
        product.pointer, left.pointer, right.pointer, *sizes(3, 5, 40, 7), 0
    )
    assert np.abs(product.read() - a @ b).max() < 1e-4
    single = random(5, 7)
    (one,) = memories(library, single)
    assert not library.echoNpuMatMul(one.pointer, left.pointer, right.pointer, *sizes(5, 40, 7), 0)
    assert np.abs(one.read() - a[0] @ b[0]).max() < 1e-4


@pytest.mark.parametrize("kind", [1, 2])
def test_products_of_short_floats(library: ctypes.CDLL, kind: int) -> None:
    # Small whole numbers are exact in both types.
    a, b = (RANDOM.integers(-8, 8, shape).astype(np.float32) for shape in ((2, 5, 40), (2, 40, 7)))
    stored = [
        (each.view(np.uint32) >> 16).astype(np.uint16) if kind == 2 else each.astype(np.float16)
        for each in (a, b)
    ]
    left, right, product = memories(library, *stored, np.zeros((2, 5, 7), np.float32))
    assert not library.echoNpuBatchMatMul(
        product.pointer, left.pointer, right.pointer, *sizes(2, 5, 40, 7), kind
    )
    assert np.array_equal(product.read(), a @ b)


@pytest.mark.parametrize("result", ["a", "b", "c"])
@pytest.mark.parametrize("alpha", [1.0, -0.5])
def test_a_sum_into_any_of_its_tensors(library: ctypes.CDLL, result: str, alpha: float) -> None:
    values = dict(zip("abc", [random(100) for _ in range(3)], strict=True))
    held = {name: DeviceArray(library, each) for name, each in values.items()}
    assert not library.echoNpuAddTensor(
        held[result].pointer, held["a"].pointer, held["b"].pointer, ctypes.c_float(alpha), *sizes(100)
    )
    assert np.abs(held[result].read() - (values["a"] + np.float32(alpha) * values["b"])).max() < 1e-6


def test_vector_operations(library: ctypes.CDLL) -> None:
    x, y = random(100), 1 + random(100) ** 2
    sigmoid = 1 / (1 + np.exp(-x.astype(np.float64)))
    wanted = {
        "Sub": x - y, "Mul": x * y, "Div": x / y,
        "Neg": -x, "Abs": np.abs(x), "ReLU": np.maximum(x, 0), "Exp": np.exp(x),
        "Sin": np.sin(x), "Cos": np.cos(x),
        "Tanh": np.tanh(x), "Sigmoid": sigmoid, "SiLU": x * sigmoid,
    }  # fmt: skip
    of_positive = {"Sqrt": np.sqrt(y), "Rsqrt": 1 / np.sqrt(y), "Reciprocal": 1 / y, "Log": np.log(y)}
    left, right, out = memories(library, x, y, x)
    for name, exact in (wanted | of_positive).items():
        operands = (
            [left, right] if name in ("Sub", "Mul", "Div") else [right if name in of_positive else left]
        )
        function = getattr(library, f"echoNpu{name}")
        assert not function(out.pointer, *(each.pointer for each in operands), *sizes(100))
        assert np.abs(out.read() - exact).max() < 1e-5 * max(1, np.abs(exact).max()), name
    assert not library.echoNpuScale(out.pointer, left.pointer, ctypes.c_float(2.5), *sizes(100))
    assert np.array_equal(out.read(), np.float32(2.5) * x)
    assert not library.echoNpuGELU(out.pointer, left.pointer, *sizes(100))
    gelu = [value * (1 + math.erf(value / math.sqrt(2))) / 2 for value in x.tolist()]
    assert np.abs(out.read() - gelu).max() < 1e-5


def test_rows(library: ctypes.CDLL) -> None:
    x, weight = random(5, 20), random(20)
    held, weights, out = memories(library, x, weight, x)
    assert not library.echoNpuSoftmax(out.pointer, held.pointer, *sizes(5, 20))
    powers = np.exp(x)
    assert np.abs(out.read() - powers / powers.sum(-1, keepdims=True)).max() < 1e-6
    eps = ctypes.c_float(1e-5)
    assert not library.echoNpuRMSNorm(out.pointer, held.pointer, weights.pointer, eps, *sizes(5, 20))
    exact = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight
    assert np.abs(out.read() - exact).max() < 1e-5 * np.abs(exact).max()
    # The result may be the operand, and there may be no weights.
    assert not library.echoNpuRMSNorm(held.pointer, held.pointer, None, eps, *sizes(5, 20))
    exact = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    assert np.abs(held.read() - exact).max() < 1e-5 * np.abs(exact).max()


def test_attention(library: ctypes.CDLL) -> None:
    q, k, v = random(4, 3, 16), random(2, 9, 16), random(2, 9, 16)
    query, key, value, out = memories(library, q, k, v, q)
    assert not library.echoNpuSDPA(
        out.pointer, query.pointer, key.pointer, value.pointer, ctypes.c_float(0.25), *sizes(4, 2, 3, 9, 16)
    )
    powers = np.exp(0.25 * q @ k.repeat(2, axis=0).swapaxes(-1, -2))
    exact = powers / powers.sum(-1, keepdims=True) @ v.repeat(2, axis=0)
    assert np.abs(out.read() - exact).max() < 1e-5


def test_memory_of_two_devices(library: ctypes.CDLL) -> None:
    count = ctypes.c_int()
    assert not library.echoNpuGetDeviceCount(ctypes.byref(count))
    assert count.value == 2
    (first,) = memories(library, random(50))
    assert not library.echoNpuSetDevice(1)
    (second,) = memories(library, random(50))
    assert not library.echoNpuMemcpy(second.pointer, first.pointer, ctypes.c_size_t(200), 4)
    assert np.array_equal(second.read(), first.like)
    assert not library.echoNpuMemset(second.pointer, 0, ctypes.c_size_t(100))
    assert np.array_equal(second.read()[:25], np.zeros(25))
    assert library.echoNpuAbs(first.pointer, second.pointer, *sizes(50)) == 5
    assert b"not on one device" in library.echoNpuGetLastErrorMessage()
    assert not library.echoNpuFree(second.pointer)
    assert library.echoNpuSetDevice(2) == 5


def test_a_scaled_sum_on_a_device_that_is_not_the_current_one(library: ctypes.CDLL) -> None:
    assert not library.echoNpuSetDevice(1)
    a, b, c = memories(library, random(40), random(40), random(40))
    assert not library.echoNpuSetDevice(0)
    alpha = ctypes.c_float(0.5)
    assert not library.echoNpuAddTensor(c.pointer, a.pointer, b.pointer, alpha, *sizes(40))
    wanted = a.like + np.float32(0.5) * b.like
    assert np.allclose(c.read(), wanted, rtol=1e-6)
    assert not library.echoNpuAddTensor(a.pointer, a.pointer, b.pointer, alpha, *sizes(40))
    assert np.allclose(a.read(), wanted, rtol=1e-6)
    current = ctypes.c_int()
    assert not library.echoNpuGetDevice(ctypes.byref(current))
    assert current.value == 0


def test_errors_have_words(library: ctypes.CDLL, server_path: Path) -> None:
    (x,) = memories(library, random(4))
    pointer = ctypes.c_void_p()
    assert library.echoNpuMalloc(ctypes.byref(pointer), ctypes.c_size_t(1 << 40)) == 4
    assert b"out of memory" in library.echoNpuGetLastErrorMessage()
    assert library.echoNpuMemcpy(x.pointer, x.pointer, ctypes.c_size_t(4), 1) == 5
    assert library.echoNpuMemcpy(x.pointer, x.pointer, ctypes.c_size_t(4), 3) == 5
    assert b"overlap" in library.echoNpuGetLastErrorMessage()
    assert library.echoNpuAbs(x.pointer, x.pointer, *sizes(0)) == 5
    for count in (0, -1, 1 << 62):
        assert (
            library.echoNpuAddTensor(x.pointer, x.pointer, x.pointer, ctypes.c_float(2), *sizes(count)) == 5
        )
    # Rows of such a matrix are farther apart than any memory is large.
    assert library.echoNpuMatMul(x.pointer, x.pointer, x.pointer, *sizes(*3 * [1 << 39]), 0) == 5
    assert library.echoNpuSoftmax(x.pointer, x.pointer, *sizes(1 << 39, 1 << 39)) == 5
    assert library.echoNpuAbs(x.pointer, x.pointer, *sizes(1 << 30)) == 6
    assert library.echoNpuGetErrorString(4) == b"out of device memory"
    with ServerClient(server_path) as other:
        assert other.hello() == 2
    assert library.echoNpuFree(ctypes.c_void_p(x.pointer.value + 64)) == 5  # type: ignore[operator]
    assert np.array_equal(x.read(), x.like)


def test_a_device_of_another_program(library: ctypes.CDLL, server_path: Path) -> None:
    pointer = ctypes.c_void_p()
    with opened(server_path):
        assert library.echoNpuMalloc(ctypes.byref(pointer), ctypes.c_size_t(64)) == 3
        assert b"in use" in library.echoNpuGetLastErrorMessage()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (AnswerStatus.BAD_MESSAGE, 1),
        (AnswerStatus.BAD_VERSION, 2),
        (AnswerStatus.DEVICE_IN_USE, 3),
        (AnswerStatus.OUT_OF_MEMORY, 4),
        (AnswerStatus.BAD_ARGUMENT, 5),
        (AnswerStatus.NOT_SUPPORTED, 6),
        (AnswerStatus.DEVICE_FAILED, 7),
    ],
)
def test_a_status_is_an_error_with_the_words_of_the_server(
    library_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: AnswerStatus, error: int
) -> None:
    path = tmp_path / "server.sock"
    monkeypatch.setenv("ECHO_NPU_SOCKET", str(path))
    own = loaded(library_file)

    def serve(listener: socket.socket) -> None:
        with listener.accept()[0] as connection:
            connection.recv(protocol.HEAD.size + protocol.HELLO.size, socket.MSG_WAITALL)
            connection.sendall(protocol.HEAD.pack(status, 0, 7) + b"because")
            connection.recv(1)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        assert own.echoNpuGetDeviceCount(ctypes.byref(ctypes.c_int())) == error
        thread.join()
    assert own.echoNpuGetLastErrorMessage() == b"because"
    assert own.echoNpuGetErrorString(error) not in (b"success", b"unknown error")


def test_the_example_starts_a_server_that_goes_away(tmp_path: Path) -> None:
    program, path = tmp_path / "matmul", tmp_path / "own.sock"
    source = ROOT / "examples" / "matmul.c"
    subprocess.run(["cc", *FLAGS, str(source), *SOURCES, "-pthread", "-lm", "-o", str(program)], check=True)
    command = tmp_path / "serve"
    command.write_text(
        f"#!{sys.executable}\nimport sys\nfrom echo_npu.cli import main\n"
        "sys.argv[sys.argv.index('10')] = '0.2'\nmain()\n"
    )
    command.chmod(0o700)
    environment = {
        **os.environ,
        "ECHO_NPU_SOCKET": str(path),
        "ECHO_NPU_BACKEND": "cmodel",
        "ECHO_NPU_COMMAND": str(command),
    }
    ran = subprocess.run([str(program)], env=environment, capture_output=True, text=True, timeout=120)
    assert ran.stdout == "5 x 64 x 24 on the NPU, largest error 0\n", ran.stderr
    for _ in range(300):
        if not path.exists():
            break
        subprocess.run(["sleep", "0.1"], check=True)
    assert not path.exists()


def test_a_server_that_cannot_be_started_is_an_error_at_once(
    library_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHO_NPU_SOCKET", str(tmp_path / "none.sock"))
    monkeypatch.setenv("ECHO_NPU_COMMAND", str(tmp_path / "missing"))
    own = loaded(library_file)
    count = ctypes.c_int()
    assert own.echoNpuGetDeviceCount(ctypes.byref(count)) == 1
    assert b"ECHO_NPU_COMMAND cannot be started: No such file" in own.echoNpuGetLastErrorMessage()


@pytest.mark.usefixtures("usual_signals")
def test_a_server_that_ends_at_once_is_an_error_and_inherits_no_blocked_signals(
    library_file: Path, tmp_path: Path, in_place_of_a_server: Callable[[str], Path]
) -> None:
    facts = tmp_path / "facts"
    in_place_of_a_server(f"grep SigBlk /proc/self/status > {facts}\nexit 1")
    own = loaded(library_file)
    count = ctypes.c_int()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    start = time.monotonic()
    try:
        assert own.echoNpuGetDeviceCount(ctypes.byref(count)) == 1
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert time.monotonic() - start < 40
    assert b"the program in ECHO_NPU_COMMAND has ended" in own.echoNpuGetLastErrorMessage()
    assert int(facts.read_text().split()[1], 16) == 0


def test_a_server_that_is_ending_is_replaced_by_the_next_one(
    library_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "server.sock"
    monkeypatch.setenv("ECHO_NPU_SOCKET", str(path))
    monkeypatch.setenv("ECHO_NPU_COMMAND", str(tmp_path / "missing"))
    own = loaded(library_file)
    count = ctypes.c_int()

    def serve(listener: socket.socket) -> None:
        listener.accept()[0].close()  # it was idle for too long
        with contextlib.suppress(TimeoutError), listener.accept()[0] as connection:
            connection.recv(protocol.HEAD.size + protocol.HELLO.size, socket.MSG_WAITALL)
            answer = protocol.HELLO.pack(protocol.VERSION, 3)
            connection.sendall(protocol.HEAD.pack(0, 0, len(answer)) + answer)
            connection.recv(1)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(10)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        error = own.echoNpuGetDeviceCount(ctypes.byref(count))
        thread.join()
    assert (error, count.value) == (0, 3)


def test_a_server_that_dies_is_an_error(
    library_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own.sock"
    monkeypatch.setenv("ECHO_NPU_SOCKET", str(path))
    program = [sys.executable, "-c", "from echo_npu.cli import main; main()"]
    with subprocess.Popen(
        [*program, "serve", "--backend", "cmodel"], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == f"listening at {path}\n"
            own = loaded(library_file)
            own.echoNpuGetLastErrorMessage.restype = ctypes.c_char_p
            (x,) = memories(own, random(4))
        finally:
            server.kill()
    assert own.echoNpuAbs(x.pointer, x.pointer, *sizes(4)) == 1
    assert b"has ended" in own.echoNpuGetLastErrorMessage()
    assert not own.echoNpuReset()
