"""Weights of a linear projection on the device, in the form in which the matrix engine takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from echo_npu.device import Device
from echo_npu.errors import NpuOutOfMemoryError
from echo_npu.formats import TILE_COLUMNS, PackedMatrix
from echo_npu.ops.packed import PackedTensor
from echo_npu.tensor import DeviceTensor

HALF: Final = np.dtype(np.float16)


def place(device: Device, values: NDArray[Any]) -> DeviceTensor:
    """Bring weights to the weight region, or to the activation region when that is full.

    Raises:
        NpuOutOfMemoryError: neither has room.
    """
    try:
        return device.tensor(values, region="weight")
    except NpuOutOfMemoryError:
        return device.tensor(values, region="activation")


class Projection(Protocol):
    """What a layer asks of its weights, [out, in] together.

    Attributes:
        outputs: columns of the result.  size: number of weights.  nbytes: their bytes in device memory.
        rate: multiply-accumulates that a processing element does in a cycle, at most.
    """

    @property
    def outputs(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def rate(self) -> int: ...

    def columns(self, first: int, stop: int) -> Projection:
        """Return the weights of some columns, of whole tiles but for the last; the memory is the same."""

    def apply(self, rows: DeviceTensor, out: DeviceTensor, *, bias: DeviceTensor | None = None) -> None:
        """Multiply rows, float32 [n, in], into `out`, float32 [n, outputs], and add `bias`, [outputs]."""


class HalfProjection:
    """Weights in float16.

    Args:
        device: holds them.
        weight: float16 [out, in].
    """

    rate: Final = 1

    def __init__(self, device: Device, weight: DeviceTensor) -> None:
        self._device = device
        self._weight = weight

    @property
    def outputs(self) -> int:
        """Columns of the result."""
        return self._weight.shape[0]

    @property
    def size(self) -> int:
        """Number of weights."""
        return self._weight.size

    @property
    def nbytes(self) -> int:
        """Bytes of the weights."""
        return self._weight.nbytes

    def columns(self, first: int, stop: int) -> HalfProjection:
        return HalfProjection(self._device, self._weight[first:stop])

    def apply(self, rows: DeviceTensor, out: DeviceTensor, *, bias: DeviceTensor | None = None) -> None:
        self._device.matmul(rows, self._weight, trans_b=True, bias=bias, out=out)


class BlockProjection:
    """Weights in the blocks of their file.

    Args:
        device: holds them.
        parts: [out, in] each; their outputs lie side by side.
    """

    rate: Final = 2
    """Four products of int8, for two planes of each row."""

    def __init__(self, device: Device, parts: Sequence[PackedTensor]) -> None:
        self._device = device
        self._parts = tuple(parts)

    @property
    def outputs(self) -> int:
        """Columns of the result."""
        return sum(part.shape[0] for part in self._parts)

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(part.shape[0] * part.shape[1] for part in self._parts)

    @property
    def nbytes(self) -> int:
        """Bytes of the tiles."""
        return sum(part.tiles.nbytes for part in self._parts)

    def columns(self, first: int, stop: int) -> BlockProjection:
        found, start = list[PackedTensor](), 0
        for part in self._parts:
            low, high = max(first - start, 0), min(stop - start, part.shape[0])
            if low < high:
                found.append(part.columns(low, high))
            start += part.shape[0]
        return BlockProjection(self._device, found)

    def apply(self, rows: DeviceTensor, out: DeviceTensor, *, bias: DeviceTensor | None = None) -> None:
        first = 0
        for part in self._parts:
            own = slice(first, first + part.shape[0])
            self._device.matmul(rows, part, bias=None if bias is None else bias[own], out=out[:, own])
            first = own.stop


def joined(parts: Sequence[PackedMatrix]) -> list[PackedMatrix]:
    """Join neighbours of one format to one matrix where their tiles allow it: fewer, larger products."""
    made: list[PackedMatrix] = []
    for part in parts:
        last = made[-1] if made else None
        if last is None or last.format != part.format or last.columns % TILE_COLUMNS:
            made.append(part)
        else:
            tiles = np.concatenate([last.data, part.data])
            made[-1] = PackedMatrix(part.format, last.columns + part.columns, part.depth, tiles)
    return made
