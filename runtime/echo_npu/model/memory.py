"""Device memory in the host's RAM: sparse, anonymous, and shareable with a simulator."""

from __future__ import annotations

import fcntl
import mmap
import os
import weakref
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from echo_npu.errors import NpuHostError, NpuPointerError
from echo_npu.spec.memory_map import DEFAULT_MAP, MemoryMap, memory_map
from echo_sim.config import NpuConfig


def memory_map_of(config: NpuConfig) -> MemoryMap:
    """Return where the memory of a hardware configuration lies."""
    return memory_map(config.weight_mib, config.activation_mib)


class DeviceMemory:
    """Memory that reads as zero and takes host memory only where it was written.

    It begins at physical address 0 and holds all regions of the map; where there is none, it has a hole.

    It is an anonymous memory file: another process that maps `share_path` sees the same bytes, and nothing is
    left behind when the last user ends, even if it is killed. Its size is fixed.

    Raises:
        NpuHostError: the host does not grant it.
    """

    def __init__(self, memory: MemoryMap = DEFAULT_MAP) -> None:
        self.map = memory
        self.size = size = memory.end
        try:
            self.fd = os.memfd_create("echo-npu", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            try:
                os.ftruncate(self.fd, size)
                # The size is sealed: after a truncation, an access would kill every process that maps the
                # file.
                fcntl.fcntl(
                    self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
                )
                mapping = mmap.mmap(self.fd, size, mmap.MAP_SHARED)
            except BaseException:
                os.close(self.fd)
                raise
        except OSError as error:
            raise NpuHostError("device memory", error) from None
        self._finalizer = weakref.finalize(self, os.close, self.fd)
        self._mapping: mmap.mmap | None = mapping
        self.bytes: NDArray[np.uint8] = np.frombuffer(mapping, dtype=np.uint8)
        """All of it, as one writable array; the index is the physical address."""

    @property
    def share_path(self) -> str:
        """A path by which a child process can map the same memory while this one lives."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    def check(self, address: int, nbytes: int) -> None:
        """Raise NpuPointerError unless all of `[address, address + nbytes)` is memory."""
        outside = nbytes < 0 or address < 0 or address + nbytes > self.size
        # Without holes, an access may go on from one region to the next.
        if outside or (self.map.is_large and nbytes and self.map.region_of(address, nbytes) is None):
            raise NpuPointerError(
                f"[0x{address:08x}, 0x{address + nbytes:08x}) leaves memory, which ends at 0x{self.size:08x}"
            )

    def read(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        """Return a copy of `nbytes` bytes from physical `address`."""
        self.check(address, nbytes)
        return self.bytes[address : address + nbytes].copy()

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Store the bytes of a one-dimensional uint8 array at physical `address`."""
        self.check(address, data.size)
        self.bytes[address : address + data.size] = data

    def clear(self) -> None:
        """Make all of it zero, and give the host's memory back."""
        assert self._mapping is not None
        self._mapping.madvise(mmap.MADV_REMOVE)

    def extents(self) -> Iterator[tuple[int, int]]:
        """Yield `(start, end)` of the ranges that the host holds; everything else is zero."""
        position = 0
        while position < self.size:
            try:
                start = os.lseek(self.fd, position, os.SEEK_DATA)
            except OSError:  # no data behind `position`
                return
            position = os.lseek(self.fd, start, os.SEEK_HOLE)
            yield start, position

    def differences(self, other: DeviceMemory) -> list[tuple[int, int, int]]:
        """Compare two memories; return up to 16 `(address, byte here, byte there)` that differ, ascending."""
        found: list[tuple[int, int, int]] = []
        for start, end in [*self.extents(), *other.extents()]:
            for index in np.flatnonzero(self.bytes[start:end] != other.bytes[start:end])[: 16 - len(found)]:
                address = start + int(index)
                entry = (address, int(self.bytes[address]), int(other.bytes[address]))
                if entry not in found:
                    found.append(entry)
            if len(found) >= 16:
                break
        return sorted(found)

    def close(self) -> None:
        """Give the memory back as soon as no array refers to it."""
        self._finalizer()
        self.fd = -1
        self.size = 0
        self._mapping = None
        self.bytes = np.empty(0, dtype=np.uint8)
