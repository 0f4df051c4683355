"""Operands of matrix commands as bytes of device memory, for the testbenches of the modules that use them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tests.rtl.matrix.commands import MatrixOperand
from tests.rtl.transfers import Transfer

MEMORY = 1 << 29
MOST_BYTES = 1 << 19
"""Limit of an operand's bytes from first to last."""


@dataclass(frozen=True)
class Layout:
    """Rows of bytes, repeated over two batch dimensions. Strides are bytes."""

    rows: int
    row_bytes: int
    row_stride: int
    batches: tuple[int, int]  # inner, outer
    batch_strides: tuple[int, int]

    @property
    def extent(self) -> int:
        """Return the bytes from the first to the last."""
        steps = [(self.rows, self.row_stride), *zip(self.batches, self.batch_strides, strict=True)]
        return sum((count - 1) * stride for count, stride in steps) + self.row_bytes

    def at(self, addr: int) -> MatrixOperand:
        """Return the operand that begins at this address."""
        return MatrixOperand(addr, self.row_stride, *self.batch_strides)

    def view(self, data: NDArray[Any]) -> NDArray[Any]:
        """Return a view of the whole extent as [outer, inner, row, byte]."""
        inner, outer = self.batch_strides
        counts = (self.batches[1], self.batches[0], self.rows, self.row_bytes)
        # A stride that no other batch uses may be anything.
        strides = [
            stride if count > 1 else 0
            for count, stride in zip(counts, (outer, inner, self.row_stride), strict=False)
        ]
        size = data.itemsize
        return as_strided(data, counts, [size * stride for stride in (*strides, 1)])


def draw_layout(rows: int, row_bytes: int, size: int, batches: tuple[int, int], *, result: bool) -> Layout:
    """Draw a legal layout: dense or with gaps; batches apart, interlaced or overlapping.

    Args:
        size: bytes of an element.
        result: no two batches may be the same one.
    """
    while True:
        gap = random.choice((0, 0, 1, random.randrange(20), random.randrange(2000)))
        row_stride = row_bytes + size * gap
        if rows == 1 and random.random() < 0.3:
            row_stride = max(row_bytes, random.getrandbits(32) & -size)
        matrix = (rows - 1) * row_stride + row_bytes if rows > 1 else row_bytes
        strides = []
        for count in batches:
            apart, overlapping = matrix + size * random.randrange(100), size * random.randrange(1, 9)
            choices = [matrix, apart, row_bytes, overlapping, *([] if result else [0, 0])]
            strides.append(random.choice(choices) if count > 1 else random.getrandbits(32))
            matrix += (count - 1) * strides[-1]
        layout = Layout(rows, row_bytes, row_stride, batches, (strides[0], strides[1]))
        if layout.extent <= MOST_BYTES:
            return layout


class Places:
    """Gives every operand of a command its own range of memory, apart from those of `others`."""

    def __init__(self, others: Iterable[Places] = ()) -> None:
        self._taken: list[tuple[int, int]] = []
        self._others = [taken for other in others for taken in other._taken]

    def draw(self, extent: int, size: int) -> int:
        """Draw the address of an operand whose elements have `size` bytes."""
        while True:
            first = random.randrange(0, MEMORY - extent, size)
            if all(first + extent <= other or end <= first for other, end in (*self._taken, *self._others)):
                self._taken.append((first, first + extent))
                return first


def _rows(transfer: Transfer, addr: int, size: int) -> Iterator[slice]:
    """Return the places of a transfer's rows in an operand of `size` bytes. AssertionError: one is
    outside."""
    assert transfer.rows > 0, f"{transfer} is empty"
    assert transfer.row_bytes > 0, f"{transfer} is empty"
    for start in transfer.row_starts():
        place = slice(start - addr, start - addr + transfer.row_bytes)
        assert place.start >= 0, f"{transfer} leaves the operand"
        assert place.stop <= size, f"{transfer} leaves the operand"
        yield place


class SourceOperand:
    """An operand that is read: noise except for the elements of the matrices, which `rows` shows.

    Attributes: rows (uint8 [outer, inner, row, byte], a view of memory).
    """

    def __init__(self, addr: int, layout: Layout) -> None:
        self.addr = addr
        generator = np.random.default_rng(random.getrandbits(32))
        self._bytes = generator.integers(0, 256, layout.extent, np.uint8)
        self._wanted = np.zeros(layout.extent, bool)
        self.rows = layout.view(self._bytes)
        layout.view(self._wanted)[...] = True

    def begins(self, transfer: Transfer) -> bool:
        """Return whether the transfer's first byte is in the operand's range."""
        return 0 <= transfer.addr - self.addr < self._bytes.size

    def read(self, transfer: Transfer) -> list[bytes]:
        """Return the rows of a transfer. AssertionError: it reads other bytes than elements of the
        matrices."""
        rows = []
        for place in _rows(transfer, self.addr, self._bytes.size):
            assert self._wanted[place].all(), f"{transfer} reads between the operand's rows"
            rows.append(self._bytes[place].tobytes())
        return rows


class Destination:
    """An operand that is written: the values of each byte, in the order of the batches."""

    def __init__(self, addr: int, layout: Layout, results: Sequence[NDArray[np.uint8]]) -> None:
        """Args: results: uint8 [row, byte] of each batch, the inner ones first."""
        self.addr = addr
        places = layout.view(np.arange(layout.extent)).reshape(-1, layout.rows, layout.row_bytes)
        self._due = np.zeros(layout.extent, np.uint8)  # number of writes of each byte
        for place in places:
            self._due[place] += 1
        self._values = np.zeros((int(self._due.max()), layout.extent), np.uint8)
        self._done = np.zeros_like(self._due)
        for place, result in zip(places, results, strict=True):
            self._values[self._done[place], place] = result
            self._done[place] += 1
        self._done[:] = 0
        self.left = int(self._due.sum())
        self.overlapping = len(self._values) > 1

    def check(self, transfer: Transfer) -> None:
        """Raise AssertionError if the transfer writes other bytes than elements, or an element again."""
        for place in _rows(transfer, self.addr, self._due.size):
            assert (self._done[place] < self._due[place]).all(), f"{transfer} writes what is not due"

    def write(self, addr: int, data: bytes) -> None:
        """Write some bytes. AssertionError: they are not the next ones expected there."""
        place = np.arange(addr - self.addr, addr - self.addr + len(data))
        turns = self._done[place]
        assert (turns < self._due[place]).all(), f"0x{addr:x} is written once too often"
        expected = self._values[turns, place].tobytes()
        assert data == expected, f"0x{addr:x}: {data.hex()} is written, not {expected.hex()}"
        self._done[place] += 1
        self.left -= len(data)
