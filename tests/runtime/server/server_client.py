"""A client of the device server, and helpers that make tensors and nodes."""

import mmap
import os
import socket
import struct
import time
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from echo_npu.server import protocol
from echo_npu.server.protocol import AnswerStatus, GraphNode, GraphTensor, RequestKind, TensorFlag

COMPUTED = TensorFlag(0)
TYPE_NAMES = {"float32": "f32", "float16": "f16", "uint16": "bf16", "int32": "i32", "int64": "i64"}


class AnswerError(Exception):
    """An answer with a status other than OK."""

    def __init__(self, status: int, message: str) -> None:
        self.status = AnswerStatus(status)
        super().__init__(message)


class ServerClient:
    """A connection to a device server; `memory` is the device's, once it is open."""

    def __init__(self, path: Path) -> None:
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connection.settimeout(120)
        self.connection.connect(str(path))
        self.memory: NDArray[np.uint8] = np.empty(0, np.uint8)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def send(self, kind: int, data: bytes = b"") -> None:
        self.connection.sendall(protocol.HEAD.pack(kind, 0, len(data)) + data)

    def receive(self) -> tuple[int, bytes, list[int]]:
        head, descriptors, _, _ = socket.recv_fds(self.connection, protocol.HEAD.size, 1)
        if not head:
            raise EOFError("the server has ended the connection")
        status, _, size = protocol.HEAD.unpack(head)
        data = b""
        while len(data) < size:
            data += self.connection.recv(size - len(data))
        return status, data, descriptors

    def ask(self, kind: int, data: bytes = b"") -> bytes:
        self.send(kind, data)
        status, answer, _ = self.receive()
        if status != AnswerStatus.OK:
            raise AnswerError(status, answer.decode())
        return answer

    def hello(self, version: int = protocol.VERSION) -> int:
        return int(protocol.HELLO.unpack(self.ask(RequestKind.HELLO, protocol.HELLO.pack(version, 0)))[1])

    def open(self, device: int = 0) -> Self:
        self.hello()
        self.send(RequestKind.OPEN, protocol.NUMBER.pack(device))
        status, answer, descriptors = self.receive()
        if status != AnswerStatus.OK:
            raise AnswerError(status, answer.decode())
        size, _ = protocol.OPENED.unpack(answer)
        self.memory = np.frombuffer(mmap.mmap(descriptors[0], size), np.uint8)
        os.close(descriptors[0])
        return self

    def number(self, kind: int, *values: int) -> int:
        answer = self.ask(kind, struct.pack(f"<{len(values)}Q", *values))
        return int(protocol.NUMBER.unpack(answer)[0]) if answer else 0

    # --- tensors --------------------------------------------------------------------------------------------

    def put(self, values: NDArray[Any], flags: TensorFlag = TensorFlag.INPUT) -> GraphTensor:
        """Bring an array to the device."""
        tensor = self.room(values.shape, values.dtype, flags)
        self.write(tensor, values)
        return tensor

    def room(
        self, shape: tuple[int, ...], dtype: Any = np.float32, flags: TensorFlag = COMPUTED
    ) -> GraphTensor:
        """Allocate a contiguous tensor of numpy's shape."""
        kind = np.dtype(dtype)
        whole = (*(1,) * (4 - len(shape)), *shape)
        address = self.number(RequestKind.ALLOCATE, int(np.prod(whole)) * kind.itemsize)
        steps = [kind.itemsize * int(np.prod(whole[axis + 1 :])) for axis in range(4)]
        return GraphTensor(TYPE_NAMES[kind.name], flags, whole[::-1], tuple(steps[::-1]), address)

    def _array(self, tensor: GraphTensor) -> NDArray[Any]:
        names = {short: name for name, short in TYPE_NAMES.items()}
        dtype = np.dtype(names[tensor.type])
        strides = tensor.steps[::-1]
        return np.ndarray(tensor.elements[::-1], dtype, self.memory, tensor.address, strides)

    def write(self, tensor: GraphTensor, values: NDArray[Any]) -> None:
        self._array(tensor)[...] = values

    def read(self, tensor: GraphTensor) -> NDArray[Any]:
        return self._array(tensor).copy()

    # --- graphs ---------------------------------------------------------------------------------------------

    def supports(self, node: GraphNode) -> bool:
        return bool(protocol.NUMBER.unpack(self.ask(RequestKind.SUPPORTS, node.packed()))[0])

    def graph(self, *nodes: GraphNode, key: int = 0, flags: int = 0) -> None:
        head = protocol.GRAPH.pack(key, len(nodes), flags)
        self.ask(RequestKind.GRAPH, head + b"".join(node.packed() for node in nodes))

    def run(self, key: int) -> None:
        self.ask(RequestKind.RUN, protocol.NUMBER.pack(key))


def node(
    op: str,
    target: GraphTensor,
    *sources: GraphTensor | None,
    parameters: dict[int, float | int] | None = None,
) -> GraphNode:
    """Make a node; a float among the parameters becomes the word of a float32."""
    words = [0] * protocol.PARAMETER_WORDS
    for index, value in (parameters or {}).items():
        form = "<f" if isinstance(value, float) else "<i"
        words[index] = struct.unpack("<i", struct.pack(form, value))[0]
    return GraphNode(op, tuple(words), target, sources)


def opened(path: Path, device: int = 0) -> ServerClient:
    """Open a device, which the server gives back a moment after its last client has gone."""
    until = time.monotonic() + 60
    while True:
        client = ServerClient(path)
        try:
            return client.open(device)
        except AnswerError as error:
            client.connection.close()
            if error.status != AnswerStatus.DEVICE_IN_USE or time.monotonic() > until:
                raise
            time.sleep(0.001)
