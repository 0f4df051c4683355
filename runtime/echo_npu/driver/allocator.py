"""First-fit allocation of device memory."""

import bisect
from dataclasses import dataclass

from echo_npu.errors import NpuOutOfMemoryError, NpuPointerError
from echo_npu.spec.memory_map import ALLOCATION_ALIGNMENT, Region


@dataclass(frozen=True, slots=True)
class AllocatorStatistics:
    """Bytes and counts of one region. `used` counts whole alignment units."""

    region: str
    capacity: int
    used: int
    free: int
    largest_free_block: int
    peak_used: int
    blocks: int
    allocations: int
    frees: int


class RegionAllocator:
    """First-fit allocator of one region: lowest address first, neighbours merged when freed.

    Physical address 0 is ordinary memory, but no allocation starts there, so that a pointer of 0 is always a
    mistake.
    """

    def __init__(self, region: Region, alignment: int = ALLOCATION_ALIGNMENT) -> None:
        self.region = region
        self.alignment = alignment
        start = region.base or alignment
        self._capacity = region.end - start
        self._free: list[tuple[int, int]] = [(start, self._capacity)]  # (address, bytes), by address
        self._used: dict[int, int] = {}
        self._starts: list[int] = []  # of the used blocks, ascending
        self._retained: dict[int, int] = {}  # how often each block is retained
        self._given_up: set[int] = set()  # retained blocks whose owner freed them
        self._used_bytes = 0
        self._peak = 0
        self._allocations = 0
        self._frees = 0

    def malloc(self, nbytes: int, *, from_top: bool = False) -> int:
        """Return the address of a new block of at least `nbytes` bytes (>= 1).

        The block is at the start of the lowest hole that is large enough, or with `from_top` at the end of
        the highest.

        Raises:
            ValueError: nbytes is less than 1.
            NpuOutOfMemoryError: no free block is large enough.
        """
        if nbytes < 1:
            raise ValueError(f"nbytes is {nbytes}; an allocation has at least 1 byte")
        size = -(-nbytes // self.alignment) * self.alignment
        holes = range(len(self._free))
        for index in reversed(holes) if from_top else holes:
            start, available = self._free[index]
            if available < size:
                continue
            address = start + available - size if from_top else start
            if available == size:
                del self._free[index]
            else:
                self._free[index] = (start if from_top else start + size, available - size)
            self._used[address] = size
            bisect.insort(self._starts, address)
            self._used_bytes += size
            self._peak = max(self._peak, self._used_bytes)
            self._allocations += 1
            return address
        raise NpuOutOfMemoryError(self.region.name, nbytes, self.largest_free_block)

    def free(self, address: int) -> None:
        """Give a block back; NpuPointerError unless `address` is exactly what `malloc` returned.

        A retained block keeps its place until it is also released.
        """
        if address not in self._used or address in self._given_up:
            raise NpuPointerError(self._why_not(address))
        if address in self._retained:
            self._given_up.add(address)
        else:
            self._return(address)

    def retain(self, address: int) -> None:
        """Keep the block at `address`, even if its owner frees it, until as many calls of `release`."""
        if address not in self._used:
            raise NpuPointerError(self._why_not(address))
        self._retained[address] = self._retained.get(address, 0) + 1

    def release(self, address: int) -> None:
        """Undo one `retain`. The last one gives back a block that its owner has freed."""
        self._retained[address] -= 1
        if self._retained[address]:
            return
        del self._retained[address]
        if address in self._given_up:
            self._given_up.remove(address)
            self._return(address)

    def adopt(self, address: int) -> None:
        """Give a retained block that its owner has freed to a new owner."""
        self._given_up.remove(address)

    def block_at(self, address: int) -> tuple[int, int] | None:
        """Return `(start, bytes)` of the block that contains `address`, None if there is none."""
        index = bisect.bisect(self._starts, address) - 1
        if index < 0:
            return None
        start = self._starts[index]
        return (start, self._used[start]) if address < start + self._used[start] else None

    def blocks_in(self, address: int, nbytes: int) -> list[tuple[int, int]]:
        """Return `(start, bytes)` of the blocks that meet `[address, address + nbytes)`, ascending."""
        found = []
        for index in range(max(bisect.bisect(self._starts, address) - 1, 0), len(self._starts)):
            start = self._starts[index]
            if start >= address + nbytes:
                break
            if address < start + self._used[start]:
                found.append((start, self._used[start]))
        return found

    def _return(self, address: int) -> None:
        size = self._used.pop(address)
        del self._starts[bisect.bisect_left(self._starts, address)]
        self._used_bytes -= size
        self._frees += 1
        index = bisect.bisect(self._free, (address, size))
        if index < len(self._free) and address + size == self._free[index][0]:
            size += self._free.pop(index)[1]
        if index and sum(self._free[index - 1]) == address:
            address, before = self._free.pop(index - 1)
            size += before
            index -= 1
        self._free.insert(index, (address, size))

    def _why_not(self, address: int) -> str:
        block = self.block_at(address)
        if block is not None and block[0] != address:
            start, size = block
            return f"pointer 0x{address:08x} lies inside the allocation 0x{start:08x} of {size} bytes"
        return f"pointer 0x{address:08x} is not an allocation of the {self.region.name} region (freed twice?)"

    @property
    def largest_free_block(self) -> int:
        return max((size for _, size in self._free), default=0)

    def statistics(self) -> AllocatorStatistics:
        return AllocatorStatistics(
            region=self.region.name,
            capacity=self._capacity,
            used=self._used_bytes,
            free=self._capacity - self._used_bytes,
            largest_free_block=self.largest_free_block,
            peak_used=self._peak,
            blocks=len(self._used),
            allocations=self._allocations,
            frees=self._frees,
        )
