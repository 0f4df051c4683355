"""Programs for numbers that are a few bits of bytes, and for the codes that stand for float32 in blocks."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from echo_npu.vector.kernels.math.common import MAGNITUDE
from echo_npu.vector.program import Builder, Program

ROUNDER = 1.5 * 2**23
"""Beside this number float32 has no room for a fraction."""


@cache
def bit_field() -> Program:
    """s0 = words of up to 16 bits, s1 = int8 shifts, p0 = int32 mask -> float32 (s0 >> s1) & p0."""
    b = Builder("bit_field")
    words, shifts, t = b.stream(0), b.stream(1), b.vector()
    with b.chunks(advance=[words, shifts]):
        b.shr(t, words, shifts)
        b.and_(t, t, b.param(0))
        b.i2f(b.out, t)
    return b.build()


@cache
def nearest_integer() -> Program:
    """s0 -> the nearest integer, halves to even, as float32; beyond 2**22 the low 23 bits of s0 + ROUNDER."""
    b = Builder("nearest_integer")
    x, t = b.stream(0), b.vector()
    with b.chunks(advance=[x]):
        b.add(t, x, ROUNDER)
        b.and_(t, t, 0x7F_FFFF)
        b.isub(t, t, 0x40_0000)
        b.i2f(b.out, t)
    return b.build()


@cache
def exponent() -> Program:
    """s0 -> floor(log2(abs(s0))) as float32; -512 of zero."""
    b = Builder("exponent")
    x, t = b.stream(0), b.vector()
    with b.chunks(advance=[x]):
        b.getexp(t, x)
        b.i2f(b.out, t)
    return b.build()


@cache
def mantissa() -> Program:
    """s0 -> s0 scaled by a power of two into [1, 2) or (-2, -1]; zero stays zero."""
    b = Builder("mantissa")
    x = b.stream(0)
    with b.chunks(advance=[x]):
        b.getmant(b.out, x)
    return b.build()


@cache
def power_of_two() -> Program:
    """s0 = whole numbers -> 2**s0, subnormal results rounded."""
    b = Builder("power_of_two")
    x, t, one = b.stream(0), b.vector(), b.constant(1.0)
    with b.chunks(advance=[x]):
        b.f2iz(t, x)
        b.scale(b.out, one, t)
    return b.build()


@cache
def closest_code(values: tuple[float, ...]) -> Program:
    """s0 = numbers, s1 = scales -> the index, as float32, of the first value whose product is closest."""
    b = Builder(f"closest_code_{_named(values)}")
    x, scale = b.stream(0), b.stream(1)
    number, factor, least, code, error, better = (b.vector() for _ in range(6))
    with b.chunks(advance=[x, scale]):
        b.mov(number, x)
        b.mov(factor, scale)
        for index, value in enumerate(values):
            b.mul(error, factor, value)
            b.sub(error, error, number)
            b.and_(error, error, MAGNITUDE)
            if index == 0:
                b.mov(least, error)
                b.mov(code, 0.0)
                continue
            b.cmplt(better, error, least)
            b.sel(least, better, error, least)
            b.and_(error, better, float(index))
            b.sel(code, better, error, code)
        b.mov(b.out, code)
    return b.build()


@cache
def nearest_code(values: tuple[float, ...]) -> Program:
    """s0 -> the index, as float32, of the nearest of ascending values; halfway the upper one."""
    b = Builder(f"nearest_code_{_named(values)}")
    x = b.stream(0)
    number, code, above, below = (b.vector() for _ in range(4))
    with b.chunks(advance=[x]):
        b.mov(number, x)
        b.mov(code, 0.0)
        for lower, upper in pairwise(values):
            b.sub(above, number, lower)
            b.sub(below, upper, number)
            b.cmple(below, below, above)
            b.and_(below, below, 1.0)
            b.add(code, code, below)
        b.mov(b.out, code)
    return b.build()


def _named(values: Sequence[float]) -> str:
    return "_".join(f"{value:g}" for value in values)
