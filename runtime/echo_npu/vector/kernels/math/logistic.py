"""Functions made of the logistic function: tanh, sigmoid, silu, gelu with tanh."""

import math
from typing import Final

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.math.common import NO_TERM, SIGN, polynomial, temporaries
from echo_npu.vector.program import Builder

LOG2_E: Final = 1 / math.log(2)
LN2: Final = (float.fromhex("0x1.62e42ep-1"), float.fromhex("0x1.efa39ep-25"))
"""ln 2 as a sum of two float32; both are positive, which keeps a result of -0."""

# Minimax polynomial of (expm1(2h) - 2h) / h, |h| <= ln(2)/4, highest power first: expm1(2h) to 2^-26.1
_EXPM1: Final = (
    0.08877268433570862,
    0.26772087812423706,
    0.6666789650917053,
    1.3333237171173096,
    1.9999998807907104,
    NO_TERM,
)

_SIGMOID_LIMIT: Final = 19.408121109008789
"""28 ln(2). Its exponential is 2^28 to the bit, so the function is 1 from there on."""

# 2 sqrt(2 / pi) and 0.044715 times it, each a sum of two float32. The first part of the linear one is a
# multiple of 2^-19: so its distance from the sum of both terms is exact.
_GELU_LINEAR: Final = (1.5957698822021484, -7.605964356116601e-07)
_GELU_CUBIC: Final = (0.07135481387376785, 2.3988324659995897e-09)

_SMALL: Final = -64.0
"""An exponential below e^-64 is a product of two, since it may be subnormal."""


def tanh(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = tanh(x)."""
    with temporaries(b, dst, 6) as (h, f, n, t, m, y):
        # With m = expm1(-2 |x|), tanh(|x|) = -m / (2 + m).
        b.or_(h, x, SIGN)
        b.xor(f, h, x)
        b.max(h, h, -10.0)
        b.mul(t, h, 2 * LOG2_E)
        b.f2i(n, t)
        b.i2f(t, n)
        b.fnma(h, t, LN2[0] / 2, h)
        b.fnma(h, t, LN2[1] / 2, h)
        polynomial(b, m, h, _EXPM1)
        b.mul(m, m, h)
        b.fma(m, h, 2.0, m)
        b.scale(n, 1.0, n)
        b.sub(t, 1.0, n)
        b.fms(m, n, m, t)
        b.add(t, m, 2.0)
        b.rcp(y, t)
        b.xor(f, f, m)
        b.mul(
            h, f, y
        )  # the quotient; then its residual times 1/(2 + m), in which rounding 2 + m plays no part
        b.fms(t, h, 2.0, f)
        b.fma(t, h, m, t)
        b.fnma(dst, t, y, h)


def sigmoid(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = e^x / (1 + e^x)."""
    with temporaries(b, dst, 4) as (p, y, q, u):
        b.min(p, x, _SIGMOID_LIMIT)
        b.exp(p, p)
        b.add(y, p, 1.0)
        b.rcp(y, y)
        b.mul(q, p, y)
        b.sub(u, q, p)  # the residual of the quotient, in which rounding 1 + e^x plays no part
        b.fma(u, q, p, u)
        b.fnma(dst, u, y, q)


def silu(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = x / (1 + e^-x); -0, the limit, at -infinity."""
    with temporaries(b, dst, 2) as (z, y):
        b.max(z, x, -240.0)
        b.max(y, z, _SMALL)
        b.xor(y, y, SIGN)
        b.exp(y, y)
        b.add(y, y, 1.0)
        b.rcp(y, y)
        b.mul(y, y, z)
        _times_rest(b, dst, y, z)


def gelu_tanh(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = x / 2 * (1 + tanh(w / 2)) = x / (1 + e^-w), w = 2 sqrt(2 / pi) (x + 0.044715 x^3).

    -0, the limit, at -infinity.
    """
    (linear, linear_low), (cubic, cubic_low) = _GELU_LINEAR, _GELU_CUBIC
    with temporaries(b, dst, 3) as (z, w, y):
        b.max(z, x, -12.0)
        with temporaries(b, dst, 4) as (a, s, low, t):
            # w needs twice the precision: its rounding error would be 88 times larger in the result.
            b.min(a, z, 12.0)
            b.mul(s, a, a)
            b.fms(low, a, a, s)
            b.fma(y, s, b.constant(cubic), linear)
            b.sub(t, linear, y)
            b.fma(t, s, cubic, t)  # what rounding cut off
            b.fma(t, low, cubic, t)
            b.fma(t, s, cubic_low, t)
            b.add(t, t, linear_low)
            b.mul(w, a, y)
            b.fms(low, a, y, w)
            b.fma(low, a, t, low)
            b.sub(low, 1.0, low)
            b.max(y, w, _SMALL)
            b.xor(y, y, SIGN)
            b.exp(y, y)
            b.fma(y, y, low, 1.0)
        b.rcp(y, y)
        b.mul(y, y, z)
        _times_rest(b, dst, y, w)


def _times_rest(b: Builder, dst: Operand, y: Operand, w: Operand) -> None:
    """dst = y * e^min(w - _SMALL, 0); overwrites w."""
    b.sub(w, w, _SMALL)
    b.min(w, w, 0.0)
    b.exp(w, w)
    b.mul(dst, y, w)
