"""The instructions exp, rcp and rsqrt, to the bit: uint32 arrays in, uint32 arrays out (docs/numerics.md).

All arithmetic is on integers. A function's value is an integer in [2^32, 2^33], in units of 2^-32, and one
rounding makes it a float32. Exponents are those of float32, which begin at 1; that of the value belongs to
its bit 32.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.spec.data_types import CANONICAL_NAN
from echo_npu.spec.special_functions import COEFFICIENTS, LOG2_E, SEGMENTS

Words = NDArray[np.uint32]
Integers = NDArray[np.int64]

_C0, _C1, _C2, _C3 = (np.array(each, np.int64) for each in COEFFICIENTS)
_EXP, _RCP, _RSQRT = (SEGMENTS * place for place in range(3))
"""The first segment of each function."""

_LEADING: Final = 1 << 32
_HIDDEN: Final = 1 << 23
_INFINITY: Final = 0x7F80_0000
_MAGNITUDE: Final = 0x7FFF_FFFF
_ALL_OVERFLOW: Final = 0x4300_0000
"""128.0: the exponential of what is not below it is infinite, and that of its negative zero."""


def exp(a: Words) -> Words:
    """e^a: 2^n times the function of the fraction of a * log2(e) = n + fraction."""
    size = (a & np.uint32(_MAGNITUDE)).astype(np.int64)
    negative = (a >> np.uint32(31)).astype(np.bool_)
    mantissa, power = _parts(size)
    # a is (mantissa + 2^23) * 2^(power - 150), and the product has 37 fraction bits; 30 of them stay.
    places = np.clip(157 - power, 24, 63)
    product = ((mantissa | _HIDDEN) * LOG2_E) >> places
    product = np.where(negative, -product, product)
    value = _cubic(_EXP + (product >> 24 & 63), product & 0xFF_FFFF)
    result = _rounded(value, (product >> 30) + 127)
    result = np.where(size >= _ALL_OVERFLOW, np.where(negative, 0, _INFINITY), result)
    return np.where(size > _INFINITY, CANONICAL_NAN, result).astype(np.uint32)


def rcp(a: Words) -> Words:
    """1 / a."""
    size = (a & np.uint32(_MAGNITUDE)).astype(np.int64)
    mantissa, power = _parts(size)
    value = _cubic(_RCP + (mantissa >> 17), (~mantissa & 0x1_FFFF) << 7)
    result = _rounded(value, 253 - power)
    result = np.where(size == 0, _INFINITY, np.where(size == _INFINITY, 0, result))
    result |= (a & ~np.uint32(_MAGNITUDE)).astype(np.int64)
    return np.where(size > _INFINITY, CANONICAL_NAN, result).astype(np.uint32)


def rsqrt(a: Words) -> Words:
    """1 / sqrt(a)."""
    size = (a & np.uint32(_MAGNITUDE)).astype(np.int64)
    sign = (a & ~np.uint32(_MAGNITUDE)).astype(np.int64)
    mantissa, power = _parts(size)
    doubled = ~power & 1  # 1 where a is m * 2^odd: then the function of 2 m
    value = _cubic(_RSQRT + (doubled << 5 | mantissa >> 18), (~mantissa & 0x3_FFFF) << 6)
    result = _rounded(value, 190 - ((power + 1) >> 1))
    result = np.where(size == 0, _INFINITY | sign, np.where(size == _INFINITY, 0, result))
    nan = (size > _INFINITY) | ((sign != 0) & (size != 0))
    return np.where(nan, CANONICAL_NAN, result).astype(np.uint32)


def _parts(size: Integers) -> tuple[Integers, Integers]:
    """Return the 23 bits behind the leading one of a float32's magnitude, and the exponent of that one.

    A subnormal has an exponent below 1.
    """
    mantissa, power = size & (_HIDDEN - 1), size >> 23
    subnormal = power == 0
    if np.count_nonzero(subnormal):
        _, length = np.frexp(np.where(subnormal, mantissa, 1).astype(np.float64))
        places = np.where(subnormal & (mantissa != 0), 24 - length.astype(np.int64), 1)
        mantissa = np.where(subnormal, mantissa << places & (_HIDDEN - 1), mantissa)
        power = np.where(subnormal, 1 - places, power)
    return mantissa, power


def _cubic(segment: Integers, x: Integers) -> Integers:
    """Return the function of a segment at x, in units of 2^-24: Horner's rule, every product truncated."""
    value: Integers = _C3[segment]
    for coefficients in (_C2, _C1, _C0):
        value *= x
        value >>= 24
        value += coefficients[segment]
    value += _LEADING
    return value


def _rounded(value: Integers, power: Integers) -> Integers:
    """Return the bits of the float32 nearest to `value`, ties to even; bit 32 has the exponent `power`."""
    places: Integers | int = 9
    if power.min(initial=1) < 1:  # below the normal numbers; at 27 places more nothing is left
        places = np.clip(1 - power, 0, 27) + 9
    result: Integers = value >> places
    # Half a unit, less one where the kept part is even: what carries rounds up.
    value += (np.int64(1) << (places - 1)) - 1 + (result & 1)
    value >>= places
    # The leading bit adds 1 to the exponent, and so does a carry into it.
    value += np.clip(power - 1, 0, 254) << 23
    limited: Integers = np.minimum(value, _INFINITY)
    return limited
