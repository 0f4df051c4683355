"""Clients that send a device server what they like; it must answer, and serve honest ones as before."""

import gc
import random
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from echo_npu.formats import FORMATS
from echo_npu.server import protocol
from echo_npu.server.operations import OPERATIONS
from echo_npu.server.operations.base import MOST_ITEM, TYPES
from echo_npu.server.protocol import AnswerStatus, GraphNode, GraphTensor, RequestKind, TensorFlag
from tests.runtime.server.honest_nodes import honest_nodes
from tests.runtime.server.server_client import node, opened

NUMBERS = (0, 1, 63, 64, 1 << 20, (1 << 28) - 64, 1 << 28, 1 << 29, 1 << 32, 1 << 40, 1 << 63, (1 << 64) - 1)
ITEMS = (0, 1, 4, 34, 175, MOST_ITEM, MOST_ITEM + 1, 1 << 31, (1 << 64) - 1)
"""Bytes of elements that are only moved."""


class HostileClient:
    """Makes messages from a seed: honest ones of small tensors, and others that are changed a little."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.addresses = [64]

    def number(self) -> int:
        pick = self.random.random()
        if pick < 0.4:
            return self.random.choice(self.addresses)
        return self.random.choice(NUMBERS) if pick < 0.7 else self.random.randrange(1 << 12)

    def tensor(self) -> GraphTensor:
        name = self.random.choice([*TYPES, *FORMATS])
        item = TYPES[name].itemsize if name in TYPES else FORMATS[name].block_bytes
        first = self.random.choice((32, 64, 96)) if name in FORMATS else self.random.randrange(1, 9)
        elements = [first, *(self.random.randrange(1, 5) for _ in range(3))]
        steps = [item, item * (first // 32 if name in FORMATS else first)]
        for count in elements[1:3]:
            steps.append(steps[-1] * count)
        whole = tuple(elements) if self.random.random() < 0.2 else (0,) * 4
        for numbers in (elements, steps):
            if self.random.random() < 0.1:
                numbers[self.random.randrange(4)] = self.number() % (1 << 41)
            if self.random.random() < 0.1:
                numbers[self.random.randrange(4)] = 0
        flags = TensorFlag(self.random.randrange(4))
        offset = self.random.choice((0, 0, 0, 34, 1 << 30))
        address = self.number() if self.random.random() < 0.1 else self.random.choice(self.addresses)
        size = self.random.choice(ITEMS) if self.random.random() < 0.1 else 0
        return GraphTensor(name, flags, tuple(elements), tuple(steps), address, whole, offset, size)

    def node(self) -> GraphNode:
        if self.random.random() < 0.7:
            return self.changed_node()
        target = self.tensor()
        sources: list[GraphTensor | None] = [
            target if self.random.random() < 0.5 else self.tensor() for _ in range(self.random.randrange(4))
        ]
        words: dict[int, float | int] = {
            self.random.randrange(16): self.random.choice((0, 1, -1, 1.0, 1e30, 1 << 30)) for _ in range(3)
        }
        return node(self.random.choice(list(OPERATIONS)), target, *sources, parameters=words)

    def changed_node(self) -> GraphNode:
        """Return a supported node of which mostly one thing is changed."""
        made = self.random.choice(honest_nodes(self.random.choice(self.addresses)))
        tensors = [made.destination, *made.sources]
        which = self.random.randrange(len(tensors))
        pick = self.random.random()
        if pick < 0.7:
            tensors[which] = self.changed_tensor(tensors[which])
        elif pick < 0.8:
            words = list(made.parameters)
            words[self.random.randrange(16)] = self.random.choice((0, 1, -1, 1 << 30, -(1 << 31), 0x7F800000))
            made = replace(made, parameters=tuple(words))
        elif pick < 0.85 and which:
            tensors[which] = None
        destination, *sources = tensors
        assert destination is not None
        return replace(made, destination=destination, sources=tuple(sources))

    def changed_tensor(self, tensor: GraphTensor | None) -> GraphTensor | None:
        if tensor is None:
            return None
        axis = self.random.randrange(4)
        steps, elements = list(tensor.steps), list(tensor.elements)
        pick = self.random.random()
        if pick < 0.4:
            elements[axis] = self.random.choice((0, 0, 1, 2, 3, 5))
        elif pick < 0.6:  # many elements that repeat, of a tensor in blocks also rows of a small whole one
            elements[axis], steps[1:] = self.random.choice((1 << 28, 1 << 36)), [0, 0, 0]
            return replace(tensor, elements=tuple(elements), steps=tuple(steps), whole=tensor.elements)
        elif pick < 0.8:
            steps[axis] = self.random.choice((0, 1, 4, 34, 1 << 30, (1 << 40) - 4))
        elif pick < 0.85:
            return replace(tensor, item=self.random.choice(ITEMS))
        elif pick < 0.9:
            return replace(tensor, address=self.random.choice(NUMBERS) % (1 << 64))
        else:
            return replace(tensor, type=self.random.choice([*TYPES, *FORMATS, "other"]))
        return replace(tensor, elements=tuple(elements), steps=tuple(steps))

    def content(self, kind: RequestKind) -> bytes:
        def numbers(count: int) -> bytes:
            return struct.pack(f"<{count}Q", *(self.number() % (1 << 64) for _ in range(count)))

        name = self.random.choice(list(FORMATS)).encode()
        makers: dict[RequestKind, Callable[[], bytes]] = {
            RequestKind.HELLO: lambda: protocol.HELLO.pack(protocol.VERSION, 0),
            RequestKind.OPEN: lambda: protocol.NUMBER.pack(self.random.randrange(3)),
            RequestKind.MEMORY: bytes,
            RequestKind.COUNTERS: bytes,
            RequestKind.PACK: lambda: name.ljust(8, b"\0") + numbers(1) + struct.pack("<3Q", 5, 64, 2),
            RequestKind.UNPACK: lambda: name.ljust(8, b"\0") + numbers(1) + struct.pack("<3Q", 5, 64, 2),
            RequestKind.COPY: lambda: numbers(3),
            RequestKind.SUPPORTS: lambda: self.node().packed(),
            RequestKind.GRAPH: lambda: self.graph(),
        }
        return makers.get(kind, lambda: numbers(1))()

    def graph(self) -> bytes:
        nodes = [self.node().packed() for _ in range(self.random.randrange(1, 4))]
        key, flags = self.random.randrange(4), self.random.randrange(4)
        return protocol.GRAPH.pack(key, len(nodes), flags) + b"".join(nodes)

    def message(self) -> tuple[int, bytes, bytes]:
        """Return a request: its kind, its content, and all its bytes after some changes."""
        kind = self.random.choice([*list(RequestKind)[2:], *[RequestKind.SUPPORTS, RequestKind.GRAPH] * 4])
        content = bytearray(self.content(kind))
        for _ in range(self.random.choice((0, 0, 0, 1, 2, 8))):
            if content:
                content[self.random.randrange(len(content))] = self.random.randrange(256)
        if self.random.random() < 0.05:
            content = content[: self.random.randrange(len(content) + 1)]
        head = bytearray(protocol.HEAD.pack(kind, 0, len(content)))
        if self.random.random() < 0.02:
            head[self.random.choice((0, 1, 4, 8, 9, 15))] ^= self.random.randrange(1, 256)
        return kind, bytes(content), bytes(head + content)


def attack(path: Path, seed: int, count: int) -> dict[AnswerStatus, int]:
    """Send messages from a seed; return how often each status was answered.

    Python's collector of cycles rests: what a client held is given back when it goes, not some time later.

    Raises: AssertionError if the server does not answer, answers what it must not, or is not what it was.
    """
    hostile = HostileClient(seed)
    found = dict.fromkeys(AnswerStatus, 0)
    crashes: list[str] = []
    before, threading.excepthook = threading.excepthook, lambda args: crashes.append(repr(args.exc_value))
    gc.collect()
    gc.disable()
    try:
        _honest(path)  # a device keeps what its first use allocates
        free = _honest(path)
        client = None
        for number in range(count):
            if client is None:
                client = opened(path, hostile.random.randrange(2))
            kind, _, message = hostile.message()
            try:
                client.connection.sendall(message)
                if len(message) - protocol.HEAD.size != protocol.HEAD.unpack_from(message)[2]:
                    client.connection.shutdown(socket.SHUT_WR)
                status, answer, _ = client.receive()
            except (EOFError, ConnectionError):
                status, answer = AnswerStatus.BAD_MESSAGE, b"the end"
            assert not crashes, f"message {number} of seed {seed}: {crashes}"
            found[AnswerStatus(status)] += 1
            assert status == AnswerStatus.OK or answer, f"message {number} of seed {seed}: no reason"
            if status == AnswerStatus.OK and kind == RequestKind.ALLOCATE and len(answer) == 8:
                hostile.addresses = [*hostile.addresses[-8:], *struct.unpack("<Q", answer)]
            if status == AnswerStatus.BAD_MESSAGE or hostile.random.random() < 0.01:
                client.connection.close()
                client = None
        if client is not None:
            client.connection.close()
        assert _honest(path) == free, f"seed {seed}: memory is lost"
    finally:
        gc.enable()
        threading.excepthook = before
    return found


def _honest(path: Path) -> Sequence[int]:
    """Compute on both devices as an honest client does; return the free bytes."""
    free = []
    for device in range(2):
        with opened(path, device) as client:
            free.append(protocol.MEMORY.unpack(client.ask(RequestKind.MEMORY))[0])
            x = client.put(np.arange(8, dtype=np.float32))
            y = client.room((8,))
            client.graph(node("SQR", y, x))
            assert np.array_equal(client.read(y).reshape(-1), np.arange(8, dtype=np.float32) ** 2)
    return free
