"""Messages between rtlmodel and the simulator: a JSON head and raw bytes, each with its length before it.

Requests and replies alternate. The simulator's clock runs only between a request and its reply, and the
simulator ends when the connection does.

    request  {"do": "run"} + OPERATION [n]
             {"do": "read", "address": a, "nbytes": n}        through the host window (s_axi)
             {"do": "write", "address": a} + bytes            through the host window (s_axi)
             {"do": "memory_timing", "set": {knob: value, ...}}
             {"do": "statistics"}
             {"do": "trace_start"}, {"do": "trace_stop"}      between them, each reply to "run" has a cycle,
                                                              and behind its results the timeline's events
    reply    {} + uint32 [n] to "run": the value of a read, 0 for a write, whether high for a wait
             {...} + bytes, or {"error": what went wrong, "kind": "bus" | "value" | "internal", ...}
"""

import json
import socket
import struct
from enum import IntEnum
from typing import Any, Final

import numpy as np

OPERATION: Final = np.dtype([("kind", "<u4"), ("offset", "<u4"), ("value", "<u8")])
"""A register operation: its `RegisterOpKind`, its offset in the register window (bytes), and the value that a
write writes or the cycles after which a wait gives up."""


class RegisterOpKind(IntEnum):
    """Kinds of register operations."""

    READ = 0
    WRITE = 1
    WAIT = 2


_LENGTHS: Final = struct.Struct("<II")
_MOST_TEXT: Final = 1 << 28
_MOST_DATA: Final = 1 << 30
"""Limits of head and data (bytes): more than any message has, less than garbage usually announces."""


class LinkClosedError(ConnectionError):
    """The other side closed the connection."""


class GarbledMessageError(ConnectionError):
    """The bytes received are no message. Nothing after them can be decoded."""


def send(link: socket.socket, head: dict[str, Any], data: bytes | memoryview = b"") -> None:
    """Send one message; LinkClosedError if the other side is gone."""
    text = json.dumps(head, separators=(",", ":")).encode()
    try:
        link.sendall(_LENGTHS.pack(len(text), len(data)) + text)
        if data:
            link.sendall(data)
    except (BrokenPipeError, ConnectionResetError) as error:
        raise LinkClosedError(str(error)) from error


def receive(link: socket.socket) -> tuple[dict[str, Any], bytearray]:
    """Receive one message.

    Raises:
        LinkClosedError: the other side is gone; perhaps part of a message has come.
        GarbledMessageError: the bytes have no head, or announce more than any message has.
        TimeoutError: the socket has a time-out, and it passed.
    """
    text_bytes, data_bytes = _LENGTHS.unpack(_exactly(link, _LENGTHS.size))
    if text_bytes > _MOST_TEXT or data_bytes > _MOST_DATA:
        raise GarbledMessageError(f"a message of {text_bytes} and {data_bytes} bytes was announced")
    text = _exactly(link, text_bytes)
    try:
        head = json.loads(text)
    except ValueError:
        raise GarbledMessageError(f"a message begins with {bytes(text[:40])!r}") from None
    if not isinstance(head, dict):
        raise GarbledMessageError(f"a message begins with {head!r:.40}, which is no head")
    return head, _exactly(link, data_bytes)


def _exactly(link: socket.socket, nbytes: int) -> bytearray:
    data = bytearray(nbytes)
    view = memoryview(data)
    while view:
        try:
            count = link.recv_into(view)
        except ConnectionResetError as error:
            raise LinkClosedError(str(error)) from error
        if count == 0:
            raise LinkClosedError("the connection was closed")
        view = view[count:]
    return data
