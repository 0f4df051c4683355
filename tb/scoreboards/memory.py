"""Comparison of two whole device memories."""

from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class MemoryImage(Protocol):
    """Device memory with the ranges that may differ from zero."""

    bytes: NDArray[np.uint8]

    def extents(self) -> Iterator[tuple[int, int]]:
        """Yield ranges outside of which everything is zero."""
        ...


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def differences(device: MemoryImage, reference: MemoryImage) -> NDArray[np.int64]:
    """Return the addresses of all differing bytes, ascending."""
    found = [
        start + np.flatnonzero(device.bytes[start:end] != reference.bytes[start:end])
        for start, end in _merged([*device.extents(), *reference.extents()])
    ]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)
