"""Programs of places. In windows of images, `row` is the row of a window, an element's index its column.

The place of a window's element in the image is row * p0 + column * p1 + its own number.
"""

from functools import cache

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.axes import Axis
from echo_npu.vector.kernels.pointwise import INTEGER_BODIES
from echo_npu.vector.program import Builder, Program


def _base(b: Builder) -> Operand:
    """Return a register with row * p0 + column * p1."""
    place, down = b.vector(), b.scalar()
    multiply = INTEGER_BODIES["mul"]
    multiply(b, place, b.iota, b.param(1))
    multiply(b, down, b.row, b.param(0))
    b.iadd(place, place, down)
    b.free(down)
    return place


@cache
def place_of(taps: int, *, chained: bool) -> Program:
    """s0 = maxima, s1, s2 = elements -> int32 place of the last one that is the maximum or NaN.

    Args:
        taps: how many elements; their numbers are p2, p3.
        chained: the next stream has the places found before, which stay where none is; else 0.
    """
    b = Builder(f"place_of_{taps}" + ("_chained" if chained else ""))
    streams = [b.stream(i) for i in range(1 + taps + chained)]
    with b.chunks(advance=streams):
        base = _base(b)
        mask, other, number, found = b.vector(), b.vector(), b.vector(), b.vector()
        if chained:
            b.mov(found, streams[-1])
        else:
            b.mov(found, 0)
        for tap in range(taps):
            b.cmpeq(mask, streams[1 + tap], streams[0])
            b.cmpun(other, streams[1 + tap], streams[1 + tap])
            b.or_(mask, mask, other)
            b.iadd(number, base, b.param(2 + tap))
            b.sel(found, mask, number, found)
        b.mov(b.out, found)
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
    """s0 = values, s1 = int32 places -> the value where its place is that of the element p2, else 0."""
    b = Builder("kept_at")
    streams = [b.stream(0), b.stream(1)]
    with b.chunks(advance=streams):
        base = _base(b)
        b.iadd(base, base, b.param(2))
        b.icmpeq(base, base, streams[1])
        b.sel(b.out, base, streams[0], 0.0)
    return b.build()
