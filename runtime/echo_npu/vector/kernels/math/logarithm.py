"""The natural logarithm."""

import math
from typing import Final

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.math.common import INFINITE, NEGATIVE, ZERO, polynomial, temporaries
from echo_npu.vector.program import Builder

# Minimax polynomial of (log(1 + f) - f) / f^2, |f| <= 1/3, highest power first: log(1 + f) to 2^-27.7
_LOG1P: Final = (
    -0.12874488532543182,
    0.13986706733703613,
    -0.12188343703746796,
    0.1400534063577652,
    -0.1668018102645874,
    0.20010444521903992,
    -0.2499980479478836,
    0.3333321511745453,
    -0.5,
)


def log(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = the natural logarithm of x; -infinity for zeros, NaN below -0."""
    with temporaries(b, dst, 4) as (m, e, k, q):
        b.getmant(m, x)
        b.getexp(e, x)
        b.cmplt(k, 1.3333334, m)
        b.scale(m, m, k)  # a mask is the integer -1: m / 2, e + 1
        b.isub(e, e, k)
        b.i2f(e, e)
        b.sub(m, m, 1.0)
        polynomial(b, q, m, _LOG1P)
        b.mul(k, m, m)
        b.fma(m, k, q, m)
        b.fma(m, e, math.log(2), m)
        # e has the sign of the logarithm at 0 and infinity; the mask of negative x is a NaN.
        b.class_(k, x, NEGATIVE)
        b.fma(e, e, math.inf, k)
        b.class_(k, x, NEGATIVE | ZERO | INFINITE)
        b.sel(dst, k, e, m)
