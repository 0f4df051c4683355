"""The C library and a server that answers wrongly, slowly or at length: an error, and nothing left behind."""

import ctypes
import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from echo_npu.server import protocol
from echo_npu.server.protocol import AnswerStatus, RequestKind
from tests.plugins.c_library import loaded
from tests.plugins.scripted_server import ScriptedAnswer, answer, hello, opened, scripted

SERVER, MEMORY = 1, 4
"""Numbers of errors."""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "server.sock"
    monkeypatch.setenv("ECHO_NPU_SOCKET", str(made))
    monkeypatch.setenv("ECHO_NPU_COMMAND", str(tmp_path / "missing"))
    return made


@pytest.fixture
def own(library_file: Path, path: Path) -> Iterator[ctypes.CDLL]:
    """The library with a server of the test's own; nothing of it is left but what was there before."""
    before = held()
    made = loaded(library_file)
    yield made
    made.echoNpuReset()
    assert held() == before


def held() -> tuple[int, int]:
    """Return how many descriptors this process has, and how many mappings of device memory."""
    gc.collect()  # what other tests have left would be closed at some time
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    return len(os.listdir("/proc/self/fd")), maps.count("memfd:scripted")


def allocate(library: ctypes.CDLL, size: int = 64) -> tuple[int, int | None]:
    """Return the error and the pointer."""
    pointer = ctypes.c_void_p(99)
    return library.echoNpuMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)), pointer.value


def number(value: int) -> ScriptedAnswer:
    return answer(protocol.NUMBER.pack(value))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (answer(protocol.HELLO.pack(protocol.VERSION, 1), zero=7), b"the reserved word 7"),
        (answer(protocol.HELLO.pack(protocol.VERSION, 1), max(AnswerStatus) + 1), b"the status 10"),
        (answer(size=protocol.MAX_MESSAGE + 1), b"the length 67108865"),
        (answer(bytes(4)), b"the length of the answer to HELLO 4"),
        (
            answer(protocol.HELLO.pack(protocol.VERSION, 1) + bytes(4)),
            b"the length of the answer to HELLO 12",
        ),
        (hello(65), b"the number of devices 65"),
    ],
)
def test_a_greeting_that_breaks_the_protocol_is_named(
    own: ctypes.CDLL, path: Path, wrong: ScriptedAnswer, words: bytes
) -> None:
    count = ctypes.c_int(99)
    before = held()
    with scripted(path, [wrong]):
        assert own.echoNpuGetDeviceCount(ctypes.byref(count)) == SERVER
    assert own.echoNpuGetLastErrorMessage() == b"the device server breaks the protocol: " + words
    assert count.value == 0
    assert held() == before


def test_a_greeting_names_the_version(own: ctypes.CDLL, path: Path) -> None:
    with scripted(path, [hello()]) as heard:
        assert own.echoNpuGetDeviceCount(ctypes.byref(ctypes.c_int())) == 0
    assert heard.requests == [(RequestKind.HELLO, protocol.HELLO.pack(protocol.VERSION, 0))]


def test_a_server_may_have_64_devices(own: ctypes.CDLL, path: Path) -> None:
    count = ctypes.c_int()
    with scripted(path, [hello(64)], [hello(64)], [hello(64)]):
        assert own.echoNpuGetDeviceCount(ctypes.byref(count)) == 0
        assert own.echoNpuSetDevice(63) == 0
        assert own.echoNpuSetDevice(0) == 0
    assert count.value == 64


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (opened(memory=None), b"memory in the answer to OPEN of bytes 72"),
        (opened(memory=0), b"memory in the answer to OPEN of bytes 72"),
        (
            answer(protocol.OPENED.pack(1 << 16, b"")[:-8], memory=1 << 16),
            b"in the answer to OPEN of bytes 64",
        ),
        (opened((1 << 16) + 4096), b"the size of memory 69632"),
        (opened((1 << 16) - 4096), b"the size of memory 61440"),
        (opened(0), b"the size of memory 0"),
    ],
)
def test_an_open_that_breaks_the_protocol_is_named(
    own: ctypes.CDLL, path: Path, wrong: ScriptedAnswer, words: bytes
) -> None:
    before = held()
    with scripted(path, [hello(), wrong]):
        assert allocate(own) == (SERVER, None)
    assert own.echoNpuGetLastErrorMessage().endswith(words)
    assert held() == before


def test_a_refused_open_leaves_nothing_and_may_be_tried_again(own: ctypes.CDLL, path: Path) -> None:
    before = held()
    refused = answer(b"not now", AnswerStatus.DEVICE_IN_USE, memory=4096)
    with scripted(path, [hello(), refused], [hello(), opened(), number(64)]):
        assert allocate(own) == (3, None)
        assert allocate(own) == (0, 1 << 62 | 64)
        own.echoNpuReset()
    assert held() == before


def test_memory_is_mapped_once_and_shared(own: ctypes.CDLL, path: Path) -> None:
    before = held()
    with scripted(path, [hello(), opened(), number(64), number(128)]):
        assert allocate(own)[0] == 0
        assert allocate(own) == (0, 1 << 62 | 128)
        maps = Path("/proc/self/maps").read_text(encoding="utf-8")
        assert [line.split()[1] for line in maps.splitlines() if "memfd:scripted" in line] == ["rw-s"]
        own.echoNpuReset()
    assert held() == before


