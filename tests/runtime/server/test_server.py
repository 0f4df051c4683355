"""The device server: handshake, one client a device, replay, faults, and what is left behind."""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import echo_npu
from echo_npu.backends.cmodel import CmodelBackend
from echo_npu.cli import app
from echo_npu.commands.checked import CheckedCommand
from echo_npu.device import Device
from echo_npu.errors import SimulatorError
from echo_npu.model.functional import FunctionalModel
from echo_npu.server import graphs, protocol, server
from echo_npu.server.listener import AddressInUseError
from echo_npu.server.protocol import AnswerStatus, GraphFlag, GraphTensor, RequestKind, TensorFlag
from echo_npu.server.server import DeviceServer
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


def test_the_graphs_of_a_client_end_with_it(server_path: Path) -> None:
    free = []
    for _ in range(3):  # the first one has the device make what it needs once
        with opened(server_path) as client:
            free.append(protocol.MEMORY.unpack(client.ask(RequestKind.MEMORY)))
            x, y = client.put(np.ones((64, 64), np.float32)), client.room((1,))
            client.graph(node("SUM", y, x), key=1)
    assert free[1] == free[2]


def test_what_a_connection_may_ask_for_and_when(server_path: Path) -> None:
    number = protocol.NUMBER.pack(0)
    for before, kind, data, words in (
        ((), RequestKind.OPEN, number, "the first request is HELLO"),
        ((), RequestKind.MEMORY, b"", "the first request is HELLO"),
        (("hello",), RequestKind.MEMORY, b"", "a request of kind 3 before a device is open"),
        (("hello",), 99, b"", "a request of kind 99 before a device is open"),
        (("hello", "open", "hello"), RequestKind.OPEN, number, "this connection has a device already"),
        (("refused",), RequestKind.OPEN, number, "the first request is HELLO"),
        ((), RequestKind.HELLO, bytes(4), "4 bytes, expected 8"),
        (("hello",), RequestKind.OPEN, bytes(4), "4 bytes, expected 8"),
    ):
        with ServerClient(server_path) as client:
            for step in before:
                if step == "open":
                    client.send(RequestKind.OPEN, number)
                    status, _, descriptors = client.receive()
                    assert status == AnswerStatus.OK
                    os.close(descriptors[0])
                elif step == "hello":
                    assert client.hello() == 2
                else:
                    with pytest.raises(AnswerError):
                        client.hello(protocol.VERSION + 1)
            client.send(kind, data)
            status, answer, _ = client.receive()
            assert (status, answer.decode()) == (AnswerStatus.BAD_MESSAGE, words)
            with contextlib.suppress(ConnectionResetError):
                assert client.connection.recv(1) == b""


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


