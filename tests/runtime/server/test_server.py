"""The device server: handshake, one client a device, replay, faults, and what is left behind."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import echo_npu
from echo_npu.server import protocol
from echo_npu.server.protocol import AnswerStatus, GraphTensor, RequestKind, TensorFlag
from echo_npu.server.server import AddressInUseError, DeviceServer
from tests.runtime.server.server_client import AnswerError, ServerClient, node, opened

RANDOM = np.random.default_rng()


def works(client: ServerClient) -> None:
    x = client.put(np.arange(5, dtype=np.float32))
    y = client.room((5,))
    client.graph(node("ADD", y, x, x))
    assert np.array_equal(client.read(y).reshape(5), 2 * np.arange(5))


def test_another_version_is_refused_with_both_numbers(server_path: Path) -> None:
    with ServerClient(server_path) as client:
        with pytest.raises(AnswerError, match=f"version 99 .* {protocol.VERSION}") as caught:
            client.hello(99)
        assert caught.value.status == AnswerStatus.BAD_VERSION
        assert client.hello() == 2


def test_a_device_has_one_client_and_is_free_when_that_ends(server_path: Path) -> None:
    first = opened(server_path)
    with ServerClient(server_path) as second:
        with pytest.raises(AnswerError) as caught:
            second.open(0)
        assert caught.value.status == AnswerStatus.DEVICE_IN_USE
    with opened(server_path, 1) as other:
        works(other)
    before = protocol.MEMORY.unpack(first.ask(RequestKind.MEMORY))
    first.room((1000,))
    first.connection.close()
    with opened(server_path) as next_one:
        assert protocol.MEMORY.unpack(next_one.ask(RequestKind.MEMORY)) == before
        works(next_one)


def test_a_device_that_does_not_exist(server_path: Path) -> None:
    with ServerClient(server_path) as client, pytest.raises(AnswerError, match="device 2 of 2"):
        client.open(2)


def test_memory_that_there_is_not(client: ServerClient) -> None:
    with pytest.raises(AnswerError) as caught:
        client.number(RequestKind.ALLOCATE, 1 << 40)
    assert caught.value.status == AnswerStatus.OUT_OF_MEMORY
    with pytest.raises(AnswerError) as caught:
        client.number(RequestKind.FREE, 0x1000)
    assert caught.value.status == AnswerStatus.BAD_ARGUMENT
    works(client)


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", protocol.HEAD.pack(2, 0, 8), protocol.HEAD.pack(1, 0, 1 << 60)]
)
def test_garbage_ends_the_connection_and_nothing_else(server_path: Path, garbage: bytes) -> None:
    with ServerClient(server_path) as client:
        client.connection.sendall(garbage + bytes(64))
        assert client.receive()[0] == AnswerStatus.BAD_MESSAGE
        with contextlib.suppress(ConnectionResetError):
            assert client.connection.recv(1) == b""
    with opened(server_path) as next_one:
        works(next_one)


def test_random_messages_leave_a_server_that_works(server_path: Path) -> None:
    for _ in range(40):
        with opened(server_path) as client:
            for _ in range(10):
                kind = int(RANDOM.integers(0, 14))
                data = RANDOM.bytes(int(RANDOM.integers(0, 400)))
                if RANDOM.random() < 0.5:
                    x = GraphTensor("f32", TensorFlag.INPUT, (4, 3, 1, 1), (4, 16, 48, 48), 1 << 20)
                    data = protocol.GRAPH.pack(7, 1, 0) + bytearray(node("SOFT_MAX", x, x).packed())
                    place = int(RANDOM.integers(0, len(data)))
                    data = data[:place] + RANDOM.bytes(1) + data[place + 1 :]
                    kind = int(RANDOM.choice([RequestKind.GRAPH, RequestKind.SUPPORTS, RequestKind.RUN]))
                try:
                    client.send(kind, data)
                    status, _, descriptors = client.receive()
                except (EOFError, OSError):
                    pytest.fail("the server ended the connection without an answer")
                for descriptor in descriptors:
                    os.close(descriptor)
                if status == AnswerStatus.BAD_MESSAGE:
                    break
    with opened(server_path) as client:
        works(client)


def test_a_graph_is_replayed_with_what_its_inputs_hold_then(client: ServerClient) -> None:
    rows = client.put(np.zeros((4, 8), np.float32))
    numbers = client.put(np.array([3, 5, 7, 9], np.int64))
    places = client.put(np.arange(4, dtype=np.int32))
    cache = client.put(np.zeros((300, 8), np.float16))
    turned = client.room((4, 1, 8))
    graph = (
        node("SET_ROWS", cache, rows, numbers, cache),
        node(
            "ROPE",
            turned,
            GraphTensor("f32", TensorFlag(0), (8, 1, 4, 1), (4, 32, 32, 128), rows.address),
            places,
            parameters={1: 8, 2: 2, 5: 10000.0, 6: 1.0, 8: 1.0},
        ),
    )
    wanted = np.zeros((300, 8), np.float16)
    with pytest.raises(AnswerError) as caught:
        client.run(5)
    assert caught.value.status == AnswerStatus.UNKNOWN_GRAPH
    for index, listed in enumerate(([3, 5, 7, 9], [10, 12, 14, 16], [0, 1, 2, 3], [20, 9, 4, 299])):
        values = RANDOM.standard_normal((4, 8), dtype=np.float32)
        at = np.array([0, 1, 70 * index, 20000 * index], np.int32)
        client.write(rows, values)
        client.write(numbers, np.array(listed))
        client.write(places, at)
        if index:
            client.run(5)
        else:
            client.graph(*graph, key=5)
        wanted[listed] = values.astype(np.float16)
        assert np.array_equal(client.read(cache)[0, 0], wanted)
        angles = at[:, None] * 10000.0 ** (-np.arange(4) / 4)
        a, b = values[:, :4], values[:, 4:]
        exact = np.concatenate(
            [a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], axis=-1
        )
        assert np.abs(client.read(turned).reshape(4, 8) - exact).max() < 1e-5


def test_the_content_of_a_bad_index_is_an_error_and_the_device_works_on(client: ServerClient) -> None:
    table, numbers = client.put(np.ones((4, 8), np.float32)), client.put(np.array([9], np.int32))
    with pytest.raises(AnswerError, match="BAD_INDEX") as caught:
        client.graph(node("GET_ROWS", client.room((1, 8)), table, numbers))
    assert caught.value.status == AnswerStatus.DEVICE_FAILED
    works(client)


def test_a_second_server_at_the_place_is_refused(server_path: Path) -> None:
    with pytest.raises(AddressInUseError, match="already"):
        DeviceServer(server_path, [partial(echo_npu.open, "cmodel")])


@pytest.mark.parametrize(("name", "reason"), [("", "folder"), ("x" * 120, "too long")])
def test_a_path_that_cannot_be_a_socket_is_named(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(OSError, match=reason) as caught:
        DeviceServer(tmp_path / name, [partial(echo_npu.open, "cmodel")])
    assert str(tmp_path / name) in str(caught.value)


def test_the_socket_of_a_dead_server_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    DeviceServer(path, [], idle_seconds=0).serve()
    assert not path.exists()


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize("end", ["idle", "signal"])
def test_the_command_ends_and_leaves_nothing(tmp_path: Path, end: str) -> None:
    path = tmp_path / "folder" / "server.sock"
    program = [sys.executable, "-c", "from echo_npu.cli import main; main()"]
    command = [*program, "serve", "--backend", "cmodel", "--socket", str(path)]
    child = subprocess.Popen([*command, *(["--idle", "0.5"] if end == "idle" else [])])
    try:
        deadline = time.monotonic() + 60
        while not path.exists():
            assert time.monotonic() < deadline
            assert child.poll() is None
            time.sleep(0.05)
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0
        with ServerClient(path) as client:
            assert client.hello() == 1
        if end == "signal":
            child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.wait()
    assert not path.exists()
