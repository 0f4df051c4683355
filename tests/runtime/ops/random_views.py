"""Random views that share memory, for numpy and for devices: any strides, 0 among them, any offset."""

import dataclasses
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike, NDArray

from echo_npu import Device, DeviceTensor

Values = Callable[[np.random.Generator, int], NDArray[Any]]
SPARE = 7
"""Elements of a buffer on either side of a view's span."""


class Buffer:
    """Numbers that views share; on a device, an allocation of the same bytes."""

    def __init__(self) -> None:
        self.values: NDArray[Any] = np.zeros(0)
        self._tensors: dict[int, tuple[Device, DeviceTensor]] = {}

    def on(self, device: Device) -> DeviceTensor:
        """Return the whole buffer on the device, copied once."""
        if id(device) not in self._tensors:
            self._tensors[id(device)] = device, device.tensor(self.values)
        return self._tensors[id(device)][1]


@dataclasses.dataclass(frozen=True)
class View:
    """A part of a buffer. Offset and strides are in elements."""

    buffer: Buffer
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def extent(self) -> int:
        """Return the elements from the first to the last."""
        return 1 + sum((size - 1) * step for size, step in zip(self.shape, self.strides, strict=True))

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the same elements of another copy of the buffer."""
        return as_strided(
            values[self.offset :], self.shape, [step * values.itemsize for step in self.strides]
        )

    def numpy(self) -> NDArray[Any]:
        """Return the elements as a new dense array."""
        return np.array(self.of(self.buffer.values), order="C")

    def on(self, device: Device) -> DeviceTensor:
        """Return the elements as a view on the device."""
        whole = self.buffer.on(device)[self.offset :]
        strides = tuple(step * whole.dtype.itemsize for step in self.strides)
        return DeviceTensor(device, whole._block, whole.ptr, self.shape, strides, whole.dtype)


def normal(rng: np.random.Generator, count: int) -> NDArray[Any]:
    """Draw normally distributed float32."""
    return rng.standard_normal(count, dtype=np.float32)


class Draw:
    """Draws shapes, views and numbers of one trial. All views of one dtype are in one buffer and may
    overlap."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self._numbers = np.random.default_rng(list(seed.encode()))
        self._made: dict[tuple[np.dtype[Any], Values], tuple[Buffer, list[int]]] = {}

    def shape(self, least: int = 1, most: int = 5, *, budget: int = 1500) -> tuple[int, ...]:
        """Draw up to `most` dimensions of at most `budget` elements in all; one is sometimes long."""
        ndim = self.random.randint(least, most)
        sizes = [self.random.choice((1, 2, 3, 4, 5, self.random.randint(1, 12))) for _ in range(ndim)]
        if sizes and self.random.random() < 0.3:
            sizes[self.random.randrange(ndim)] = self.random.randint(15, 80)
        while math.prod(sizes) > budget:
            sizes[sizes.index(max(sizes))] //= 2
        return tuple(sizes)

    def view(
        self,
        shape: Sequence[int],
        dtype: DTypeLike = np.float32,
        values: Values = normal,
        *,
        own: bool = False,
        dense: int = 0,
    ) -> View:
        """Draw a view of any strides.

        Args:
            values: what the buffer holds.
            own: no two elements share memory, so the view can be written to.
            dense: number of last axes that lie as in a dense array.
        """
        buffer, used = self._made.setdefault((np.dtype(dtype), values), (Buffer(), [0]))
        strides = self._strides(tuple(shape), own, dense)
        offset = (
            self.random.randint(0, max(used[0], SPARE)) if self.random.random() < 0.5 else used[0] + SPARE
        )
        view = View(buffer, offset, tuple(shape), strides)
        used[0] = max(used[0], offset + view.extent)
        missing = used[0] + SPARE - buffer.values.size
        if missing > 0:
            more = values(self._numbers, missing).astype(dtype)
            buffer.values = np.concatenate([buffer.values.astype(dtype), more])
        return view

    def among(self, buffer: Buffer, shape: Sequence[int], *, dense: int = 0) -> View:
        """Draw a view to write to, anywhere in a buffer with other views; the buffer grows if necessary."""
        view = View(
            buffer, self.random.randrange(SPARE), tuple(shape), self._strides(tuple(shape), True, dense)
        )
        missing = view.offset + view.extent - buffer.values.size
        if missing > 0:
            buffer.values = np.concatenate([buffer.values, np.resize(buffer.values, missing)])
        return view

    def _strides(self, shape: tuple[int, ...], own: bool, dense: int) -> tuple[int, ...]:
        strides = [0] * len(shape)
        inner = list(range(len(shape) - dense, len(shape)))
        outer = list(range(len(shape) - dense))
        self.random.shuffle(outer)
        extent = 1
        for axis in inner[::-1] + outer:
            gap = 0 if axis in inner or self.random.random() < 0.5 else self.random.choice((1, 2, 5))
            strides[axis] = extent + gap
            if not own and axis in outer and self.random.random() < 0.3:
                strides[axis] = self.random.choice((0, 0, 1, self.random.randint(1, extent)))
            extent = max(extent, 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s))
        return tuple(strides)

    def broadcast(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Draw a shape that broadcasts to `shape`."""
        kept = tuple(1 if self.random.random() < 0.3 else size for size in shape)
        return kept[self.random.choice((0, 0, self.random.randint(0, len(kept)))) :]
