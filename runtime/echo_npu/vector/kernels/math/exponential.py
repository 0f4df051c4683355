"""The exponential function."""

import math
from typing import Final

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.math.common import polynomial, temporaries
from echo_npu.vector.program import Builder

LOG2_E: Final = 1 / math.log(2)
LN2: Final = (float.fromhex("0x1.62e42ep-1"), float.fromhex("0x1.efa39ep-25"))
"""ln 2 as a sum of two float32; both are positive, which keeps a result of -0."""

# Minimax polynomial of (exp(r) - 1) / r, |r| <= ln(2)/2, highest power first: exp(r) to 2^-28.2
_EXP: Final = (
    0.0013819490559399128,
    0.008368690498173237,
    0.041668280959129333,
    0.1666652113199234,
    0.4999999403953552,
    1.0,
)


def exp(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = e^x."""
    with temporaries(b, dst, 3) as (p, n, t):
        b.max(p, x, -105.0)  # e^-105 is 0; below it the polynomial would not be
        exp_parts(b, p, n, t)
        b.scale(dst, p, n)


def exp_parts(b: Builder, p: Operand, n: Operand, t: Operand, low: Operand | None = None) -> None:
    """e^(p + low) = p * 2^n: p becomes the fraction, 0.7 to 1.42, and n the int32 exponent.

    `low` is what rounding cut off p. The argument is not below -2^23.
    """
    _reduce_exp(b, p, n, t, low)
    polynomial(b, p, t, (*_EXP, 1.0))


def expm1_parts(b: Builder, p: Operand, n: Operand, t: Operand, low: Operand | None = None) -> None:
    """Do as `exp_parts`, with e^(p + low) = (1 + p) * 2^n."""
    _reduce_exp(b, p, n, t, low)
    polynomial(b, p, t, _EXP)
    b.mul(p, p, t)


def _reduce_exp(b: Builder, p: Operand, n: Operand, t: Operand, low: Operand | None) -> None:
    """p + low = n * ln(2) + t, abs(t) <= ln(2) / 2; overwrites p."""
    b.mul(t, p, LOG2_E)
    b.f2i(n, t)
    b.i2f(t, n)
    b.fnma(p, t, LN2[0], p)
    b.fnma(t, t, LN2[1], p)
    if low is not None:
        b.add(t, t, low)
