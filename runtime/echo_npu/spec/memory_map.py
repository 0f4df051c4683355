"""The physical address map of the NPU, and what the host checks against it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Final

from echo_npu.spec.contract import LARGE_REGIONS, MEMORY_REGION_NAMES, PACKET_BYTES, REGIONS

ALLOCATION_ALIGNMENT: Final = PACKET_BYTES
"""Every allocation starts on a multiple of this many bytes; it is also the size of one command packet."""

_MIB: Final = 1 << 20


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


@dataclass(frozen=True)
class MemoryMap:
    """Where the memory of a device lies."""

    weight: Region
    activation: Region

    @cached_property
    def regions(self) -> Mapping[str, Region]:
        """The regions that hold data, by the name `malloc(region=...)` takes."""
        return MappingProxyType({name: getattr(self, name) for name in MEMORY_REGION_NAMES})

    @property
    def end(self) -> int:
        """The first address behind all memory."""
        return max(self.weight.end, self.activation.end)

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return self.weight.size + self.activation.size

    @property
    def is_large(self) -> bool:
        """Whether memory lies above 4 GiB, so that commands have the high words of all addresses."""
        return self.end > 1 << 32

    def region_of(self, address: int, nbytes: int = 1) -> Region | None:
        """The memory region that holds all of `[address, address + nbytes)`, or None."""
        for region in self.regions.values():
            if region.contains(address, nbytes):
                return region
        return None

    def region(self, name: str) -> Region:
        """The memory region called `name`; ValueError lists the names that exist."""
        try:
            return self.regions[name]
        except (KeyError, TypeError):
            raise ValueError(
                f"region is {name!r}; the memory regions are {', '.join(self.regions)}"
            ) from None


@lru_cache
def memory_map(weight_mib: int, activation_mib: int) -> MemoryMap:
    """Return the map of a device with so much memory of each kind.

    What fits lies below the registers; a device with more of either kind has both above 4 GiB.
    """
    sizes = {"weight": weight_mib * _MIB, "activation": activation_mib * _MIB}
    fits = all(size <= REGIONS[name][1] for name, size in sizes.items())
    bases = REGIONS if fits else LARGE_REGIONS
    return MemoryMap(**{name: Region(name, bases[name][0], size) for name, size in sizes.items()})


DEFAULT_MAP: Final = memory_map(*(REGIONS[name][1] // _MIB for name in ("weight", "activation")))
"""The map of every configuration that does not ask for more memory."""

WEIGHT: Final = DEFAULT_MAP.weight
ACTIVATION: Final = DEFAULT_MAP.activation
REGISTERS: Final = Region("registers", *REGIONS["registers"])
RESERVED: Final = Region("reserved", *REGIONS["reserved"])

MEMORY_REGIONS: Final = DEFAULT_MAP.regions
"""The regions of DEFAULT_MAP that hold data."""

MEMORY_SIZE: Final = DEFAULT_MAP.size
"""Bytes of memory of DEFAULT_MAP, which starts at address 0: an offset into it is a physical address."""


def region_of(address: int, nbytes: int = 1) -> Region | None:
    """The region of DEFAULT_MAP that holds all of `[address, address + nbytes)`, or None."""
    return DEFAULT_MAP.region_of(address, nbytes)
