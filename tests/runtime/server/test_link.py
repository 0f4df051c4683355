"""A connection of the device server, whatever the other side does with its end."""

import socket
import tracemalloc
from collections.abc import Iterator

import pytest

from echo_npu.server import link
from echo_npu.server.link import Link
from echo_npu.server.protocol import HEAD, MAX_MESSAGE, AnswerStatus, ProtocolError


@pytest.fixture
def ends() -> Iterator[tuple[Link, socket.socket]]:
    """A link, and the socket at its other end."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with here, there:
        yield Link(here), there


def test_a_message_in_pieces(ends: tuple[Link, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_PIECE", 5)
    here, there = ends
    there.sendall(HEAD.pack(7, 0, 12) + b"twelve bytes" + HEAD.pack(8, 0, 0))
    first, second = here.receive(), here.receive()
    assert first is not None
    assert second is not None
    assert (first[0], bytes(first[1])) == (7, b"twelve bytes")
    assert (second[0], bytes(second[1])) == (8, b"")


def test_a_message_that_is_only_announced_takes_no_memory(ends: tuple[Link, socket.socket]) -> None:
    here, there = ends
    there.sendall(HEAD.pack(10, 0, MAX_MESSAGE) + bytes(1000))
    there.shutdown(socket.SHUT_WR)
    tracemalloc.start()
    try:
        assert here.receive() is None
        assert tracemalloc.get_traced_memory()[1] < MAX_MESSAGE // 16
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("zero", "size"), [(1, 0), (1 << 31, 8), (0, MAX_MESSAGE + 1), (0, (1 << 64) - 1)])
def test_a_head_that_no_message_has_breaks_the_protocol(
    ends: tuple[Link, socket.socket], zero: int, size: int
) -> None:
    here, there = ends
    there.sendall(HEAD.pack(3, zero, size) + bytes(100))
    with pytest.raises(ProtocolError, match=f"a message of {size} bytes, .* reserved word {zero}$"):
        here.receive()


def test_a_side_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "ANSWER_WAIT_S", 1)
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with here, there, pytest.raises(OSError, match="unavailable"):
        Link(here).send(0, bytes(MAX_MESSAGE))


def test_a_reason_has_a_bounded_length(ends: tuple[Link, socket.socket]) -> None:
    here, there = ends
    here.refuse(AnswerStatus.BAD_MESSAGE, "x" * 10_000)
    status, _, size = HEAD.unpack(there.recv(HEAD.size, socket.MSG_WAITALL))
    assert (status, size) == (AnswerStatus.BAD_MESSAGE, 4096)
