"""Powers with one exponent for all elements."""

import math
from typing import Final

import numpy as np

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.math.common import (
    INFINITE,
    INFINITY_BITS,
    MAGNITUDE,
    SIGN,
    ZERO,
    polynomial,
    temporaries,
)
from echo_npu.vector.program import Builder

_TWO_LOG2_E: Final = (float.fromhex("0x1.715476p+1"), float.fromhex("0x1.4ae0cp-25"))
"""2 / ln(2) as a sum of two float32."""

# Minimax polynomial of (atanh(q) / q - 1) / q^2 by powers of q^2, |q| <= 0.1716, highest first: to 2^-35.2
_ATANH: Final = (0.12143053114414215, 0.14249244332313538, 0.20000487565994263, 0.3333333134651184)

# Minimax polynomial of 2^r, |r| <= 1/2, highest power first: 2^-28.3
_EXP2: Final = (
    0.00015327802975662053,
    0.0013390997191891074,
    0.009618503041565418,
    0.05550359562039375,
    0.24022647738456726,
    0.6931471824645996,
    1.0,
)

_NEGATIVE_FINITE: Final = 0b0_0000_0110  # bits of the class instruction
_LARGEST_EXPONENT: Final = 2.0**31  # beyond it every power is 0, 1 or infinite, and no larger one is odd


def power_parameters(exponent: float) -> tuple[float, int, int, int]:
    """Return the four operands after x of `power`, for an exponent other than 0 and NaN.

    They are the exponent, rounded to float32; the bits that the result takes from x; the classes of x that
    have no power; the xor mask that turns 0 into its power.
    """
    with np.errstate(over="ignore"):
        rounded = float(np.float32(exponent))
    limited = min(max(rounded, -_LARGEST_EXPONENT), _LARGEST_EXPONENT)
    whole = limited == math.floor(limited)
    odd = whole and limited % 2 == 1
    return (
        limited,
        SIGN if odd else 0,
        0 if whole else _NEGATIVE_FINITE,
        INFINITY_BITS if limited < 0 else 0,
    )


def power(
    b: Builder,
    dst: Operand,
    x: Operand,
    exponent: Operand,
    sign: Operand,
    excluded: Operand,
    flip: Operand,
) -> None:
    """dst = x to the power of the exponent, as C's pow; the operands are those of `power_parameters`."""
    with temporaries(b, dst, 2) as (p, n):
        _log2(b, p, n, x)  # p + n: the exponent of e^(y log x) needs more bits than a float32 has
        with temporaries(b, dst, 2) as (z, low):
            b.mul(z, p, exponent)
            b.fms(low, p, exponent, z)
            b.fma(low, n, exponent, low)
            b.max(z, z, -400.0)
            b.f2i(n, z)
            b.i2f(p, n)
            b.sub(z, z, p)
            b.add(z, z, low)
            polynomial(b, p, z, _EXP2)
        with temporaries(b, dst, 2) as (signed, t):
            b.and_(signed, x, sign)
            b.or_(p, p, signed)
            b.class_(t, x, excluded)
            b.or_(p, p, t)  # a mask is a NaN
            b.scale(p, p, n)
            b.and_(t, x, MAGNITUDE)
            b.or_(t, t, signed)
            b.xor(t, t, flip)
            b.class_(signed, x, ZERO | INFINITE)
            b.sel(dst, signed, t, p)


def _log2(b: Builder, high: Operand, low: Operand, x: Operand) -> None:
    """high + low = log2(abs(x)), to about 2^-30 of it."""
    with temporaries(b, high, 6) as (m, e, q, d, y, t):
        b.getmant(m, x)
        b.and_(m, m, MAGNITUDE)
        b.getexp(e, x)
        b.cmplt(t, math.sqrt(2), m)
        b.scale(m, m, t)  # a mask is the integer -1: m / 2, e + 1
        b.isub(e, e, t)
        b.i2f(e, e)
        # log(m) = 2 atanh(q), q = (m - 1) / (m + 1) as a sum q + low
        b.sub(m, m, 1.0)
        b.add(d, m, 2.0)
        b.rcp(y, d)
        b.mul(q, m, y)
        b.sub(t, d, 2.0)
        b.sub(t, m, t)
        b.fnma(low, d, q, m)
        b.fnma(low, t, q, low)
        b.mul(low, low, y)
        b.mul(d, q, q)
        polynomial(b, t, d, _ATANH)
        b.mul(t, t, d)
        b.fma(t, q, t, low)
        b.add(high, q, t)
        b.sub(q, high, q)
        b.sub(t, t, q)
        # high + t times 2 / ln(2)
        b.mul(q, high, _TWO_LOG2_E[0])
        b.fms(low, high, _TWO_LOG2_E[0], q)
        b.fma(low, t, _TWO_LOG2_E[0], low)
        b.fma(low, high, _TWO_LOG2_E[1], low)
        b.add(high, e, q)
        b.sub(t, high, e)
        b.sub(t, q, t)
        b.add(low, low, t)
