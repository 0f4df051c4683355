"""The ioctls of VFIO that a card takes, as linux/vfio.h defines them: numbers, flags and structures.

Each structure begins with its size, `argsz`, and flags, both u32. All calls are of the container and group
interface.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

_TYPE: Final = ord(";")
_BASE: Final = 100


class VfioCall(IntEnum):
    """Request numbers; `_IO(VFIO_TYPE, VFIO_BASE + n)` has neither direction nor size."""

    GET_API_VERSION = _TYPE << 8 | _BASE + 0
    CHECK_EXTENSION = _TYPE << 8 | _BASE + 1
    SET_IOMMU = _TYPE << 8 | _BASE + 2
    GROUP_GET_STATUS = _TYPE << 8 | _BASE + 3
    GROUP_SET_CONTAINER = _TYPE << 8 | _BASE + 4
    GROUP_GET_DEVICE_FD = _TYPE << 8 | _BASE + 6
    DEVICE_GET_REGION_INFO = _TYPE << 8 | _BASE + 8
    DEVICE_GET_IRQ_INFO = _TYPE << 8 | _BASE + 9
    DEVICE_SET_IRQS = _TYPE << 8 | _BASE + 10
    IOMMU_MAP_DMA = _TYPE << 8 | _BASE + 13
    IOMMU_UNMAP_DMA = _TYPE << 8 | _BASE + 14


API_VERSION: Final = 0
TYPE1V2_IOMMU: Final = 3

GROUP_VIABLE: Final = 1 << 0
REGION_READ: Final = 1 << 0
REGION_WRITE: Final = 1 << 1
IRQ_EVENTFD: Final = 1 << 0
IRQ_DATA_NONE: Final = 1 << 0
IRQ_DATA_EVENTFD: Final = 1 << 2
IRQ_TRIGGER: Final = 1 << 5
DMA_READ: Final = 1 << 0
DMA_WRITE: Final = 1 << 1

PCI_CONFIG_REGION: Final = 7
PCI_MSIX_IRQ: Final = 2

GROUP_STATUS: Final = struct.Struct("=II")
"""argsz, flags."""
REGION_INFO: Final = struct.Struct("=IIIIQQ")
"""argsz, flags, index, cap_offset, size, offset in the device's file."""
IRQ_INFO: Final = struct.Struct("=IIII")
"""argsz, flags, index, count."""
IRQ_SET: Final = struct.Struct("=IIIII")
"""argsz, flags, index, start, count; then the data, for eventfds an s32 each."""
DMA_MAP: Final = struct.Struct("=IIQQQ")
"""argsz, flags, vaddr, iova, size."""
DMA_UNMAP: Final = struct.Struct("=IIQQ")
"""argsz, flags, iova, size."""


def request(form: struct.Struct, flags: int = 0, *values: int, data: bytes = b"") -> bytearray:
    """Return a structure to pass: `argsz` counts `data` behind it; fields that are not given are 0."""
    fields = (form.size + len(data), flags, *values)
    missing = len(form.unpack(bytes(form.size))) - len(fields)
    return bytearray(form.pack(*fields, *[0] * missing) + data)
