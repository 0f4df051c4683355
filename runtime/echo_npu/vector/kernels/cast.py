"""Programs that convert elements to other types, and rows to int8 and back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final, TypeAlias

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.math import div, rcp
from echo_npu.vector.kernels.math.common import MAGNITUDE
from echo_npu.vector.program import Builder, Program

Conversion: TypeAlias = Callable[[Builder, Operand, Operand], None]

GREATEST: Final = 127.0
"""The greatest magnitude of a quantised element."""


def _unsigned(mask: int) -> Conversion:
    def conversion(b: Builder, dst: Operand, x: Operand) -> None:
        b.and_(dst, x, mask)  # elements of a stream are sign-extended
        b.i2f(dst, dst)

    return conversion


FROM: Final[dict[str, Conversion]] = {
    "float32": Builder.mov,
    "float16": Builder.h2f,
    "bfloat16": lambda b, dst, x: b.shl(dst, x, 16),
    "int32": Builder.i2f,
    "int16": Builder.i2f,
    "int8": Builder.i2f,
    "uint8": _unsigned(0xFF),
    "bool": _unsigned(0xFF),
}
"""From the bits of an element, as a stream brings them, to float32; dst is a register."""


def _truth(b: Builder, dst: Operand, x: Operand) -> None:
    t = b.vector()
    b.shl(t, x, 1)  # without its sign, -0 is false
    b.sel(dst, t, b.constant(1), 0)
    b.free(t)


TO: Final[dict[str, Conversion]] = {
    "float32": Builder.mov,
    "float16": Builder.f2h,
    "bfloat16": Builder.f2b,
    "int32": Builder.f2iz,
    "int16": Builder.f2iz,
    "int8": Builder.f2iz,
    "uint8": Builder.f2iz,
    "bool": _truth,
}
"""From float32 to the bits of an element. Of an integer the low bits are stored."""

INTEGERS: Final[dict[str, int | None]] = {
    "int32": None,
    "int16": None,
    "int8": None,
    "uint8": 0xFF,
    "bool": 0xFF,
}
"""Integers, with the mask of those that a stream brings with a wrong sign."""


def load(b: Builder, source: str, x: Operand) -> Operand:
    """Return the float32 of an element that a stream brings: the stream itself, or a new register."""
    if source == "float32":
        return x
    dst = b.vector()
    FROM[source](b, dst, x)
    return dst


@contextmanager
def stored(b: Builder, target: str) -> Iterator[Operand]:
    """Yield the place for a float32 result, which is then the output in its type."""
    result = b.out if target == "float32" else b.vector()
    yield result
    if target != "float32":
        TO[target](b, b.out, result)


def load_integer(b: Builder, dst: Operand, x: Operand, source: str) -> None:
    """dst = the int32 of an integer element that a stream brings."""
    mask = INTEGERS[source]
    if mask is None:
        b.mov(dst, x)
    else:
        b.and_(dst, x, mask)


@cache
def cast(source: str, target: str) -> Program:
    """s0, of one type of FROM, to one of TO: between integers directly, else through float32."""
    b = Builder(f"cast_{source}_{target}")
    x = b.stream(0)
    with b.chunks(advance=[x]):
        if source in INTEGERS and target == "bool":
            b.sel(b.out, x, b.constant(1), 0)
        elif source in INTEGERS and target in INTEGERS:
            load_integer(b, b.out, x, source)
        elif target == "float32" and source not in ("uint8", "bool"):
            FROM[source](b, b.out, x)
        elif source == "float32":
            TO[target](b, b.out, x)
        else:
            t = b.vector()
            FROM[source](b, t, x)
            TO[target](b, b.out, t)
    return b.build()


@cache
def saturate() -> Program:
    """s0 -> int8, nearest even within -128..127, 0 for NaN: as a matrix product stores int8."""
    b = Builder("saturate")
    x, t = b.stream(0), b.vector()
    with b.chunks(advance=[x]):
        b.f2i(t, x)
        b.imax(t, t, -128)
        b.imin(b.out, t, 127)
    return b.build()


@cache
def quantize_scales() -> Program:
    """s0 -> max(abs(s0)) / 127, one element."""
    b = Builder("quantize_scales")
    x, size, greatest = b.stream(0), b.vector(), b.accumulator()
    b.aset(greatest, 0.0)
    with b.chunks(advance=[x]):
        b.and_(size, x, MAGNITUDE)
        b.max(greatest, size)
    scale = b.scalar()
    b.foldmax(scale, greatest)
    div(b, scale, scale, b.constant(GREATEST))
    b.mov(b.out, scale, one=True)
    return b.build()


@cache
def quantize() -> Program:
    """s0, s1 = the scale of the row -> int8 nearest to s0 / s1, within +-127; 0 where the quotient is NaN."""
    b = Builder("quantize")
    x = b.stream(0)
    exponent, divisor, inverse, t = b.scalar(), b.scalar(), b.scalar(), b.scalar()
    # It divides x * 2^-e by the fraction of the scale: the fraction always has a reciprocal.
    b.getexp(exponent, b.stream(1))
    b.isub(exponent, 0, exponent)
    b.getmant(divisor, b.stream(1))
    rcp(b, inverse, divisor)
    b.fnma(t, divisor, inverse, 1.0)
    b.fma(inverse, inverse, t, inverse)
    with b.chunks(advance=[x]):
        dividend, quotient, rest = b.vector(), b.vector(), b.vector()
        b.scale(dividend, x, exponent)
        b.mul(quotient, dividend, inverse)
        b.fnma(rest, divisor, quotient, dividend)
        b.fma(quotient, rest, inverse, quotient)
        b.max(quotient, quotient, -GREATEST)
        b.min(quotient, quotient, GREATEST)
        b.f2i(b.out, quotient)
    return b.build()


@cache
def dequantize() -> Program:
    """s0 = int8, s1 = the scale of the row -> s0 * s1."""
    b = Builder("dequantize")
    x, t = b.stream(0), b.vector()
    with b.chunks(advance=[x]):
        b.i2f(t, x)
        b.mul(b.out, t, b.stream(1))
    return b.build()
