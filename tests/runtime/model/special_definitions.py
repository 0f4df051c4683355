"""What exp, rcp and rsqrt are before their rounding, in exact fractions, one argument at a time."""

import math
from fractions import Fraction

from echo_npu.spec.special_functions import COEFFICIENTS, LOG2_E, SEGMENTS


def exp_value(x: Fraction) -> Fraction:
    """Return the value of exp for a finite argument."""
    whole = math.floor(abs(x) * LOG2_E / 2**7)  # of 37 fraction bits 30 stay
    power, fraction = divmod(whole if x > 0 else -whole, 1 << 30)
    return _cubic(0, fraction >> 24, Fraction(fraction & 0xFF_FFFF, 1 << 24)) * Fraction(2) ** power


def rcp_value(x: Fraction) -> Fraction:
    """Return the value of rcp for a positive argument."""
    mantissa, power = _normalized(x)
    segment, place = divmod((mantissa - 1) * SEGMENTS, 1)
    back = 1 - Fraction(1, 1 << 17) - place
    return _cubic(1, int(segment), back) / 2 / Fraction(2) ** power


def rsqrt_value(x: Fraction) -> Fraction:
    """Return the value of rsqrt for a positive argument."""
    mantissa, power = _normalized(x)
    half = SEGMENTS // 2
    segment, place = divmod((mantissa - 1) * half, 1)
    back = 1 - Fraction(1, 1 << 18) - place
    return _cubic(2, int(segment) + power % 2 * half, back) / 2 / Fraction(2) ** (power // 2)


def _normalized(x: Fraction) -> tuple[Fraction, int]:
    """Return m in [1, 2) and e with x = m * 2^e."""
    power = x.numerator.bit_length() - x.denominator.bit_length()
    power -= Fraction(2) ** power > x
    return x / Fraction(2) ** power, power


def _cubic(function: int, segment: int, x: Fraction) -> Fraction:
    """Return a segment's cubic at x by Horner's rule; each product is truncated to 32 fraction bits."""
    c0, c1, c2, c3 = (table[SEGMENTS * function + segment] for table in COEFFICIENTS)
    value = c2 + math.floor(c3 * x)
    value = c1 + math.floor(value * x)
    return 1 + Fraction(c0 + math.floor(value * x), 1 << 32)
