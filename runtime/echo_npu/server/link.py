"""A connection of the device server: messages in, answers out."""

import os
import select
import socket
import struct
from collections.abc import Sequence
from typing import Final

from echo_npu.server.protocol import HEAD, MAX_MESSAGE, AnswerStatus, ProtocolError

ANSWER_WAIT_S: Final = 30
"""How long a client may read nothing of its answer. Else it would keep a server from ending."""

_PIECE: Final = 1 << 20


class ClientGoneError(Exception):
    """The other side has ended, and nobody waits for an answer."""


class Link:
    """One end of a connection that carries whole messages.

    Sending raises OSError when the other side reads nothing for ANSWER_WAIT_S.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", ANSWER_WAIT_S, 0))

    def receive(self) -> tuple[int, memoryview] | None:
        """Return the kind and the content of the next message; None when the other side has ended.

        Raises:
            ProtocolError: a head that no message has.
        """
        head = self._exactly(HEAD.size)
        if head is None:
            return None
        kind, zero, size = HEAD.unpack(head)
        if zero or size > MAX_MESSAGE:
            raise ProtocolError(f"a message of {size} bytes, at most {MAX_MESSAGE}, reserved word {zero}")
        data = self._exactly(size)
        return None if data is None else (kind, data)

    def send(self, kind: int, data: bytes | memoryview = b"", descriptors: Sequence[int] = ()) -> None:
        """Send a message, and descriptors of files with it. OSError when the other side has ended."""
        head = HEAD.pack(kind, 0, len(data))
        if descriptors:
            socket.send_fds(self._connection, [head], list(descriptors))
        else:
            self._connection.sendall(head)
        if len(data):
            self._connection.sendall(data)

    def refuse(self, status: AnswerStatus, message: str) -> None:
        """Send a status and its message."""
        self.send(status, message.encode()[:4096])

    def check_alive(self) -> None:
        """Raise ClientGoneError if the other side has ended; one that only sends no more still waits."""
        poll = select.poll()
        poll.register(self._connection, 0)
        if poll.poll(0):
            raise ClientGoneError("the client has ended")

    def _exactly(self, size: int) -> memoryview | None:
        # It grows with what arrives: a head alone takes no memory for what it announces.
        buffer = bytearray()
        while len(buffer) < size:
            got = self._connection.recv(min(size - len(buffer), _PIECE))
            if not got:
                return None
            buffer += got
        return memoryview(buffer)


def same_user(connection: socket.socket) -> bool:
    """Return whether the process at the other end belongs to the user of this one."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", credentials)[1] == os.getuid())
