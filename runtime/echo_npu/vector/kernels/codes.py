"""Programs for numbers that are a few bits of bytes, and for the codes that stand for float32 in blocks."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from echo_npu.vector.kernels.math.common import MAGNITUDE
from echo_npu.vector.program import Builder, Program


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
