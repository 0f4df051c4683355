"""The allocator under the tensors: it keeps freed blocks for the next tensor of their size."""

import bisect
import threading
from collections import deque
from typing import Final

import torch

from echo_npu.device import Device
from echo_npu.errors import NpuOutOfMemoryError

_SMALL: Final = 1 << 20
_SMALL_UNIT: Final = 512
_LARGE_UNIT: Final = 1 << 16
_WASTE: Final = 8  # a block may be larger than asked by one part in so many
_REGIONS: Final = ("activation", "weight")


class CachingAllocator:
    """Allocates blocks of device memory, first in the activation region, then in the weight region.

    A freed block is reused for a tensor of nearly its size. Commands run in order, so a block may be reused
    before the commands that use it have run. Blocks may be freed on any thread.

    Args:
        npu: its `malloc` gives the blocks.
        index: of the device, for messages.
    """

    def __init__(self, npu: Device, index: int) -> None:
        self._npu = npu
        self._index = index
        self._lock = threading.RLock()
        self._sizes: dict[int, int] = {}  # of every block, by address
        self._free: dict[int, list[int]] = {}  # addresses by size
        self._free_sizes: list[int] = []  # the keys of _free whose lists are not empty, ascending
        self._dropped: deque[int] = deque()
        self._allocated = 0
        self._reserved = 0
        self._peak_allocated = 0
        self._peak_reserved = 0
        self._allocations = 0
        self._reused = 0

    def allocate(self, nbytes: int) -> int:
        """Return the address of a block of at least `nbytes` (>= 1) bytes, 64-byte aligned.

        Raises:
            torch.OutOfMemoryError: neither region has a free block of that size.
        """
        unit = _SMALL_UNIT if nbytes <= _SMALL else _LARGE_UNIT
        size = -(-nbytes // unit) * unit
        with self._lock:
            if self._dropped:
                self._take_back()
            address = self._cached(size)
            if address is None:
                address = self._new(nbytes, size)
            else:
                self._reused += 1
            self._allocations += 1
            self._allocated += self._sizes[address]
            self._peak_allocated = max(self._peak_allocated, self._allocated)
            return address

    def free(self, address: int) -> None:
        """Give a block back. Takes no lock, so that a finalizer may call it on any thread."""
        self._dropped.append(address)

    def empty_cache(self) -> None:
        """Give unused blocks back to the device."""
        with self._lock:
            self._take_back()
            for addresses in self._free.values():
                for address in addresses:
                    self._npu.free(address)
                    self._reserved -= self._sizes.pop(address)
            self._free.clear()
            self._free_sizes.clear()

    def statistics(self) -> dict[str, int]:
        """Return bytes and counts under the names that torch.accelerator uses."""
        with self._lock:
            self._take_back()
            return {
                "allocated_bytes.all.current": self._allocated,
                "allocated_bytes.all.peak": self._peak_allocated,
                "reserved_bytes.all.current": self._reserved,
                "reserved_bytes.all.peak": self._peak_reserved,
                "allocation.all.allocated": self._allocations,
                "allocation.all.reused": self._reused,
            }

    def reset_peak(self) -> None:
        """Make the present figures the peaks."""
        with self._lock:
            self._take_back()
            self._peak_allocated, self._peak_reserved = self._allocated, self._reserved

    def reset_accumulated(self) -> None:
        """Count allocations from here on."""
        with self._lock:
            self._allocations = self._reused = 0

    def _take_back(self) -> None:
        while self._dropped:
            address = self._dropped.popleft()
            size = self._sizes[address]
            self._allocated -= size
            held = self._free.setdefault(size, [])
            if not held:
                bisect.insort(self._free_sizes, size)
            held.append(address)

    def _cached(self, size: int) -> int | None:
        held = self._free.get(size)
        if not held:
            place = bisect.bisect_left(self._free_sizes, size)
            if size <= _SMALL or place == len(self._free_sizes):
                return None
            size, wanted = self._free_sizes[place], size
            if size > wanted + wanted // _WASTE:
                return None
            held = self._free[size]
        address = held.pop()
        if not held:
            self._free_sizes.remove(size)
        return address

    def _new(self, nbytes: int, size: int) -> int:
        address = self._malloc(size)
        if address is None:
            self.empty_cache()
            address = self._malloc(size)
        if address is None:
            raise self._exhausted(nbytes)
        self._sizes[address] = size
        self._reserved += size
        self._peak_reserved = max(self._peak_reserved, self._reserved)
        return address

    def _malloc(self, size: int) -> int | None:
        for region in _REGIONS:
            try:
                return self._npu.malloc(size, region)
            except NpuOutOfMemoryError:
                continue
        return None

    def _exhausted(self, nbytes: int) -> torch.OutOfMemoryError:
        regions = ", ".join(
            f"{each.free} of {each.capacity} bytes free in the {name} region (largest block "
            f"{each.largest_free_block})"
            for name, each in self._npu.memory_statistics().items()
        )
        return torch.OutOfMemoryError(
            f"echo_npu:{self._index} is out of memory: tried to allocate {nbytes} bytes; tensors hold "
            f"{self._allocated} bytes; {regions}"
        )
