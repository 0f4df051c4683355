"""Square root and its reciprocal."""

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.math.common import INFINITE, NEGATIVE, ZERO, temporaries
from echo_npu.vector.program import Builder


def sqrt(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = the square root of x, correctly rounded; NaN below -0."""
    with temporaries(b, dst, 5) as (k, z, g, h, t):
        # z = x or x * 2^64 is far from the subnormals, so that the residual below is exact.
        b.cmplt(k, x, 2.0**-100)
        b.and_(t, k, 64)
        b.scale(z, x, t)
        b.rsqrt(t, z)
        b.mul(g, z, t)
        b.mul(h, t, 0.5)
        b.fnma(t, g, g, z)
        b.fma(g, t, h, g)  # no float32 is rounded wrongly: tried with all mantissas
        b.class_(t, x, NEGATIVE)
        b.or_(h, x, t)  # x = zero, infinity or NaN as it is; below -0 all ones, which is a NaN
        b.class_(t, x, NEGATIVE | ZERO | INFINITE)
        b.sel(g, t, h, g)
        b.and_(k, k, -32)
        b.scale(dst, g, k)


def rsqrt(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = 1 / sqrt(x); infinity of the same sign for zeros, NaN below -0."""
    b.rsqrt(dst, x)
