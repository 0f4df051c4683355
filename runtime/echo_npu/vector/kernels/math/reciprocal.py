"""Reciprocal and division."""

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.math.common import INFINITE, NAN, ZERO, temporaries
from echo_npu.vector.program import Builder


def rcp(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = 1/x."""
    b.rcp(dst, x)


def div(b: Builder, dst: Operand, x: Operand, y: Operand) -> None:
    """dst = x/y, correctly rounded if it is normal."""
    with temporaries(b, dst, 6) as (n, d, e, q, r, t):
        b.getexp(e, x)
        b.getexp(t, y)
        b.isub(e, e, t)
        b.getmant(n, x)
        b.getmant(d, y)
        b.rcp(q, d)
        b.fnma(t, d, q, 1.0)
        b.fma(r, q, t, q)  # 1/d correctly rounded, which makes the quotient so (Markstein)
        b.class_(t, d, ZERO | INFINITE)
        b.sel(r, t, q, r)
        b.mul(q, n, r)
        b.fnma(t, d, q, n)
        b.fma(d, t, r, q)
        b.class_(t, q, ZERO | INFINITE | NAN)
        b.sel(q, t, q, d)
        b.scale(dst, q, e)
