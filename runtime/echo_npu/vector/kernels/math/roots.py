"""Square root and its reciprocal."""

from typing import Final

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.math.common import (
    INFINITE,
    INFINITY_BITS,
    NEGATIVE,
    POSITIVE_INFINITE,
    ZERO,
    temporaries,
)
from echo_npu.vector.program import Builder

# Subtracting half of the bits of a float from this gives 1/sqrt to 0.0342.
_SEED: Final = 0x5F37_6400


def sqrt(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = the square root of x, correctly rounded; NaN below -0."""
    with temporaries(b, dst, 5) as (k, z, g, h, t):
        # z = x or x * 2^64 is far from the subnormals, so that the residual below is exact.
        b.cmplt(k, x, 2.0**-100)
        b.and_(t, k, 64)
        b.scale(z, x, t)
        b.shr(t, z, 1)
        b.isub(t, _SEED, t)  # 1/sqrt(z)
        b.mul(g, z, t)  # g tends to sqrt(z), h to 1 / (2 sqrt(z)) (Goldschmidt)
        b.mul(h, t, 0.5)
        for middle in (0.50044, 0.5):  # the first one centres the error, as in rcp_seed
            b.fnma(t, g, h, middle)
            b.fma(g, g, t, g)
            b.fma(h, h, t, h)
        b.fnma(t, g, h, 0.5)
        b.fma(h, h, t, h)
        for _ in range(2):  # with the second one, no float32 is rounded wrongly: tried with all mantissas
            b.fnma(t, g, g, z)
            b.fma(g, t, h, g)
        b.class_(t, x, NEGATIVE)
        b.or_(h, x, t)  # x = infinity or NaN as it is; below -0 all ones, which is a NaN
        b.class_(t, x, NEGATIVE | INFINITE)
        b.sel(g, t, h, g)
        b.and_(k, k, -32)
        b.scale(dst, g, k)


def rsqrt(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = 1 / sqrt(x); infinity of the same sign for zeros, NaN below -0."""
    with temporaries(b, dst, 4) as (z, y, g, t):
        b.cmplt(g, x, 2.0**-100)
        b.and_(t, g, 64)
        b.scale(z, x, t)
        b.shr(t, z, 1)
        b.isub(y, _SEED, t)
        # With e = 1 - z y^2: 1/sqrt(z) = y (1 + e/2 + 3/8 e^2 + ...)
        b.mul(g, z, y)
        b.fnma(t, g, y, 1.0)
        b.fma(g, t, b.constant(0.375), 0.5)
        b.mul(g, g, t)
        b.fma(y, y, g, y)
        b.mul(g, z, y)
        b.fnma(t, g, y, 1.0)
        b.mul(t, t, y)
        b.fma(y, t, 0.5, y)
        b.class_(t, x, NEGATIVE)
        b.or_(y, y, t)
        b.cmplt(g, x, 2.0**-100)
        b.and_(g, g, 32)
        b.scale(y, y, g)
        b.class_(t, x, ZERO | POSITIVE_INFINITE)
        b.xor(g, x, INFINITY_BITS)
        b.sel(dst, t, g, y)
