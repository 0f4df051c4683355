"""Messages between rtlmodel and the simulator, complete and broken."""

import socket
import struct
from collections.abc import Iterator

import pytest

from echo_sim import protocol
from echo_sim.protocol import GarbledMessageError, LinkClosedError

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Connect two ends with a time-out of a second."""
    ends = socket.socketpair()
    for end in ends:
        end.settimeout(1.0)
    yield ends
    for end in ends:
        end.close()


def test_a_message_arrives_as_it_was_sent(pair: Pair) -> None:
    for head, data in (({"do": "run", "ops": [["r", 4]]}, b""), ({}, b"\x00\xff" * 500)):
        protocol.send(pair[0], head, data)
        assert protocol.receive(pair[1]) == (head, data)


WHOLE = struct.pack("<II", 2, 4) + b"{}" + b"data"


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_a_link_that_is_cut_anywhere_is_closed(pair: Pair, length: int) -> None:
    pair[0].sendall(WHOLE[:length])
    pair[0].close()
    with pytest.raises(LinkClosedError):
        protocol.receive(pair[1])


def test_half_a_message_takes_no_longer_than_the_time_out(pair: Pair) -> None:
    pair[0].sendall(WHOLE[:9])
    pair[1].settimeout(0.1)
    with pytest.raises(TimeoutError):
        protocol.receive(pair[1])


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"\xff" * 64, "4294967295"),
        (struct.pack("<II", 2, 1 << 31) + b"{}", "2147483648"),
        (struct.pack("<II", 5, 0) + b"hello", "hello"),
        (struct.pack("<II", 3, 0) + b"\xff\xfe{", "begins with"),
        (struct.pack("<II", 2, 0) + b"[]", "no head"),
    ],
    ids=["lengths", "data length", "text", "bytes", "no object"],
)
def test_garbage_is_no_message(pair: Pair, sent: bytes, words: str) -> None:
    pair[0].sendall(sent)
    with pytest.raises(GarbledMessageError, match=words):
        protocol.receive(pair[1])


def test_sending_to_nobody_is_a_closed_link(pair: Pair) -> None:
    pair[1].close()
    with pytest.raises(LinkClosedError):
        protocol.send(pair[0], {}, bytes(1 << 20))
