"""The two directions in which a program can go through the elements of one result.

A program that uses them works for every axis of an array. Along the last axis, each row has one result. Along
another axis, each element of a vector register is a separate result.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from echo_npu.vector.isa import Operand
from echo_npu.vector.program import Builder, Value


def variant(name: str, **forms: bool) -> str:
    """Return the name of a program with the forms that are true: "rms_norm_weighted_long"."""
    return "_".join([name, *(form for form, chosen in forms.items() if chosen)])


class Axis:
    """The direction in which a program goes through the elements of one result.

    Along the row: a loop over chunks, accumulators, scalar results. Down the columns: segments of at most
    VLEN elements, a loop of `repeats`, vector results.

    Attributes:
        index: int32 position of the current elements along the axis.
    """

    def __init__(self, b: Builder, *, column: bool = False) -> None:
        self.b = b
        self.column = column
        self.index = b.rep if column else b.iota

    def loop(self, advance: Sequence[Operand] = ()) -> AbstractContextManager[None]:
        """Loop over all elements once; the streams advance."""
        return (self.b.repeat if self.column else self.b.chunks)(advance=advance)

    def start(self, op: str, identity: float | int) -> Total:
        """Start an empty total; `op` is the mnemonic add, min, max, imin or imax."""
        return Total(self, op, identity)

    def store(self, x: Operand) -> None:
        """Write x, a result of `Total` or of the same width, to the output."""
        self.b.mov(self.b.out, x, one=not self.column)


class Total:
    """A running sum, minimum or maximum."""

    def __init__(self, axis: Axis, op: str, identity: Value) -> None:
        self._b, self._op, self._column = axis.b, op, axis.column
        if self._column:
            self._register = self._b.vector()
            self._b.mov(self._register, identity)
        else:
            self._register = self._b.accumulator()
            self._b.aset(self._register, identity)
        # An accumulator is the last source without being named.
        self._before = [self._register] if self._column else []

    def take(self, x: Operand) -> None:
        """Include x."""
        getattr(self._b, self._op)(self._register, *self._before, x)

    def take_product(self, x: Operand, y: Operand) -> None:
        """Include x * y, unrounded; only for sums."""
        self._b.fma(self._register, x, y, *self._before)

    def result(self) -> Operand:
        """Return the register of the result, which the caller frees. Nothing can be included afterwards."""
        if self._column:
            return self._register
        total = self._b.scalar()
        getattr(self._b, f"fold{self._op}")(total, self._register)
        self._b.free(self._register)
        return total
