"""Functions made of the logistic function: tanh, sigmoid, silu, gelu with tanh."""

from typing import Final

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.math.common import (
    MAGNITUDE,
    NO_TERM,
    POSITIVE_INFINITE,
    SIGN,
    polynomial,
    temporaries,
)
from echo_npu.vector.kernels.math.exponential import LN2, LOG2_E, exp_parts, expm1_parts
from echo_npu.vector.kernels.math.reciprocal import rcp_rough
from echo_npu.vector.program import Builder

# Minimax polynomial of (expm1(2h) - 2h) / h, |h| <= ln(2)/4, highest power first: expm1(2h) to 2^-26.1
_EXPM1: Final = (
    0.08877268433570862,
    0.26772087812423706,
    0.6666789650917053,
    1.3333237171173096,
    1.9999998807907104,
    NO_TERM,
)
# 2 sqrt(2 / pi) and 0.044715 times it, each a sum of two float32
_GELU_LINEAR: Final = (1.5957691669464111, -4.534068054340423e-08)
_GELU_CUBIC: Final = (0.07135481387376785, 2.3988324659995897e-09)


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
        rcp_rough(b, y, t, n)
        b.xor(f, f, m)
        b.mul(
            h, f, y
        )  # the quotient; then its residual times 1/(2 + m), in which rounding 2 + m plays no part
        b.fms(t, h, 2.0, f)
        b.fma(t, h, m, t)
        b.fnma(dst, t, y, h)


def sigmoid(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = 1 / (1 + e^-x)."""
    with temporaries(b, dst, 5) as (p, n, t, k, q):
        b.or_(p, x, SIGN)
        b.max(p, p, -105.0)
        exp_parts(b, p, n, t)
        b.scale(p, p, n)
        b.cmplt(k, x, 0.0)
        b.sel(k, k, p, 1.0)
        _logistic(b, q, k, p, n, t)
        b.mov(dst, q)


def silu(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = x / (1 + e^-x); -0, the limit, at -infinity."""
    with temporaries(b, dst, 4) as (z, p, n, t):
        b.max(z, x, -120.0)
        b.or_(p, z, SIGN)
        b.max(p, p, -120.0)
        expm1_parts(b, p, n, t)
        _times_logistic(b, dst, z, p, n)


def gelu_tanh(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) = x * sigmoid(2 sqrt(2 / pi) (...)).

    -0, the limit, at -infinity.
    """
    (linear, linear_low), (cubic, cubic_low) = _GELU_LINEAR, _GELU_CUBIC
    with temporaries(b, dst, 3) as (z, p, n):
        b.max(z, x, -12.0)
        with temporaries(b, dst, 5) as (a, s, low, t, u):
            # The exponent needs twice the precision: its rounding error would be 88 times larger in the
            # result.
            b.and_(a, z, MAGNITUDE)
            b.min(a, a, 12.0)
            b.mul(s, a, a)
            b.fms(low, a, a, s)
            b.mul(t, s, -cubic)
            b.fms(u, s, -cubic, t)
            b.fma(low, low, -cubic, u)
            b.fma(low, s, -cubic_low, low)
            b.sub(low, low, linear_low)
            b.max(u, t, -linear)  # of two negative numbers the lesser is the larger
            b.min(t, t, -linear)
            b.add(s, t, u)
            b.sub(t, s, t)
            b.sub(t, u, t)
            b.add(low, low, t)
            b.mul(p, a, s)
            b.fms(t, a, s, p)
            b.fma(low, a, low, t)
            expm1_parts(b, p, n, t, low)
        _times_logistic(b, dst, z, p, n)


def _logistic(b: Builder, q: Operand, f: Operand, t: Operand, y: Operand, u: Operand) -> None:
    """q = f / (1 + t), 0 <= t <= 1, f finite; overwrites y and u."""
    b.add(u, t, 1.0)
    rcp_rough(b, y, u, q)
    b.mul(q, f, y)
    b.sub(u, q, f)  # the residual of the quotient, in which rounding 1 + t plays no part
    b.fma(u, q, t, u)
    b.fnma(q, u, y, q)


def _times_logistic(b: Builder, dst: Operand, x: Operand, p: Operand, n: Operand) -> None:
    """dst = x / (1 + t) for positive x, else x t / (1 + t), t = (1 + p) * 2^n <= 1; overwrites p, n."""
    with temporaries(b, dst, 4) as (t, q, y, u):
        b.add(t, p, 1.0)
        b.scale(t, t, n)
        b.fma(p, x, p, x)
        b.cmplt(u, x, 0.0)
        b.sel(p, u, p, x)
        b.and_(n, n, u)
        _logistic(b, q, p, t, y, u)
        b.class_(u, x, POSITIVE_INFINITE)  # it has no residual
        b.sel(q, u, x, q)
        b.scale(dst, q, n)  # last, since t alone may be subnormal
