"""Operands of matrix commands as bytes of device memory, for the testbenches of what uses them."""

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
"""From the first byte of an operand to its last."""


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
        """Bytes from the first to the last."""
        steps = [(self.rows, self.row_stride), *zip(self.batches, self.batch_strides, strict=True)]
        return sum((count - 1) * stride for count, stride in steps) + self.row_bytes

    def at(self, addr: int) -> MatrixOperand:
        """The operand that begins at this address."""
        return MatrixOperand(addr, self.row_stride, *self.batch_strides)

    def view(self, data: NDArray[Any]) -> NDArray[Any]:
        """Bytes of the whole extent as [outer, inner, row, byte]."""
        inner, outer = self.batch_strides
        counts = (self.batches[1], self.batches[0], self.rows, self.row_bytes)
        # A stride that no other batch uses may lead anywhere.
        strides = [
            stride if count > 1 else 0
            for count, stride in zip(counts, (outer, inner, self.row_stride), strict=False)
        ]
        size = data.itemsize
        return as_strided(data, counts, [size * stride for stride in (*strides, 1)])


def draw_layout(rows: int, row_bytes: int, size: int, batches: tuple[int, int], *, result: bool) -> Layout:
    """A random legal layout: dense and with gaps; batches that are apart, interlaced, and that overlap.

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
    """Gives every operand of a command a range of memory of its own, which no operand of `others` has."""

    def __init__(self, others: Iterable[Places] = ()) -> None:
        self._taken: list[tuple[int, int]] = []
        self._others = [taken for other in others for taken in other._taken]

    def draw(self, extent: int, size: int) -> int:
        """The address of an operand whose elements have `size` bytes."""
        while True:
            first = random.randrange(0, MEMORY - extent, size)
            if all(first + extent <= other or end <= first for other, end in (*self._taken, *self._others)):
                self._taken.append((first, first + extent))
                return first


def _rows(transfer: Transfer, addr: int, size: int) -> Iterator[slice]:
    """The places of a transfer's rows in an operand of `size` bytes. AssertionError: one is not inside."""
    assert transfer.rows > 0, f"{transfer} is empty"
    assert transfer.row_bytes > 0, f"{transfer} is empty"
    for start in transfer.row_starts():
        place = slice(start - addr, start - addr + transfer.row_bytes)
        assert place.start >= 0, f"{transfer} leaves the operand"
        assert place.stop <= size, f"{transfer} leaves the operand"
        yield place


class SourceOperand:
    """An operand that is read: noise, but for the elements of the matrices, which `rows` shows.

    Attributes: rows (uint8 [outer, inner, row, byte], a view: what is written to it is in memory).
    """

    def __init__(self, addr: int, layout: Layout) -> None:
        self.addr = addr
        generator = np.random.default_rng(random.getrandbits(32))
        self._bytes = generator.integers(0, 256, layout.extent, np.uint8)
        self._wanted = np.zeros(layout.extent, bool)
        self.rows = layout.view(self._bytes)
        layout.view(self._wanted)[...] = True

    def begins(self, transfer: Transfer) -> bool:
        """Whether the transfer's first byte is in the operand's range."""
        return 0 <= transfer.addr - self.addr < self._bytes.size

    def read(self, transfer: Transfer) -> list[bytes]:
        """The rows of a transfer. AssertionError: it reads what is no element of the matrices."""
        rows = []
        for place in _rows(transfer, self.addr, self._bytes.size):
            assert self._wanted[place].all(), f"{transfer} reads between the operand's rows"
            rows.append(self._bytes[place].tobytes())
        return rows


class Destination:
    """An operand that is written: what each byte must become, in the order of the batches."""

    def __init__(self, addr: int, layout: Layout, results: Sequence[NDArray[np.uint8]]) -> None:
        """Args: results: uint8 [row, byte] of each batch, the inner ones first."""
        self.addr = addr
        places = layout.view(np.arange(layout.extent)).reshape(-1, layout.rows, layout.row_bytes)
        self._due = np.zeros(layout.extent, np.uint8)  # how many times each byte is written
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
        """AssertionError: the transfer writes what is no element, or one that has been written."""
        for place in _rows(transfer, self.addr, self._due.size):
            assert (self._done[place] < self._due[place]).all(), f"{transfer} writes what is not due"

    def write(self, addr: int, data: bytes) -> None:
        """Write some bytes. AssertionError: they are not what must be written there next."""
        place = np.arange(addr - self.addr, addr - self.addr + len(data))
        turns = self._done[place]
        assert (turns < self._due[place]).all(), f"0x{addr:x} is written once too often"
        expected = self._values[turns, place].tobytes()
        assert data == expected, f"0x{addr:x}: {data.hex()} is written, not {expected.hex()}"
        self._done[place] += 1
        self.left -= len(data)
