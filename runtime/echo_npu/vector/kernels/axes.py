"""The two directions in which a program can go through the elements of one result.

A program that uses them works for every axis of an array. Along the last axis, each row has one result. Along
another axis, each element of a vector register is a separate result.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from echo_npu.vector.isa import Operand
from echo_npu.vector.program import Builder, Value


class Total(Protocol):
    """A running sum, minimum or maximum."""

    def take(self, x: Operand) -> None:
        """Include x."""

    def take_product(self, x: Operand, y: Operand) -> None:
        """Include x * y, unrounded; only for sums."""

    def result(self) -> Operand:
        """Return the register of the result, which the caller frees. Nothing can be included afterwards."""


class Axis(Protocol):
    """The direction in which a program goes through the elements of one result."""

    b: Builder
    index: Operand
    """int32 position of the current elements along the axis."""

    def loop(self, advance: Sequence[Operand] = ()) -> AbstractContextManager[None]:
        """Loop over all elements once; the streams advance."""

    def start(self, op: str, identity: float | int) -> Total:
        """Start an empty total; `op` is the mnemonic add, min, max, imin or imax."""

    def store(self, x: Operand) -> None:
        """Write x, a result of `Total` or of the same width, to the output."""


class RowAxis:
    """Along the row: a loop over chunks, accumulators, scalar results."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.index = b.iota

    def loop(self, advance: Sequence[Operand] = ()) -> AbstractContextManager[None]:
        return self.b.chunks(advance=advance)

    def start(self, op: str, identity: float | int) -> Total:
        return _RowTotal(self.b, op, identity)

    def store(self, x: Operand) -> None:
        self.b.mov(self.b.out, x, one=True)


class ColumnAxis:
    """Down the columns: segments of at most VLEN elements, a loop of `repeats`, vector results."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.index = b.rep

    def loop(self, advance: Sequence[Operand] = ()) -> AbstractContextManager[None]:
        return self.b.repeat(advance=advance)

    def start(self, op: str, identity: float | int) -> Total:
        return _ColumnTotal(self.b, op, identity)

    def store(self, x: Operand) -> None:
        self.b.mov(self.b.out, x)


def make_axis(b: Builder, column: bool) -> Axis:
    """Return the direction of a program: down the columns, or along the row."""
    return ColumnAxis(b) if column else RowAxis(b)


class _RowTotal:
    def __init__(self, b: Builder, op: str, identity: Value) -> None:
        self._b, self._op = b, op
        self._acc = b.accumulator()
        b.aset(self._acc, identity)

    def take(self, x: Operand) -> None:
        getattr(self._b, self._op)(self._acc, x)

    def take_product(self, x: Operand, y: Operand) -> None:
        self._b.fma(self._acc, x, y)

    def result(self) -> Operand:
        total = self._b.scalar()
        getattr(self._b, f"fold{self._op}")(total, self._acc)
        self._b.free(self._acc)
        return total


class _ColumnTotal:
    def __init__(self, b: Builder, op: str, identity: Value) -> None:
        self._b, self._op = b, op
        self._total = b.vector()
        b.mov(self._total, identity)

    def take(self, x: Operand) -> None:
        getattr(self._b, self._op)(self._total, self._total, x)

    def take_product(self, x: Operand, y: Operand) -> None:
        self._b.fma(self._total, x, y, self._total)

    def result(self) -> Operand:
        return self._total
