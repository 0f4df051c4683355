"""What a fused program computes: values of an element or of a row, and the operations that make them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A number for each element of a row, or one for the whole row.

    Attributes:
        op: a name of `kernels.elementwise.BODIES` or `kernels.pointwise.MORE`; "load" of an input stream,
            whose number is the only argument; or a reduction of REDUCTIONS.
        args: values and numbers.
        whole: whether it is one number for the whole row.
    """

    op: str
    args: tuple[Argument, ...]
    whole: bool = False


Argument: TypeAlias = Value | float

REDUCTIONS: Final = {"sum": ("add", 0.0), "max": ("max", float("-inf")), "min": ("min", float("inf"))}
"""The mnemonic of each reduction, and what it starts with."""


def apply(op: str, *args: Argument) -> Value:
    """Return the value of an operation, one for the whole row if all its arguments are."""
    return Value(op, args, all(each.whole for each in args if isinstance(each, Value)))


def total(op: str, x: Value) -> Value:
    """Return the reduction of a row."""
    return Value(op, (x,), True)


def values(root: Value) -> Iterator[Value]:
    """Yield all values that `root` is made of, each once, arguments first."""
    seen: set[Value] = set()

    def walk(value: Value) -> Iterator[Value]:
        if value in seen:
            return
        seen.add(value)
        for each in value.args:
            if isinstance(each, Value):
                yield from walk(each)
        yield value

    return walk(root)
