"""A server that gives the answers of a script, right or wrong ones, to one connection after another."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from echo_npu.server import protocol
from echo_npu.server.protocol import AnswerStatus


@dataclass(frozen=True)
class ScriptedAnswer:
    """An answer of any bytes.

    Attributes:
        data: head and content.
        after: seconds between the request and the answer.
        memory: bytes of a file whose descriptor comes with the head; None: no descriptor.
        last: the server ends the connection behind it.
    """

    data: bytes
    after: float = 0
    memory: int | None = None
    last: bool = False


def answer(
    content: bytes = b"",
    status: int = AnswerStatus.OK,
    *,
    zero: int = 0,
    size: int | None = None,
    after: float = 0,
    memory: int | None = None,
) -> ScriptedAnswer:
    """Make an answer; a `size` is announced in place of that of its content."""
    head = protocol.HEAD.pack(status, zero, len(content) if size is None else size)
    return ScriptedAnswer(head + content, after, memory)


def hello(devices: int = 1) -> ScriptedAnswer:
    return answer(protocol.HELLO.pack(protocol.VERSION, devices))


def opened(size: int = 1 << 16, *, memory: int | None = 1 << 16, after: float = 0) -> ScriptedAnswer:
    return answer(protocol.OPENED.pack(size, b"scripted"), memory=memory, after=after)


@dataclass
class Heard:
    """What clients have sent: kind and content of each request."""

    requests: list[tuple[int, bytes]] = field(default_factory=list)


@contextlib.contextmanager
def scripted(path: Path, *connections: Sequence[ScriptedAnswer]) -> Iterator[Heard]:
    """Serve as many connections, each with its answers; one ends when its client does, or after the last
    answer if a request more comes."""
    heard = Heard()

    def serve() -> None:
        with listener:  # one connection more is refused then
            for answers in connections:
                with listener.accept()[0] as connection:
                    connection.settimeout(20)
                    _converse(connection, answers, heard)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(20)
        thread = threading.Thread(target=serve)
        thread.start()
        yield heard
        thread.join(60)
        assert not thread.is_alive()


def _converse(connection: socket.socket, answers: Sequence[ScriptedAnswer], heard: Heard) -> None:
    for each in answers:
        time.sleep(each.after)
        head = _exactly(connection, protocol.HEAD.size)
        if not head:
            return
        kind, _, size = protocol.HEAD.unpack(head)
        heard.requests.append((kind, _exactly(connection, size)))
        time.sleep(each.after)
        if each.memory is None:
            connection.sendall(each.data)
        else:
            descriptor = os.memfd_create("scripted")
            os.ftruncate(descriptor, each.memory)
            socket.send_fds(connection, [each.data[: protocol.HEAD.size]], [descriptor])
            os.close(descriptor)
            connection.sendall(each.data[protocol.HEAD.size :])
        if each.last:
            return
    with contextlib.suppress(ConnectionResetError):
        connection.recv(1)


def _exactly(connection: socket.socket, size: int) -> bytes:
    """Return so many bytes; fewer when the other side has ended."""
    data = bytearray()
    while len(data) < size and (got := connection.recv(size - len(data))):
        data += got
    return bytes(data)
