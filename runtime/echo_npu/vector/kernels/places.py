"""Programs of places: which element of a row, or of a window of an image, is the one."""

import math
from functools import cache

from echo_npu.vector.kernels.axes import Axis
from echo_npu.vector.kernels.pointwise import INTEGER_BODIES
from echo_npu.vector.program import Builder, Program


@cache
def corners() -> Program:
    """-> int32 row * p0 + element * p1: the place of each window's corner, one row of windows a row."""
    b = Builder("corners")
    multiply = INTEGER_BODIES["mul"]
    place, down = b.vector(), b.scalar()
    with b.chunks():
        multiply(b, place, b.iota, b.param(1))
        multiply(b, down, b.row, b.param(0))
        b.iadd(b.out, place, down)
    return b.build()


@cache
def first_places(down_hops: int, right_hops: int) -> Program:
    """-> int32 first(row * p0 - p1, p2) * p3 + first(element * p4 - p5, p6): the place of each window's first
    element that is in the image. first(x, step) is x, x + step, x + 2 * step, ...: the first one from 0 on.

    Args:
        down_hops, right_hops: how many steps it takes at most.
    """
    b = Builder(f"first_places_{down_hops}_{right_hops}")
    multiply = INTEGER_BODIES["mul"]
    place, right, down, above = b.vector(), b.vector(), b.scalar(), b.scalar()
    with b.chunks():
        multiply(b, down, b.row, b.param(0))
        b.isub(down, down, b.param(1))
        multiply(b, place, b.iota, b.param(4))
        b.isub(place, place, b.param(5))
        for value, step, other, hops in (
            (down, b.param(2), above, down_hops),
            (place, b.param(6), right, right_hops),
        ):
            for _ in range(hops):
                b.sar(other, value, 31)
                b.and_(other, other, step)
                b.iadd(value, value, other)
        multiply(b, down, down, b.param(3))
        b.iadd(b.out, place, down)
    return b.build()


@cache
def where_empty() -> Program:
    """s0 = maxima, s1, s2 = int32 -> s2 where the maximum is -infinity, else s1."""
    b = Builder("where_empty")
    maxima, found, first = (b.stream(i) for i in range(3))
    mask = b.vector()
    with b.chunks(advance=[maxima, found, first]):
        b.cmpeq(mask, maxima, -math.inf)
        b.sel(b.out, mask, first, found)
    return b.build()


@cache
def place_of(taps: int, *, chained: bool) -> Program:
    """s0 = maxima, s1, s2 = elements -> int32 number of the last one that is the maximum or NaN.

    Args:
        taps: how many elements; their numbers are p0, p1.
        chained: the next stream has the numbers found before, which stay where none is; else 0.
    """
    b = Builder(f"place_of_{taps}" + ("_chained" if chained else ""))
    streams = [b.stream(i) for i in range(1 + taps + chained)]
    with b.chunks(advance=streams):
        mask, other, found = b.vector(), b.vector(), b.vector()
        if chained:
            b.mov(found, streams[-1])
        else:
            b.mov(found, 0)
        for tap in range(taps):
            b.cmpeq(mask, streams[1 + tap], streams[0])
            b.cmpun(other, streams[1 + tap], streams[1 + tap])
            b.or_(mask, mask, other)
            b.sel(b.out if tap == taps - 1 else found, mask, b.param(tap), found)
    return b.build()


@cache
def last_place() -> Program:
    """s0 = int32 elements, s1 = a number -> int32 place of the last element that is the number, else -1."""
    b = Builder("last_place")
    axis = Axis(b)
    x, place = b.stream(0), b.vector()
    greatest = axis.start("imax", -1)
    with axis.loop(advance=[x]):
        b.icmpeq(place, x, b.stream(1))
        b.sel(place, place, b.iota, -1)
        greatest.take(place)
    axis.store(greatest.result())
    return b.build()


@cache
def kept_at() -> Program:
    """s0 = values, s1, s2 = int32 -> the value where s1 = s2 + p0, else 0."""
    b = Builder("kept_at")
    streams = [b.stream(i) for i in range(3)]
    with b.chunks(advance=streams):
        place = b.vector()
        b.iadd(place, streams[2], b.param(0))
        b.icmpeq(place, place, streams[1])
        b.sel(b.out, place, streams[0], 0.0)
    return b.build()
