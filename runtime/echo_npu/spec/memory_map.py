"""The physical address map of the NPU, and what the host checks against it."""

from dataclasses import dataclass
from typing import Final

from echo_npu.spec.contract import MEMORY_REGION_NAMES, PACKET_BYTES, REGIONS

ALLOCATION_ALIGNMENT: Final = PACKET_BYTES
"""Every allocation starts on a multiple of this many bytes; it is also the size of one command packet."""


@dataclass(frozen=True, slots=True)
class Region:
    """A contiguous range of physical addresses: `base` inclusive, `end` exclusive (bytes)."""

    name: str
    base: int
    size: int

    @property
    def end(self) -> int:
        return self.base + self.size

    def contains(self, address: int, nbytes: int = 1) -> bool:
        """Whether all of `[address, address + nbytes)` lies in the region."""
        return self.base <= address and address + nbytes <= self.end


_REGIONS: Final = {name: Region(name, base, size) for name, (base, size) in REGIONS.items()}
WEIGHT: Final = _REGIONS["weight"]
ACTIVATION: Final = _REGIONS["activation"]
REGISTERS: Final = _REGIONS["registers"]
RESERVED: Final = _REGIONS["reserved"]

MEMORY_REGIONS: Final = {name: _REGIONS[name] for name in MEMORY_REGION_NAMES}
"""The regions that hold data, by the name `malloc(region=...)` takes."""

MEMORY_SIZE: Final = sum(region.size for region in MEMORY_REGIONS.values())
"""Bytes of device memory. It starts at physical address 0, so an offset into it is a physical address."""


def region_of(address: int, nbytes: int = 1) -> Region | None:
    """The memory region that holds all of `[address, address + nbytes)`, or None."""
    for region in MEMORY_REGIONS.values():
        if region.contains(address, nbytes):
            return region
    return None


def memory_region(name: str) -> Region:
    """The memory region called `name`; ValueError lists the names that exist."""
    try:
        return MEMORY_REGIONS[name]
    except (KeyError, TypeError):
        raise ValueError(f"region is {name!r}; the memory regions are {', '.join(MEMORY_REGIONS)}") from None
