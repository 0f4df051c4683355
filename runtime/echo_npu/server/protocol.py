"""The messages between the device server and its clients; docs/server.md describes them.

plugins/runtime/echo_npu_protocol.h says the same in C. All numbers are little-endian.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final, Self

VERSION: Final = 3
MAX_MESSAGE: Final = 1 << 26
"""Most bytes behind the head of a message."""
MAX_NODES: Final = 1 << 16
"""Most nodes of a graph."""
MAX_SOURCES: Final = 10
MOST_LENT: Final = 64
"""Most devices of a server."""
DIMENSIONS: Final = 4
PARAMETER_WORDS: Final = 16

HEAD: Final = struct.Struct("<IIQ")
"""Of a request: kind, zero, bytes that follow. Of an answer: status, zero, bytes that follow."""
HELLO: Final = struct.Struct("<II")
"""Request: version, zero. Answer: version, devices."""
OPENED: Final = struct.Struct("<Q64s")
"""Answer: bytes of device memory, description. The descriptor of the memory comes with it."""
MEMORY: Final = struct.Struct("<QQQ")
"""Answer: free bytes, bytes in all, largest free block."""
BLOCKS: Final = struct.Struct("<8sQQQQ")
"""Request: type, address, rows, elements of a row, matrices."""
RANGE: Final = struct.Struct("<QQQ")
"""Request: destination, source, bytes."""
GRAPH: Final = struct.Struct("<QII")
"""Request: key, nodes, flags. The nodes follow."""
NUMBER: Final = struct.Struct("<Q")
COUNTERS: Final = struct.Struct("<QQQ")
"""Answer: busy cycles, commands, graphs run."""
TENSOR: Final = struct.Struct("<8sQ4q4QQ4qQQ")
"""Type (text; empty: no tensor), flags, elements of each dimension, bytes between them, address; of a part of
a tensor in blocks, elements of the whole one and bytes from its start, as a file counts them, else zeros;
bytes of an element of a type that the device only moves, else 0."""
NODE: Final = struct.Struct("<32s16iII")
"""Operation (text), parameters, number of sources, zero. The destination and the sources follow."""


class RequestKind(IntEnum):
    """What a request asks for."""

    HELLO = 1
    OPEN = 2
    MEMORY = 3
    ALLOCATE = 4
    FREE = 5
    PACK = 6
    UNPACK = 7
    COPY = 8
    SUPPORTS = 9
    GRAPH = 10
    RUN = 11
    COUNTERS = 12


class AnswerStatus(IntEnum):
    """The status of an answer; all but OK carry a message as text."""

    OK = 0
    BAD_MESSAGE = 1
    BAD_VERSION = 2
    DEVICE_IN_USE = 3
    OUT_OF_MEMORY = 4
    BAD_ARGUMENT = 5
    NOT_SUPPORTED = 6
    UNKNOWN_GRAPH = 7
    DEVICE_FAILED = 8
    NOT_A_NUMBER = 9


class GraphFlag(IntFlag):
    """What a client wants of a graph."""

    REFUSE_NAN = 1
    """A NaN in a result that no node of the graph reads is an error, when the graph has run."""
    FUSE = 2
    """Results that other nodes read, and that are no outputs, need not be written."""


class TensorFlag(IntFlag):
    """What a client says of a tensor."""

    INPUT = 1
    """No node of the graph writes it."""
    OUTPUT = 2
    """It must be written, even if only the next node reads it."""


class ProtocolError(Exception):
    """A message that breaks the protocol."""


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """An operand of a node: `elements[0]` is the innermost dimension, whose neighbours are `steps[0]` bytes
    apart.

    Attributes:
        whole: of a part of a tensor in blocks, the elements of the whole one; else zeros.
        offset: bytes from the start of the whole one, as a file has its blocks. So has the address.
        item: of a type that the device only moves, the bytes of an element, which may be a block of numbers;
            else 0.
    """

    type: str
    flags: TensorFlag
    elements: tuple[int, ...]
    steps: tuple[int, ...]
    address: int
    whole: tuple[int, ...] = (0,) * DIMENSIONS
    offset: int = 0
    item: int = 0

    def packed(self) -> bytes:
        """Return the bytes of a message."""
        return TENSOR.pack(
            self.type.encode(),
            self.flags,
            *self.elements,
            *self.steps,
            self.address,
            *self.whole,
            self.offset,
            self.item,
        )

    @classmethod
    def unpacked(cls, data: bytes | memoryview, at: int) -> Self | None:
        """Return the tensor at a place in a message; None if there is none.

        Raises:
            ProtocolError: counts or steps that no tensor has.
            ValueError: an address that no device has.
        """
        name, flags, *numbers = TENSOR.unpack_from(data, at)
        kind = _text(name)
        if not kind:
            return None
        elements, steps, address = tuple(numbers[:4]), tuple(numbers[4:8]), numbers[8]
        whole, (offset, item) = tuple(numbers[9:13]), numbers[13:]
        counts = (*elements, *whole)
        if any(not 0 <= count < 1 << 40 for count in counts) or max(*steps, offset) >= 1 << 40:
            raise ProtocolError(f"a tensor of {elements} elements, steps {steps}")
        if address >= 1 << 40:
            raise ValueError(f"a tensor at 0x{address:x}")
        return cls(kind, TensorFlag(flags & 3), elements, steps, address, whole, offset, item)


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One operation of a graph.

    Attributes:
        op: ggml's name of the operation, of a unary or of a gated function.
        parameters: sixteen words as ggml has them.
        destination: what it writes.
        sources: what it reads; None where an optional one is not given.
    """

    op: str
    parameters: tuple[int, ...]
    destination: GraphTensor
    sources: tuple[GraphTensor | None, ...]

    def integer(self, index: int) -> int:
        """Return a parameter word as an int32."""
        return self.parameters[index]

    def number(self, index: int) -> float:
        """Return a parameter word as a float32."""
        value: float = struct.unpack("<f", struct.pack("<i", self.parameters[index]))[0]
        return value

    def source(self, index: int) -> GraphTensor | None:
        """Return a source, None where it is not given."""
        return self.sources[index] if index < len(self.sources) else None

    def packed(self) -> bytes:
        """Return the bytes of a message."""
        head = NODE.pack(self.op.encode(), *self.parameters, len(self.sources), 0)
        absent = bytes(TENSOR.size)
        sources = b"".join(absent if each is None else each.packed() for each in self.sources)
        return head + self.destination.packed() + sources

    @classmethod
    def unpacked(cls, data: bytes | memoryview, at: int) -> tuple[Self, int]:
        """Return the node at a place in a message, and where it ends."""
        if at + NODE.size + TENSOR.size > len(data):
            raise ProtocolError("the message ends inside a node")
        name, *rest = NODE.unpack_from(data, at)
        parameters, count = tuple(rest[:PARAMETER_WORDS]), rest[PARAMETER_WORDS]
        end = at + NODE.size + (1 + count) * TENSOR.size
        if count > MAX_SOURCES or end > len(data):
            raise ProtocolError(f"a node of {count} sources, at most {MAX_SOURCES}, in a message that ends")
        at += NODE.size
        tensors = [GraphTensor.unpacked(data, place) for place in range(at, end, TENSOR.size)]
        if tensors[0] is None:
            raise ProtocolError("a node without destination")
        return cls(_text(name), parameters, tensors[0], tuple(tensors[1:])), end


def nodes_of(data: bytes | memoryview, count: int) -> Iterator[GraphNode]:
    """Yield the nodes of a graph; ProtocolError unless the bytes are exactly so many."""
    at = 0
    for _ in range(count):
        node, at = GraphNode.unpacked(data, at)
        yield node
    if at != len(data):
        raise ProtocolError(f"{len(data) - at} bytes behind the last node")


def unpack(form: struct.Struct, data: bytes | memoryview) -> tuple[int, ...]:
    """Return the numbers of a message that has exactly this form; else ProtocolError."""
    if len(data) != form.size:
        raise ProtocolError(f"{len(data)} bytes, expected {form.size}")
    return form.unpack(data)


def text_field(field: bytes) -> str:
    """Return the text in a field of fixed length; ProtocolError if it is none."""
    return _text(field)


def _text(field: bytes) -> str:
    try:
        return field.split(b"\0", 1)[0].decode("ascii")
    except UnicodeDecodeError:
        raise ProtocolError(f"{field!r} is no text") from None
