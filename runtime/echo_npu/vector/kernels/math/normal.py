"""The normal distribution and gelu with erf."""

from typing import Final

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.math.common import MAGNITUDE, polynomial, temporaries
from echo_npu.vector.program import Builder

# The normal distribution at -a is exp(-a^2/2) * u * Q(a * u - centre), u = 1 / (1 + 0.3 a), 0 <= a <= 15.
# Minimax polynomial Q, highest power first, to 2^-27.7; around the centre its terms do not cancel.
_TAIL_CENTRE: Final = 1.3547999858856201
_TAIL: Final = (
    4.080663416061725e-07,
    1.43404150776405e-07,
    -9.65410526987398e-06,
    -6.938063052075449e-06,
    0.0002204439224442467,
    -8.826040721032768e-05,
    -0.006093200296163559,
    0.03684490919113159,
    -0.11995073407888412,
    0.2559807002544403,
)


def normal_cdf(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = (1 + erf(x / sqrt(2))) / 2, the standard normal distribution."""
    with temporaries(b, dst, 3) as (a, p, e):
        b.and_(a, x, MAGNITUDE)
        b.min(a, a, 15.0)
        _normal_tail(b, p, e, a)
        b.mul(p, p, e)
        b.sub(e, 1.0, p)
        b.cmplt(a, x, 0.0)
        b.sel(dst, a, p, e)


def gelu(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = x * (1 + erf(x / sqrt(2))) / 2; -0, the limit, at -infinity.

    With the tail of the distribution, that is max(x, 0) - abs(x) * tail(abs(x)).
    """
    with temporaries(b, dst, 3) as (a, p, e):
        b.and_(a, x, MAGNITUDE)
        b.min(a, a, 15.0)
        _normal_tail(b, p, e, a)
        b.mul(p, p, a)  # before the exponential, which may be subnormal
        b.max(a, x, -0.0)
        b.fnma(dst, p, e, a)


def _normal_tail(b: Builder, p: Operand, e: Operand, a: Operand) -> None:
    """p * e = the normal distribution at -a, 0 <= a <= 15; p is at least 1/40."""
    with temporaries(b, p, 4) as (low, u, v, t):
        b.mul(t, a, -0.5)
        b.mul(p, t, a)
        b.fms(low, t, a, p)
        b.exp(e, p)
        b.fma(t, a, b.constant(0.3), 1.0)
        b.rcp(u, t)
        b.mul(v, a, u)  # a step of the reciprocal, without the rounding of 1 + 0.3 a
        b.sub(t, 1.0, u)
        b.fnma(t, v, 0.3, t)
        b.add(low, low, t)  # with what rounding cut off the exponent
        b.fma(t, u, t, u)
        b.fma(v, a, t, -_TAIL_CENTRE)
        b.fma(u, u, low, u)
        polynomial(b, t, v, _TAIL)
        b.mul(p, t, u)
