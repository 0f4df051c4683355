"""Programs of the place of an element."""

from functools import cache

from echo_npu.vector.kernels.pointwise import INTEGER_BODIES
from echo_npu.vector.program import Builder, Program


@cache
def counting(*, whole: bool) -> Program:
    """p0 + i * p1 for element i of the row: float32 with one rounding, or `whole` int32 modulo 2^32."""
    b = Builder("counting" + ("_whole" if whole else ""))
    with b.chunks():
        place = b.vector()
        if whole:
            INTEGER_BODIES["linear"](b, b.out, b.iota, b.param(1), b.param(0))
        else:
            b.i2f(place, b.iota)
            b.fma(b.out, place, b.param(1), b.param(0))
    return b.build()


@cache
def triangle(*, upper: bool) -> Program:
    """s0 where i <= row + p0 (int32), or i >= row + p0 if `upper`; elsewhere zero bits."""
    b = Builder("triangle_" + ("upper" if upper else "lower"))
    x, edge, mask = b.stream(0), b.scalar(), b.vector()
    b.iadd(edge, b.row, b.param(0))
    with b.chunks(advance=[x]):
        if upper:
            b.icmplt(mask, b.iota, edge)
        else:
            b.icmplt(mask, edge, b.iota)
        b.sel(b.out, mask, 0, x)
    return b.build()
