"""The device memory that a recorded program needs, kept for as long as it can be run."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from echo_npu.driver.allocator import RegionAllocator
from echo_npu.spec.memory_map import Region


@dataclass(slots=True)
class _RecordedBlock:
    """A block allocated inside the recording.

    Attributes:
        constant: the host wrote its content before any command touched it.
        touched, written: by a command.
    """

    size: int
    constant: bool = False
    touched: bool = False
    written: bool = False


class RecordedMemory:
    """Allocates inside a recording, and retains every block that its commands touch.

    Blocks that are freed inside the recording are used again there, since the commands run in order.
    Constants are not, since every run reads them.

    Attributes:
        fresh: whether `malloc` returns only memory that no command has touched.
    """

    def __init__(self, allocators: Mapping[str, RegionAllocator]) -> None:
        self.fresh = False
        self._allocators = allocators
        self._blocks: dict[int, _RecordedBlock] = {}
        self._retained: set[int] = set()
        self._free: defaultdict[tuple[str, int], list[int]] = defaultdict(list)

    @property
    def retained(self) -> tuple[int, ...]:
        """Start addresses of the blocks that are kept."""
        return tuple(self._retained)

    def malloc(self, region: str, nbytes: int) -> int:
        """Return the address of a block. Raises as the allocator."""
        allocator = self._allocators[region]
        size = -(-nbytes // allocator.alignment) * allocator.alignment
        waiting = self._free[region, size]
        if waiting and not self.fresh:
            address = waiting.pop()
            allocator.adopt(address)
            return address
        address = allocator.malloc(nbytes)
        self._blocks[address] = _RecordedBlock(size)
        self._retain(region, address)
        return address

    def freed(self, address: int) -> None:
        """Note that the owner of the block at `address` has freed it."""
        block, region = self._blocks.get(address), self._region_of(address)
        if block is not None and region is not None and not block.constant:
            self._free[region.name, block.size].append(address)

    def touch(self, address: int, nbytes: int, *, written: bool) -> None:
        """Retain the blocks that a command reads or writes in a range."""
        region = self._region_of(address)
        if region is None:
            return
        for start, _ in self._allocators[region.name].blocks_in(address, nbytes):
            self._retain(region.name, start)
            if start in self._blocks:
                self._blocks[start].touched = True
                self._blocks[start].written |= written

    def take_constant(self, address: int, nbytes: int) -> bool:
        """Return whether the host may write a range once for all runs; if so, make its block a constant."""
        region = self._region_of(address)
        found = None if region is None else self._allocators[region.name].block_at(address)
        block = None if found is None else self._blocks.get(found[0])
        if found is None or block is None or block.touched or address + nbytes > sum(found):
            return False
        block.constant = True
        return True

    def overwritten(self) -> list[tuple[int, int]]:
        """Return `(address, bytes)` of the constants that commands write to: each run must restore them."""
        return [
            (address, block.size)
            for address, block in self._blocks.items()
            if block.constant and block.written
        ]

    def _region_of(self, address: int) -> Region | None:
        regions = (allocator.region for allocator in self._allocators.values())
        return next((region for region in regions if region.contains(address)), None)

    def _retain(self, region: str, address: int) -> None:
        if address not in self._retained:
            self._allocators[region].retain(address)
            self._retained.add(address)
