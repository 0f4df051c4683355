"""Sine and cosine."""

import math
from typing import Final

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.math.common import NO_TERM, polynomial, temporaries
from echo_npu.vector.program import Builder

# pi as a sum of float32; all are positive, which keeps a result of -0.
_PI: Final = (
    float.fromhex("0x1.921fb4p+1"),
    float.fromhex("0x1.4442dp-23"),
    float.fromhex("0x1.846988p-47"),
)
_TO_INTEGER: Final = 1.5 * 2.0**23  # a float32 of this size has no fraction

# Minimax polynomial of (sin(r) / r - 1) / r^2 + 1/8 by powers of r^2, |r| <= pi/2, highest first: sin(r) to
# 2^-27.2
_SIN: Final = (
    2.604974724818021e-06,
    -0.00019809223886113614,
    0.008333060890436172,
    -0.04166659340262413,
)


def sin(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = sin(x), NaN where abs(x) is 2^20 or more: x / pi would need more bits there."""
    with temporaries(b, dst, 3) as (q, n, r):
        b.fma(n, x, b.constant(1 / math.pi), _TO_INTEGER)  # x / pi to an integer: the low bits of n
        b.sub(q, n, _TO_INTEGER)
        b.fnma(r, q, _PI[0], x)
        b.fnma(r, q, _PI[1], r)
        b.fnma(r, q, _PI[2], r)
        _sin_reduced(b, dst, r, n, x, q)


def cos(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = cos(x), NaN where abs(x) is 2^20 or more."""
    with temporaries(b, dst, 3) as (q, n, r):
        # The nearest zero of the cosine, (n + 1/2) pi; -r is the distance from it: cos(x) = (-1)^n sin(-r).
        b.fma(q, x, b.constant(1 / math.pi), -0.5)
        b.add(n, q, _TO_INTEGER)
        b.sub(q, n, _TO_INTEGER)
        b.add(q, q, 0.5)
        b.fms(r, q, _PI[0], x)
        b.fma(r, q, _PI[1], r)
        b.fma(r, q, _PI[2], r)
        _sin_reduced(b, dst, r, n, x, q)


def _sin_reduced(b: Builder, dst: Operand, r: Operand, n: Operand, x: Operand, t: Operand) -> None:
    """dst = (-1)^n sin(r), |r| <= pi/2, and NaN where abs(x) is 2^20 or more; overwrites r, n and t."""
    b.mul(t, x, 2.0**108)
    b.fma(r, t, 0.0, r)  # infinity * 0
    b.shl(n, n, 31)
    b.xor(r, r, n)
    b.mul(n, r, r)
    polynomial(b, t, n, _SIN)
    # -r^2 / 8 has no rounding error, and makes the rest of the series smaller.
    with temporaries(b, dst, 1) as (eighth,):
        b.fma(eighth, n, b.constant(-0.125), NO_TERM)
        b.fma(t, n, t, eighth)
    b.fma(dst, t, r, r)
