"""Device memory as a test sees it: the back door (shared bytes) and the front door (the host window
s_axi)."""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tb.native import MEMORY_BYTES, Dram

Scalar = TypeVar("Scalar", bound=np.generic)


class SharedMemory:
    """The memory model's bytes, mapped: index = physical address, no copy."""

    def __init__(self, dram: Dram) -> None:
        self.fd = dram.fd()
        self._mapping = mmap.mmap(self.fd, MEMORY_BYTES)
        self.bytes: NDArray[np.uint8] = np.frombuffer(self._mapping, dtype=np.uint8)

    def extents(self) -> Iterator[tuple[int, int]]:
        """`(start, end)` of the ranges that were ever touched; everything else is zero."""
        position = 0
        while position < MEMORY_BYTES:
            try:
                start = os.lseek(self.fd, position, os.SEEK_DATA)
            except OSError:  # no data behind `position`
                return
            position = os.lseek(self.fd, start, os.SEEK_HOLE)
            yield start, position

    def clear(self) -> None:
        """Everything reads as zero again, and takes no host memory."""
        self._mapping.madvise(mmap.MADV_REMOVE)


class MemoryDriver:
    """Writes stimulus into device memory and reads results from it.

    `on_write(address, bytes)` is told of everything that is written, by either door, before it is written.
    """

    def __init__(self, dut: Any, dram: Dram, on_write: Callable[[int, NDArray[np.uint8]], None]) -> None:
        self._dut = dut
        self._on_write = on_write
        self._master: Any = None
        self._users = 0
        self.shared = SharedMemory(dram)

    def write(self, address: int, data: NDArray[Any] | bytes) -> None:
        """Store an array's bytes (C order) at physical `address`, by the back door."""
        raw = np.frombuffer(data, dtype=np.uint8) if isinstance(data, bytes) else _as_bytes(data)
        self._on_write(address, raw)
        self.shared.bytes[address : address + raw.size] = raw

    def read(self, address: int, shape: int | tuple[int, ...], dtype: DTypeLike = np.uint8) -> NDArray[Any]:
        """A copy of an array of this shape and type at physical `address`, by the back door."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape))
        raw = self.shared.bytes[address : address + count * kind.itemsize]
        return raw.copy().view(kind).reshape(shape)

    async def front_write(self, address: int, data: bytes, *, refused: bool = False, **axi: Any) -> Any:
        """Write through the host window; returns cocotbext-axi's response. `axi`: size, burst, awid ... A
        write that is to be `refused` changes nothing, so nobody is told of it."""
        if not refused:
            self._on_write(address, np.frombuffer(data, dtype=np.uint8))
        async with self.front_door() as master:
            return await master.write(address, data, **axi)

    async def front_read(self, address: int, length: int, **axi: Any) -> Any:
        """Read through the host window; returns cocotbext-axi's response, its `data` are the bytes."""
        async with self.front_door() as master:
            return await master.read(address, length, **axi)

    @contextlib.asynccontextmanager
    async def front_door(self) -> AsyncIterator[Any]:
        """The AXI4 master on s_axi (cocotbext-axi), with its clock running: `on_write` is not told of its
        writes.

        It wakes at clock edges, which makes the simulation many times slower for the length of the `with`
        block.
        """
        if self._master is None:
            from cocotbext.axi import AxiBus, AxiMaster

            self._master = AxiMaster(
                AxiBus.from_prefix(self._dut, "s_axi"),
                self._dut.bus_clk,
                self._dut.rst_n,
                reset_active_level=False,
            )
        self._users += 1
        self._dut.bus_enable.value = 1
        try:
            yield self._master
        finally:
            self._users -= 1
            if not self._users:
                self._dut.bus_enable.value = 0


def _as_bytes(data: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