def test_memory_that_the_device_does_not_have_is_not_given(own: ctypes.CDLL, path: Path) -> None:
    last = (1 << 16) - 64
    with scripted(path, [hello(), opened(), number(last), number(last + 1), number(2**64 - 64)]):
        assert allocate(own) == (0, 1 << 62 | last)
        for _ in range(2):
            assert allocate(own) == (SERVER, None)
            assert b"memory that the device does not have" in own.echoNpuGetLastErrorMessage()
        own.echoNpuReset()


def test_an_answer_of_another_length_is_an_error_and_the_next_one_is_found(
    own: ctypes.CDLL, path: Path
) -> None:
    answers = [answer(bytes(4)), answer(bytes(10_000)), answer(), number(64)]
    with scripted(path, [hello(), opened(), *answers]):
        for length in (4, 10_000, 0):
            assert allocate(own) == (SERVER, None)
            words = f"the device server answers a request of kind 4 with {length} bytes, expected 8"
            assert own.echoNpuGetLastErrorMessage() == words.encode()
        assert allocate(own) == (0, 1 << 62 | 64)
        own.echoNpuReset()


def test_a_reason_may_be_long_or_missing(own: ctypes.CDLL, path: Path) -> None:
    """The message has room for 1023 bytes; the rest is read, so the next answer is found."""
    long = bytes(97 + each % 26 for each in range(9000))
    answers = [answer(each, AnswerStatus.OUT_OF_MEMORY) for each in (long, b"short", b"")]
    with scripted(path, [hello(), opened(), *answers, number(64)]):
        for words in (long[:1023], b"short", b"the device server gives no reason"):
            assert allocate(own) == (MEMORY, None)
            assert own.echoNpuGetLastErrorMessage() == words
        assert allocate(own) == (0, 1 << 62 | 64)
        own.echoNpuReset()


@pytest.mark.parametrize(
    "wrong",
    [
        ScriptedAnswer(b"", last=True),
        ScriptedAnswer(answer(size=8).data, last=True),
        answer(bytes(8), zero=1),
        answer(status=99),
    ],
    ids=["no answer", "a part", "zero", "status"],
)
def test_nothing_is_asked_on_a_connection_that_has_ended(
    own: ctypes.CDLL, path: Path, wrong: ScriptedAnswer
) -> None:
    with scripted(path, [hello(), opened(), number(64), wrong]) as heard:
        assert allocate(own)[0] == 0
        assert allocate(own) == (SERVER, None)
        assert allocate(own) == (SERVER, None)
        assert own.echoNpuGetLastErrorMessage() == b"the connection to the device server has ended"
    own.echoNpuReset()
    assert len(heard.requests) == 4


@pytest.fixture
def interrupted() -> Iterator[None]:
    """A signal each five milliseconds, whose handler lets no call begin again."""
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("interrupted")
def test_signals_do_not_end_a_request(own: ctypes.CDLL, path: Path) -> None:
    late = answer(protocol.NUMBER.pack(64), after=0.03)
    slow_hello = answer(protocol.HELLO.pack(protocol.VERSION, 1), after=0.03)
    with scripted(path, [slow_hello, opened(after=0.03), late]):
        assert allocate(own) == (0, 1 << 62 | 64), own.echoNpuGetLastErrorMessage()
        own.echoNpuReset()


class _Part(ctypes.Structure):
    _fields_ = (("data", ctypes.c_char_p), ("bytes", ctypes.c_size_t))


def request(library: ctypes.CDLL, link: ctypes.Array[ctypes.c_char], *parts: bytes) -> int:
    """Send a request of several parts; return the status."""
    made = (_Part * len(parts))(*(_Part(part, len(part)) for part in parts))
    return int(
        library.echo_npu_link_ask(link, RequestKind.PACK, made, ctypes.c_size_t(len(parts)), None, 0, None)
    )


@pytest.mark.usefixtures("interrupted")
def test_a_long_request_arrives_whole(own: ctypes.CDLL, path: Path) -> None:
    """It is longer than what a socket holds while nobody reads, and signals come meanwhile."""
    parts = [bytes(range(256)) * 4000, b"", b"middle", os.urandom(3_000_000)]
    link = ctypes.create_string_buffer(4096)
    with scripted(path, [hello(), answer(after=0.05)]) as heard:
        assert own.echo_npu_link_connect(link, 0) == 0
        assert request(own, link, *parts) == 0
        own.echo_npu_link_close(link)
    assert heard.requests[1:] == [(RequestKind.PACK, b"".join(parts))]


def test_a_request_that_no_server_takes_is_not_sent(own: ctypes.CDLL, path: Path) -> None:
    link = ctypes.create_string_buffer(4096)
    large = bytes(protocol.MAX_MESSAGE)
    with scripted(path, [hello(), answer()]) as heard:
        assert own.echo_npu_link_connect(link, 0) == 0
        assert request(own, link, large, b"x") == AnswerStatus.BAD_ARGUMENT
        assert request(own, link, b"x") == 0
        own.echo_npu_link_close(link)
    assert heard.requests[1:] == [(RequestKind.PACK, b"x")]
