"""Device memory for tests: the back door (shared bytes) and the front door (the host window s_axi)."""

import mmap
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from echo_sim.contract import MEMORY_BYTES
from echo_sim.host_window import HostWindow
from echo_sim.native import Dram


class SharedMemory:
    """Bytes of the memory model, mapped without a copy; the index is the physical address."""

    def __init__(self, dram: Dram) -> None:
        self.fd = dram.fd()
        self._mapping = mmap.mmap(self.fd, MEMORY_BYTES)
        self.bytes: NDArray[np.uint8] = np.frombuffer(self._mapping, dtype=np.uint8)

    def extents(self) -> Iterator[tuple[int, int]]:
        """Yield `(start, end)` of the ranges that were ever touched; all other bytes are zero."""
        position = 0
        while position < MEMORY_BYTES:
            try:
                start = os.lseek(self.fd, position, os.SEEK_DATA)
            except OSError:  # no data behind `position`
                return
            position = os.lseek(self.fd, start, os.SEEK_HOLE)
            yield start, position

    def clear(self) -> None:
        """Zero everything and free the host memory behind it."""
        self._mapping.madvise(mmap.MADV_REMOVE)


class MemoryDriver(HostWindow):
    """Write stimulus into device memory and read results from it.

    `on_write(address, bytes)` is called before every write through either door.
    """

    def __init__(self, dut: Any, dram: Dram, on_write: Callable[[int, NDArray[np.uint8]], None]) -> None:
        super().__init__(dut)
        self._on_write = on_write
        self.shared = SharedMemory(dram)

    def write(self, address: int, data: NDArray[Any] | bytes) -> None:
        """Store an array's bytes (C order) at physical `address`, through the back door."""
        values = np.frombuffer(data, dtype=np.uint8) if isinstance(data, bytes) else data
        raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self._on_write(address, raw)
        self.shared.bytes[address : address + raw.size] = raw

    def read(self, address: int, shape: int | tuple[int, ...], dtype: DTypeLike = np.uint8) -> NDArray[Any]:
        """Return a copy of an array of this shape and type at physical `address`, through the back door."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape))
        raw = self.shared.bytes[address : address + count * kind.itemsize]
        return raw.copy().view(kind).reshape(shape)

    async def front_write(self, address: int, data: bytes, *, refused: bool = False, **axi: Any) -> Any:
        """Write through the host window. If the device must refuse it (`refused`), `on_write` is not
        called."""
        if not refused:
            self._on_write(address, np.frombuffer(data, dtype=np.uint8))
        return await super().front_write(address, data, **axi)
