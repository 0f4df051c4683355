"""Reciprocal and division."""

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.math.common import INFINITE, INFINITY_BITS, NAN, ZERO, temporaries
from echo_npu.vector.program import Builder


def rcp(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = 1/x."""
    with temporaries(b, dst, 4) as (m, e, y, t):
        b.getmant(m, x)
        b.getexp(e, x)
        b.isub(e, 0, e)
        rcp_normal(b, y, m, t)
        b.scale(y, y, e)
        b.class_(t, x, ZERO | INFINITE)
        b.xor(m, x, INFINITY_BITS)
        b.sel(dst, t, m, y)


def div(b: Builder, dst: Operand, x: Operand, y: Operand) -> None:
    """dst = x/y, correctly rounded if it is normal."""
    with temporaries(b, dst, 6) as (n, d, e, q, r, t):
        b.getexp(e, x)
        b.getexp(t, y)
        b.isub(e, e, t)
        b.getmant(n, x)
        b.getmant(d, y)
        rcp_normal(b, r, d, t)
        b.fnma(t, d, r, 1.0)
        b.fma(r, r, t, r)  # 1/d correctly rounded, which makes the quotient so (Markstein)
        b.class_(t, d, ZERO | INFINITE)
        b.xor(q, d, INFINITY_BITS)
        b.sel(r, t, q, r)
        b.mul(q, n, r)
        b.fnma(t, d, q, n)
        b.fma(d, t, r, q)
        b.class_(t, q, ZERO | INFINITE | NAN)
        b.sel(q, t, q, d)
        b.scale(dst, q, e)


def rcp_normal(b: Builder, y: Operand, x: Operand, t: Operand) -> None:
    """y = 1/x within 0.77 ulp, where x and 1/x are normal; x = 0 gives an infinity."""
    rcp_seed(b, y, x, t)
    b.fnma(t, x, y, 1.0)
    b.fma(t, t, t, t)
    b.fma(y, y, t, y)


def rcp_rough(b: Builder, y: Operand, x: Operand, t: Operand) -> None:
    """y = 1/x to 2^-19, where x and 1/x are normal."""
    rcp_seed(b, y, x, t)
    b.fnma(t, x, y, 1.0)
    b.fma(y, y, t, y)


def rcp_seed(b: Builder, y: Operand, x: Operand, t: Operand) -> None:
    """y = 1/x to 2^-9.6, where x and 1/x are normal."""
    # Subtracting the bits of a float negates its logarithm, nearly; relative error at most 0.0505.
    b.isub(y, 0x7EF3_1256, x)
    # Newton's error is one-sided, [0, 0.0026]; a bit more than 1 centres it.
    b.fnma(t, x, y, 1.00128)
    b.fma(y, y, t, y)