def test_another_user_is_not_served(server_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    with ServerClient(server_path) as client, pytest.raises((EOFError, ConnectionError)):
        client.hello()


def test_a_tensor_that_no_answer_holds_is_not_unpacked(client: ServerClient) -> None:
    with pytest.raises(AnswerError, match="too much for one answer") as caught:
        client.ask(RequestKind.UNPACK, protocol.BLOCKS.pack(b"q8_0", 64, 1 << 15, 2048, 1))
    assert caught.value.status == AnswerStatus.BAD_ARGUMENT


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


def unknown(client: ServerClient, key: int) -> bool:
    client.send(RequestKind.RUN, protocol.NUMBER.pack(key))
    status = client.receive()[0]
    assert status in (AnswerStatus.OK, AnswerStatus.UNKNOWN_GRAPH)
    return status == AnswerStatus.UNKNOWN_GRAPH


def test_the_graphs_that_were_run_last_are_kept(client: ServerClient) -> None:
    x, y, other = client.put(np.ones(4, np.float32)), client.room((4,)), client.room((4,))
    for key in range(1, graphs.MOST_GRAPHS + 1):
        client.graph(node("SQR", y, x), key=key)
    client.run(1)
    client.graph(node("SQR", y, x), key=100)
    assert [key for key in range(1, graphs.MOST_GRAPHS + 1) if unknown(client, key)] == [2]
    client.number(RequestKind.FREE, other.address)  # so a graph may have lost a buffer
    assert unknown(client, 1)
    assert unknown(client, 100)
    client.graph(node("SQR", y, x), key=1)
    client.room((4,))  # may need the memory that the graph holds
    assert unknown(client, 1)


def test_an_input_that_the_graph_writes_itself_is_not_supported(client: ServerClient) -> None:
    numbers, others = client.put(np.array([0, 1], np.int32)), client.put(np.array([5, 6], np.int32))
    rows, cache = client.put(np.ones((2, 16), np.float32)), client.put(np.zeros((8, 16), np.float32))
    copy, write = node("CPY", numbers, others), node("SET_ROWS", cache, rows, numbers, cache)
    for key in (0, 1):
        with pytest.raises(AnswerError, match="an input that the graph itself writes before") as caught:
            client.graph(copy, write, key=key)
        assert caught.value.status == AnswerStatus.NOT_SUPPORTED
    assert client.read(numbers).reshape(2).tolist() == [0, 1]  # nothing was computed
    client.graph(write, copy, key=1)
    client.run(1)
    assert client.read(cache)[0, 0, :, 0].tolist() == [1, 1, 0, 0, 0, 1, 1, 0]


def test_counters(client: ServerClient) -> None:
    x, y = client.put(np.ones(4, np.float32)), client.room((4,))
    before = protocol.COUNTERS.unpack(client.ask(RequestKind.COUNTERS))
    client.graph(*[node("SQR", y, x)] * 3, key=1)
    client.run(1)
    cycles, commands, runs = protocol.COUNTERS.unpack(client.ask(RequestKind.COUNTERS))
    assert (cycles, commands - before[1], runs - before[2]) == (0, 6, 2)


def test_a_nan_is_refused_if_the_client_asks_for_that(client: ServerClient) -> None:
    x, y = client.put(np.full(4, np.nan, np.float32)), client.room((4,))
    client.graph(node("SQR", y, x))
    first = partial(client.graph, node("SQR", y, x), key=1, flags=GraphFlag.REFUSE_NAN)
    for work in (first, partial(client.run, 1)):
        with pytest.raises(AnswerError, match="SQR made a NaN") as caught:
            work()
        assert caught.value.status == AnswerStatus.NOT_A_NUMBER
    client.write(x, np.ones(4, np.float32))
    client.run(1)


def test_the_content_of_a_bad_index_is_an_error_and_the_device_works_on(client: ServerClient) -> None:
    table, numbers = client.put(np.ones((4, 8), np.float32)), client.put(np.array([9], np.int32))
    with pytest.raises(AnswerError, match="BAD_INDEX") as caught:
        client.graph(node("GET_ROWS", client.room((1, 8)), table, numbers))
    assert caught.value.status == AnswerStatus.DEVICE_FAILED
    works(client)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("target", [np.float32, np.float16])
def test_rows_go_to_numbers_that_the_graph_computes(
    client: ServerClient, kind: type[np.generic], target: type[np.generic]
) -> None:
    """Two matrices share a list; the numbers exist on the device alone. A bad one is the device's error."""
    numbers, rows = np.array([6, 0, 6, 3], kind), RANDOM.standard_normal((2, 4, 12), dtype=np.float32)
    cache, given = client.put(np.zeros((2, 7, 12), target)), client.put(numbers)
    computed = replace(client.put(np.zeros(4, kind)), flags=TensorFlag(0))
    graph = (node("CPY", computed, given), node("SET_ROWS", cache, client.put(rows), computed, cache))
    client.graph(*graph, key=1)
    wanted = np.zeros((2, 7, 12), target)
    for each in (numbers, numbers[::-1].copy()):
        client.write(given, each)
        client.run(1)
        for place, number in enumerate(each.tolist()):
            wanted[:, number] = rows[:, place].astype(target)
        assert np.array_equal(client.read(cache)[0], wanted)
    client.write(given, np.array([6, 0, 7, 3], kind))
    with pytest.raises(AnswerError, match="BAD_INDEX") as caught:
        client.run(1)
    assert caught.value.status == AnswerStatus.DEVICE_FAILED
    works(client)


def test_rows_in_any_order_are_one_command(client: ServerClient) -> None:
    numbers = client.put(np.array([5, 1, 7, 3, 0], np.int64))
    values = RANDOM.standard_normal((5, 4), dtype=np.float32)
    cache, rows = client.put(np.zeros((8, 4), np.float16)), client.put(values)
    client.graph(node("SET_ROWS", cache, rows, numbers, cache), key=1)
    _, before, _ = protocol.COUNTERS.unpack(client.ask(RequestKind.COUNTERS))
    client.run(1)
    _, after, _ = protocol.COUNTERS.unpack(client.ask(RequestKind.COUNTERS))
    assert after == before + 1
    assert np.array_equal(client.read(cache)[0, 0][[5, 1, 7, 3, 0]], values.astype(np.float16))


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
def test_a_signal_that_comes_before_the_server_serves_leaves_no_socket(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    program = f"""
import os, signal
from echo_npu.cli import main, serve

class Interrupted(serve.DeviceServer):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        assert os.path.exists({str(path)!r})
        os.kill(os.getpid(), signal.SIGTERM)

serve.DeviceServer = Interrupted
main()
"""
    words = ["serve", "--backend", "cmodel", "--socket", str(path)]
    assert subprocess.run([sys.executable, "-c", program, *words], timeout=60).returncode == 0
    assert not path.exists()


def test_a_wrong_debug_level_is_named(tmp_path: Path) -> None:
    words = ["serve", "--backend", "cmodel", "--socket", str(tmp_path / "server.sock")]
    command = [sys.executable, "-c", "from echo_npu.cli import main; main()", *words]
    environment = {**os.environ, "ECHO_NPU_DEBUG_LEVEL": "loud"}
    ended = subprocess.run(command, env=environment, stderr=subprocess.PIPE, timeout=60)
    assert ended.returncode == 2
    assert b"ECHO_NPU_DEBUG_LEVEL is 'loud'" in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_the_socket_of_a_later_server_stays_even_if_it_has_the_same_number(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    first = DeviceServer(path, [])
    first.stop()
    first.serve()
    second = DeviceServer(path, [])
    # File systems give the number of a removed file to the next one.
    assert os.stat(path).st_ino == second._inode
    first.remove_socket()
    assert path.exists()
    second.stop()
    second.serve()
    assert not path.exists()


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize("end", ["idle", "signal"])
def test_the_command_ends_and_leaves_nothing(tmp_path: Path, end: str) -> None:
    with served(tmp_path, *(["--idle", "0.5"] if end == "idle" else [])) as (child, path):
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0
        with ServerClient(path) as client:
            assert client.hello() == 1
        if end == "signal":
            child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0
    assert not path.exists()


@pytest.mark.usefixtures("usual_signals")
def test_a_second_signal_does_not_wait_for_a_graph(tmp_path: Path) -> None:
    with served(tmp_path) as (child, path), opened(path) as client:
        send_work(client, 1000)
        child.send_signal(signal.SIGTERM)
        until(lambda: not path.exists())
        assert child.poll() is None
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 1
        with pytest.raises((EOFError, ConnectionError)):
            client.receive()


@pytest.mark.usefixtures("usual_signals")
def test_two_signals_at_once_leave_no_socket(tmp_path: Path) -> None:
    with served(tmp_path) as (child, path):
        child.send_signal(signal.SIGINT)
        child.send_signal(signal.SIGTERM)
        child.wait(60)
        assert not path.exists()


@pytest.mark.usefixtures("usual_signals")
def test_a_server_that_is_killed_gives_its_client_an_error_and_the_next_one_its_place(
    tmp_path: Path,
) -> None:
    with served(tmp_path) as (child, path), opened(path) as client:
        send_work(client, 1000)
        child.kill()
        with pytest.raises((EOFError, ConnectionError)):
            client.receive()
        child.wait()
        with served(tmp_path) as (other, _), opened(path) as next_one:
            works(next_one)
            other.send_signal(signal.SIGTERM)
            assert other.wait(60) == 0
    assert not path.exists()


def test_a_client_that_dies_in_a_graph_frees_its_device(server_path: Path) -> None:
    with opened(server_path) as warm:
        works(warm)  # a device keeps what its first use allocates
    with opened(server_path) as first:
        before = protocol.MEMORY.unpack(first.ask(RequestKind.MEMORY))
        send_work(first, 3)
    with opened(server_path) as next_one:
        assert protocol.MEMORY.unpack(next_one.ask(RequestKind.MEMORY)) == before
        works(next_one)


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A list that grows with each command that a functional model executes."""
    commands: list[object] = []
    execute = FunctionalModel._execute

    def counted(model: FunctionalModel, command: CheckedCommand) -> None:
        commands.append(command.packet)
        execute(model, command)

    monkeypatch.setattr(FunctionalModel, "_execute", counted)
    return commands


def test_a_graph_ends_with_the_command_in_hand_when_its_client_dies(
    server_path: Path, executed: list[object]
) -> None:
    with opened(server_path) as warm:
        works(warm)
    with opened(server_path) as first:
        before = protocol.MEMORY.unpack(first.ask(RequestKind.MEMORY))
        executed.clear()
        send_work(first, 1500)  # more than the ring has slots
        until(lambda: len(executed) > 3)
    with opened(server_path) as next_one:
        assert len(executed) < 1000
        assert protocol.MEMORY.unpack(next_one.ask(RequestKind.MEMORY)) == before
        works(next_one)


def test_a_client_that_only_ends_its_sending_gets_its_answer(server_path: Path) -> None:
    with opened(server_path) as client:
        send_work(client, 3)
        client.connection.shutdown(socket.SHUT_WR)
        assert client.receive()[0] == AnswerStatus.OK


def test_the_request_under_way_is_answered_when_the_server_stops(
    tmp_path: Path, executed: list[object]
) -> None:
    path = tmp_path / "server.sock"
    serving = DeviceServer(path, [partial(echo_npu.open, "cmodel")])
    thread = threading.Thread(target=serving.serve)
    thread.start()
    with opened(path) as client:
        executed.clear()
        send_work(client, 20)
        until(lambda: len(executed) > 3)
        serving.stop()
        until(lambda: not path.exists())
        assert len(executed) < 20
        assert client.receive()[0] == AnswerStatus.OK
        with pytest.raises((EOFError, ConnectionError)):
            client.ask(RequestKind.MEMORY)
    thread.join(60)
    assert not thread.is_alive()


def test_a_device_that_cannot_be_opened_may_be_asked_for_again(tmp_path: Path) -> None:
    path, failures = tmp_path / "server.sock", [SimulatorError("none"), ValueError("no"), TypeError("not")]

    def make() -> Device:
        if failures:
            raise failures.pop()
        return echo_npu.open("cmodel")

    serving = DeviceServer(path, [make])
    thread = threading.Thread(target=serving.serve, daemon=True)
    thread.start()
    try:
        with ServerClient(path) as client:
            for words in ("not", "no", "none"):
                with pytest.raises(AnswerError, match=f"^device 0 cannot be opened: {words}$") as caught:
                    client.open()
                assert caught.value.status == AnswerStatus.DEVICE_FAILED
            works(client.open())
    finally:
        serving.stop()
        thread.join(60)


def test_a_device_whose_memory_the_host_does_not_share_is_refused(
    server_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ServerClient(server_path) as client:
        with monkeypatch.context() as patched:
            patched.setattr(CmodelBackend, "shared_memory", None)
            with pytest.raises(AnswerError, match=r"cmodel cannot be lent.* does not share") as caught:
                client.open()
            assert caught.value.status == AnswerStatus.DEVICE_FAILED
        works(client.open())


@pytest.mark.parametrize("backend", ["fpga", "asic"])
def test_a_backend_whose_memory_the_host_does_not_share_is_refused_at_once(
    tmp_path: Path, backend: str
) -> None:
    path = tmp_path / "server.sock"
    words = ["serve", "--backend", backend, "--socket", str(path), "--idle", "0"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert f"the backend {backend} cannot be lent" in result.stderr
    assert not path.exists()


def test_a_server_that_ends_closes_its_devices_and_its_socket(tmp_path: Path) -> None:
    path, made, closed = tmp_path / "server.sock", [], []

    def make() -> Device:
        device = echo_npu.open("cmodel")
        close = device.close

        def noted() -> None:
            closed.append(device)
            close()

        device.close = noted  # type: ignore[method-assign]
        made.append(device)
        return device

    serving = DeviceServer(path, [make] * 3)
    thread = threading.Thread(target=serving.serve, daemon=True)
    thread.start()
    for number in (0, 2):
        with opened(path, number) as client:
            works(client)
    serving.stop()
    thread.join(60)
    assert len(made) == 2
    assert closed == made
    assert serving._listener.fileno() == -1


def test_a_device_that_dies_is_an_error_and_a_new_one_for_the_next_client(tmp_path: Path) -> None:
    path, made = tmp_path / "server.sock", []

    def make() -> Device:
        made.append(echo_npu.open("cmodel"))
        return made[-1]

    def dead(offset: int) -> int:
        raise SimulatorError("the simulator ended")

    serving = DeviceServer(path, [make])
    thread = threading.Thread(target=serving.serve)
    thread.start()
    try:
        with opened(path) as client:
            works(client)
            x = client.put(np.ones(4, np.float32))
            made[0].backend.read_reg = dead  # type: ignore[method-assign]
            for _ in range(2):
                with pytest.raises(AnswerError, match="the simulator ended") as caught:
                    client.graph(node("SQR", x, x))
                assert caught.value.status == AnswerStatus.DEVICE_FAILED
        with opened(path) as next_one:
            works(next_one)
    finally:
        serving.stop()
        thread.join(60)
    assert len(made) == 2


def test_one_connection_too_many_is_ended_and_the_others_stay(
    server_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    with contextlib.ExitStack() as stack:
        first, *_ = (stack.enter_context(ServerClient(server_path)) for _ in range(3))
        assert first.hello() == 2
        with ServerClient(server_path) as fourth, pytest.raises((EOFError, ConnectionError)):
            fourth.hello()
        works(first.open())

    def answered() -> bool:
        with ServerClient(server_path) as next_one:
            try:
                return next_one.hello() == 2
            except (EOFError, ConnectionError):
                return False  # the others have not quite gone

    until(answered)


def test_a_connection_that_cannot_be_accepted_does_not_end_the_server(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    serving = DeviceServer(path, [])
    listener = serving._listener

    class Failing:
        failures = 2

        def accept(self) -> tuple[socket.socket, object]:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return listener.accept()

        def __getattr__(self, name: str) -> object:
            return getattr(listener, name)

    serving._listener = Failing()  # type: ignore[assignment]
    thread = threading.Thread(target=serving.serve)
    thread.start()
    with ServerClient(path) as client:
        assert client.hello() == 0
    serving.stop()
    thread.join(60)
    assert not thread.is_alive()


def test_a_graph_that_is_too_large_is_refused(client: ServerClient) -> None:
    x, few = client.put(np.ones((1, 4), np.float32)), client.room((1, 4))
    single = node("SQR", few, x).packed()
    count = protocol.MAX_NODES + 1
    with pytest.raises(AnswerError, match="nodes, at most") as caught:
        client.ask(RequestKind.GRAPH, protocol.GRAPH.pack(0, count, 0) + single)
    assert caught.value.status == AnswerStatus.BAD_ARGUMENT
    with pytest.raises(AnswerError) as caught:
        client.ask(RequestKind.GRAPH, protocol.GRAPH.pack(0, count - 1, 0) + single)
    assert caught.value.status == AnswerStatus.BAD_MESSAGE


def test_a_graph_has_so_many_commands(client: ServerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MOST_COMMANDS", 3)
    x, few = client.put(np.ones((1, 4), np.float32)), client.room((1, 4))
    client.graph(*[node("SQR", few, x)] * 3)
    numbers = client.put(np.array([5, 1, 7, 3, 0], np.int64))
    cache, rows = client.put(np.zeros((4, 8, 4), np.float16)), client.put(np.ones((4, 5, 4), np.float32))
    for nodes in ([node("SQR", few, x)] * 4, [node("SET_ROWS", cache, rows, numbers, cache)]):
        with pytest.raises(AnswerError, match="more than 3 commands") as caught:
            client.graph(*nodes)
        assert caught.value.status == AnswerStatus.BAD_ARGUMENT
    works(client)


@pytest.mark.parametrize("op", ["SUM", "POOL_2D", "MUL_MAT"])
def test_tensors_that_would_keep_the_device_busy_forever_are_not_supported(
    client: ServerClient, op: str
) -> None:
    long = GraphTensor("f32", TensorFlag.INPUT, (1 << 36, 1, 1, 1), (0, 0, 0, 0), 1 << 20)
    few, single = client.put(np.ones((1, 1, 4, 4), np.float32)), client.room((1,))
    made = {
        "SUM": node("SUM", single, long),
        "MUL_MAT": node("MUL_MAT", single, long, long),
        "POOL_2D": node("POOL_2D", single, few, parameters={1: 1 << 30, 2: 1 << 30, 3: 1 << 30, 4: 1 << 30}),
    }
    assert not client.supports(made[op])


def test_empty_operands_are_not_supported(client: ServerClient) -> None:
    x, numbers = client.put(np.ones((1, 4), np.float32)), client.put(np.zeros(1, np.int64))
    empty = replace(x, elements=(4, 1, 0, 1))
    for made in (
        node("SET_ROWS", x, x, replace(numbers, elements=(1, 0, 1, 1)), x),
        node("SET_ROWS", x, x, replace(numbers, elements=(1, 1, 0, 1)), x),
        node("SOFT_MAX", x, x, empty),
        node("SOFT_MAX", x, x, replace(x, elements=(4, 1, 1, 0))),
        node("FLASH_ATTN_EXT", x, x, empty, empty),
        node("FLASH_ATTN_EXT", x, x, x, x, empty),
    ):
        assert not client.supports(made), made.op
    works(client)


@pytest.mark.parametrize("flags", [0, GraphFlag.REFUSE_NAN, GraphFlag.FUSE])
def test_an_address_beyond_all_memory_is_an_argument(client: ServerClient, flags: int) -> None:
    x = client.put(np.ones((1, 4), np.float32))
    for address in (1 << 63, (1 << 64) - 64):
        for made in (
            node("SQR", replace(x, address=address), x),
            node("SQR", x, replace(x, address=address)),
        ):
            with pytest.raises(AnswerError) as caught:
                client.graph(made, flags=flags)
            assert caught.value.status == AnswerStatus.BAD_ARGUMENT
    works(client)


def test_nodes_without_commands_may_have_any_tensors(client: ServerClient) -> None:
    x, y = client.put(np.ones((1, 4), np.float32)), client.room((1, 4))
    large = replace(x, elements=(1 << 36, 3, 8, 1), steps=(0, 0, 0, 0))
    views = [node("VIEW", large, x), node("RESHAPE", replace(x, type="other"), x)]
    client.graph(*views, node("SQR", y, x), flags=GraphFlag.REFUSE_NAN | GraphFlag.FUSE)
    assert np.array_equal(client.read(y).reshape(-1), np.ones(4))


def test_more_rows_in_blocks_than_memory_has_are_not_supported(client: ServerClient) -> None:
    x, y, room = client.put(np.ones((1, 64), np.float32)), client.room((1, 16)), client.room((64, 64))
    for count in (1 << 23, 1 << 36):
        rows = GraphTensor(
            "q8_0", TensorFlag.INPUT, (64, count, 1, 1), (34, 0, 0, 0), room.address, (64, 16, 1, 1)
        )
        assert not client.supports(node("MUL_MAT", y, rows, x))
    works(client)


# --- a server of its own ------------------------------------------------------------------------------------


def test_a_server_with_a_client_is_not_idle(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    own = DeviceServer(path, [partial(echo_npu.open, "cmodel")], idle_seconds=0.2)
    thread = threading.Thread(target=own.serve)
    thread.start()
    with opened(path) as client:
        thread.join(1.5)
        assert thread.is_alive()
        works(client)
    thread.join(30)
    assert not thread.is_alive()
    assert not path.exists()


@pytest.mark.parametrize(("stays", "least"), [(0, 1.0), (1.0, 1.7)])
def test_a_client_that_comes_and_goes_begins_the_time_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stays: float, least: float
) -> None:
    """A server ends when it was idle for 1.2 seconds; the client comes after 0.6."""
    monkeypatch.setattr(server, "_POLL_S", 0.02)
    path = tmp_path / "server.sock"
    own = DeviceServer(path, [], idle_seconds=1.2)
    ended: list[float] = []

    def serve() -> None:
        own.serve()
        ended.append(time.monotonic())

    thread = threading.Thread(target=serve)
    thread.start()
    time.sleep(0.6)
    with ServerClient(path) as client:
        came = time.monotonic()
        assert client.hello() == 0
        time.sleep(stays)
    thread.join(30)
    assert ended[0] > came + least


@pytest.mark.usefixtures("usual_signals")
def test_the_command_takes_its_options_and_variables(tmp_path: Path) -> None:
    """The backend and the place are those of variables; a refused node is a line at debug level 1."""
    path = tmp_path / "server.sock"
    variables = {"ECHO_NPU_BACKEND": "cmodel", "ECHO_NPU_SOCKET": str(path), "ECHO_NPU_DEBUG_LEVEL": "1"}
    words = ["serve", "--config", "small", "--devices", "3"]
    command = [sys.executable, "-c", "from echo_npu.cli import main; main()", *words]
    with subprocess.Popen(
        command, env={**os.environ, **variables}, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            until(lambda: child.poll() is not None or listens(path))
            with ServerClient(path) as client:
                assert client.hello() == 3
                client.send(RequestKind.OPEN, protocol.NUMBER.pack(2))
                _, answer, descriptors = client.receive()
                os.close(descriptors[0])
                description = protocol.OPENED.unpack(answer)[1].rstrip(b"\0")
                x = client.room((4,))
                assert not client.supports(node("CUMSUM", x, x))
                with pytest.raises(AnswerError):
                    client.graph(node("CUMSUM", x, x))
            child.send_signal(signal.SIGTERM)
            _, errors = child.communicate(timeout=60)
        finally:
            child.kill()
    assert description == b"cmodel, configuration small"
    assert [line for line in errors.splitlines() if line.startswith("echo-npu serve: ")] == [
        "echo-npu serve: CUMSUM is not supported: the operation CUMSUM",
        "echo-npu serve: refused: the operation CUMSUM",
    ]


@contextlib.contextmanager
def served(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run the command on the functional model; yield its process and its socket. It is killed at the end."""
    path = folder / "folder" / "server.sock"
    program = [sys.executable, "-c", "from echo_npu.cli import main; main()"]
    command = [*program, "serve", "--backend", "cmodel", "--socket", str(path), *words]
    child = subprocess.Popen(command)
    try:
        until(lambda: child.poll() is not None or listens(path))
        assert child.poll() is None
        yield child, path
    finally:
        child.kill()
        child.wait()


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def send_work(client: ServerClient, count: int) -> None:
    """Send a graph of so many large products, without waiting for the answer."""
    x, y = client.put(np.ones((512, 512), np.float32)), client.room((512, 512))
    nodes = node("MUL_MAT", y, x, x).packed() * count
    client.send(RequestKind.GRAPH, protocol.GRAPH.pack(0, count, 0) + nodes)
