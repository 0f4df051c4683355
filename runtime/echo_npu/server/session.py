"""What a client does with its device."""

import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from echo_npu.device import Device
from echo_npu.errors import NpuError, NpuOutOfMemoryError, NpuPointerError
from echo_npu.formats import PackedMatrix, named_format, pack, unpack
from echo_npu.server import protocol
from echo_npu.server.graphs import GraphRunner
from echo_npu.server.operations import UnsupportedError, check
from echo_npu.server.protocol import AnswerStatus, GraphFlag, GraphNode, ProtocolError, RequestKind, nodes_of
from echo_npu.server.results import NotANumberError

_LOG: Final = logging.getLogger(__name__)

_REGIONS: Final = ("weight", "activation")
"""Where buffers of clients go, best first: what the server itself needs is in the second one."""


class RefusedError(Exception):
    """A request that is answered with a status other than OK."""

    def __init__(self, status: AnswerStatus, message: str) -> None:
        self.status = status
        super().__init__(message)


class DeviceSession:
    """A client's use of one device, from OPEN to the end of the connection.

    Args:
        device: it belongs to this session until `close()`.
        watch: called between commands that are under way; what it raises, `answer` raises.

    Raises:
        RefusedError: the device does not share its memory with the host.
    """

    def __init__(self, device: Device, watch: Callable[[], None] | None = None) -> None:
        memory = device.backend.shared_memory
        if memory is None:
            raise RefusedError(
                AnswerStatus.DEVICE_FAILED,
                f"a device of the backend {device.backend.name} cannot be lent: the host does not share its "
                "memory",
            )
        self._device = device
        self._shared = memory
        device.hardware.watch = watch
        self._blocks: set[int] = set()
        self._graphs = GraphRunner(device)
        self._lend_memory()
        self._requests: Mapping[int, Callable[[memoryview], bytes]] = {
            RequestKind.MEMORY: self._memory,
            RequestKind.ALLOCATE: self._allocate,
            RequestKind.FREE: self._free,
            RequestKind.PACK: self._pack,
            RequestKind.UNPACK: self._unpack,
            RequestKind.COPY: self._copy,
            RequestKind.SUPPORTS: self._supports,
            RequestKind.GRAPH: self._graph,
            RequestKind.RUN: self._run,
            RequestKind.COUNTERS: self._counters,
        }

    def close(self) -> None:
        """Give everything back that the client held, and leave the device ready for the next one.

        Commands that it has not begun are dropped.

        Raises NpuError: the device no longer works, or what the client did differs on the RTL.
        """
        self._device.hardware.watch = None
        self._graphs.forget()
        for address in self._blocks:
            self._device.free(address)
        self._blocks.clear()
        self._device.reset()
        self._device.backend.settle()

    def _lend_memory(self) -> None:
        """Let the client write memory, until the device's next command."""
        for region in self._device.capabilities.memory.regions.values():
            self._device.backend.exposed(region.base, region.size)

    def answer(self, kind: int, data: memoryview) -> bytes:
        """Carry out a request and return what the answer holds.

        Raises:
            ProtocolError: no such request, or its content has another form.
            RefusedError: it cannot be carried out.
        """
        request = self._requests.get(kind)
        if request is None:
            raise ProtocolError(f"no request of an open device has the kind {kind}")
        try:
            return request(data)
        except UnsupportedError as error:
            raise RefusedError(AnswerStatus.NOT_SUPPORTED, str(error)) from None
        except NotANumberError as error:
            raise RefusedError(AnswerStatus.NOT_A_NUMBER, str(error)) from None
        except NpuOutOfMemoryError as error:
            raise RefusedError(AnswerStatus.OUT_OF_MEMORY, str(error)) from None
        except (NpuPointerError, ValueError, TypeError) as error:
            raise RefusedError(AnswerStatus.BAD_ARGUMENT, str(error)) from None
        except NpuError as error:
            with contextlib.suppress(NpuError):  # what no longer works is opened anew after the session
                self._device.clear_error()
            raise RefusedError(AnswerStatus.DEVICE_FAILED, str(error)) from None
        finally:
            self._lend_memory()

    # --- memory ---------------------------------------------------------------------------------------------

    def opened(self) -> tuple[bytes, int]:
        """Return the answer to OPEN, and the descriptor of device memory."""
        description = f"{self._device.backend.name}, configuration {self._device.config}"
        return protocol.OPENED.pack(self._shared.size, description.encode()[:63]), self._shared.fd

    def _memory(self, data: memoryview) -> bytes:
        _empty(data)
        figures = self._device.memory_statistics().values()
        free = sum(each.free for each in figures)
        return protocol.MEMORY.pack(
            free, self._device.capabilities.memory.size, max(each.largest_free_block for each in figures)
        )

    def _allocate(self, data: memoryview) -> bytes:
        (size,) = protocol.unpack(protocol.NUMBER, data)
        self._graphs.forget()
        for region in _REGIONS:
            try:
                address = self._device.malloc(max(size, 1), region)
            except NpuOutOfMemoryError:
                if region == _REGIONS[-1]:
                    raise
                continue
            break
        self._blocks.add(address)
        return protocol.NUMBER.pack(address)

    def _free(self, data: memoryview) -> bytes:
        (address,) = protocol.unpack(protocol.NUMBER, data)
        if address not in self._blocks:
            raise NpuPointerError(f"0x{address:x} is no buffer of this client")
        self._graphs.forget()
        self._blocks.remove(address)
        self._device.free(address)
        return b""

    def _packed(self, data: memoryview) -> tuple[str, int, int, int, int]:
        if len(data) != protocol.BLOCKS.size:
            raise ProtocolError(f"{len(data)} bytes, expected {protocol.BLOCKS.size}")
        name, address, rows, depth, count = protocol.BLOCKS.unpack(data)
        form = protocol.text_field(name)
        if max(rows, depth, count) >= 1 << 32:
            raise ValueError(f"{count} matrices of {rows} by {depth}")
        total = named_format(form).packed_bytes(rows, depth) * count
        if not total or self._device.capabilities.memory.region_of(address, total) is None:
            raise NpuPointerError(f"0x{address:x}: {total} bytes are not inside one region of memory")
        return form, address, rows, depth, count

    def _pack(self, data: memoryview) -> bytes:
        name, address, rows, depth, count = self._packed(data)
        form = named_format(name)
        memory = self._shared.bytes
        raw, size = rows * form.row_bytes(depth), form.packed_bytes(rows, depth)
        blocks = memory[address : address + raw * count].copy().reshape(count, rows, form.row_bytes(depth))
        for index in range(count):
            place = address + index * size
            memory[place : place + size] = pack(blocks[index], name).data.reshape(-1)
        return b""

    def _unpack(self, data: memoryview) -> bytes:
        name, address, rows, depth, count = self._packed(data)
        form = named_format(name)
        size = form.packed_bytes(rows, depth)
        if rows * form.row_bytes(depth) * count > protocol.MAX_MESSAGE:
            raise ValueError(f"{count} matrices of {rows} by {depth} are too much for one answer")
        parts = []
        for index in range(count):
            tiles = self._device.backend.read_mem(address + index * size, size)
            parts.append(unpack(PackedMatrix.from_bytes(tiles, form, rows, depth)))
        return np.concatenate(parts).tobytes()

    def _copy(self, data: memoryview) -> bytes:
        target, source, size = protocol.unpack(protocol.RANGE, data)
        if target < source + size and source < target + size:
            raise ValueError(f"0x{target:x} and 0x{source:x}: ranges of {size} bytes that overlap")
        self._device.memcpy(target, source, size)
        return b""

    # --- graphs ---------------------------------------------------------------------------------------------

    def _supports(self, data: memoryview) -> bytes:
        node, end = GraphNode.unpacked(data, 0)
        if end != len(data):
            raise ProtocolError(f"{len(data) - end} bytes behind the node")
        try:
            check(self._device, node)
        except UnsupportedError as error:
            _LOG.info("%s is not supported: %s", node.op, error)
            return protocol.NUMBER.pack(0)
        return protocol.NUMBER.pack(1)

    def _graph(self, data: memoryview) -> bytes:
        if len(data) < protocol.GRAPH.size:
            raise ProtocolError(f"a graph of {len(data)} bytes")
        key, count, flags = protocol.GRAPH.unpack(data[: protocol.GRAPH.size])
        # The inverse of flags has known ones alone, that of an integer has all others.
        if flags & ~int(GraphFlag.REFUSE_NAN | GraphFlag.FUSE):
            raise ProtocolError(f"a graph with the flags {flags}")
        if count > protocol.MAX_NODES:
            raise ValueError(f"a graph of {count} nodes, at most {protocol.MAX_NODES}")
        self._graphs.run_new(key, list(nodes_of(data[protocol.GRAPH.size :], count)), GraphFlag(flags))
        return b""

    def _run(self, data: memoryview) -> bytes:
        (key,) = protocol.unpack(protocol.NUMBER, data)
        if not self._graphs.run(key):
            raise RefusedError(AnswerStatus.UNKNOWN_GRAPH, f"no graph has the key {key}")
        return b""

    def _counters(self, data: memoryview) -> bytes:
        _empty(data)
        counters = self._device.counters()
        return protocol.COUNTERS.pack(counters["busy_cycles"], counters["commands"], self._graphs.runs)


def _empty(data: memoryview) -> None:
    if len(data):
        raise ProtocolError(f"{len(data)} bytes in a request that has none")
