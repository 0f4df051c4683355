"""A MATMUL as docs/numerics.md defines it, one number at a time, without the runtime's arithmetic.

A product or sum of two float32 is taken in float64 and rounded to float32 by `struct`: float64 has more than
twice the digits, so this rounds as if there had been one rounding.
"""

import math
import struct
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

CANONICAL = {"fp32": 0x7FC00000, "bf16": 0x7FC0, "fp16": 0x7E00}


def to_float32(value: float) -> float:
    """Round to float32: nearest even; beyond the largest an infinity."""
    try:
        (result,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(result)


def multiply(a: float, b: float) -> float:
    if (math.isinf(a) and b == 0) or (math.isinf(b) and a == 0):
        return math.nan
    return to_float32(a * b)


def add(a: float, b: float) -> float:
    return to_float32(a + b)


def widened(bits: int, dtype: str) -> float:
    """Return the number in a stored element."""
    if dtype == "fp16":
        return float(struct.unpack("<e", struct.pack("<H", bits))[0])
    if dtype == "bf16":
        bits <<= 16
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def float32_bits(value: float) -> int:
    if math.isnan(value):
        return CANONICAL["fp32"]
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def stored(value: float, dtype: str) -> int:
    """Return the bits of a float32 value as an element of a type."""
    if dtype == "int8":
        if math.isnan(value):
            return 0
        return min(max(round(min(max(value, -1000.0), 1000.0)), -128), 127)
    if math.isnan(value):
        return CANONICAL[dtype]
    if dtype == "fp32":
        return float32_bits(value)
    if dtype == "fp16":
        try:
            return int(struct.unpack("<H", struct.pack("<e", value))[0])
        except OverflowError:
            return 0x7C00 if value > 0 else 0xFC00
    return _nearest_bfloat(value)


def _nearest_bfloat(value: float) -> int:
    """Return the nearer of the two bfloat16 around a float32; the even one of a tie."""
    bits = float32_bits(value)
    below = bits >> 16
    if math.isinf(value) or not bits & 0xFFFF:
        return below
    above = below + 1
    low, high = Fraction(widened(below, "bf16")), widened(above, "bf16")
    # The number that would follow the largest one without infinities.
    upper = Fraction(high) if math.isfinite(high) else Fraction(int(math.copysign(1, value)) * 2**128)
    down, up = abs(Fraction(value) - low), abs(upper - Fraction(value))
    if down != up:
        return below if down < up else above
    return below if below % 2 == 0 else above


def result(
    a: np.ndarray,
    b: np.ndarray,
    dtype: str,
    out: str,
    *,
    alpha: float | None = None,
    row_scale: Sequence[float] | None = None,
    column_scale: Sequence[float] | None = None,
    bias: Sequence[float] | None = None,
    relu: bool = False,
) -> np.ndarray:
    """Compute the bits of a[M, K] @ b[K, N] as they are stored.

    Args:
        a, b: the bits of the operands as unsigned integers; of int8 the numbers.
        out: "fp32", "own" or "int32".

    Returns: int64 [M, N]; bits, of integers the numbers.
    """
    made = np.zeros((a.shape[0], b.shape[1]), np.int64)
    for m, row in enumerate(a.tolist()):
        for n, column in enumerate(b.T.tolist()):
            if dtype == "int8":
                total = sum(x * y for x, y in zip(row, column, strict=True))
                total = (total + 2**31) % 2**32 - 2**31
                if out == "int32":
                    made[m, n] = total
                    continue
                value = to_float32(float(total))
            else:
                value = 0.0
                for x, y in zip(row, column, strict=True):
                    value = add(value, multiply(widened(x, dtype), widened(y, dtype)))
            if alpha is not None:
                value = multiply(value, alpha)
            if row_scale is not None:
                value = multiply(value, row_scale[m])
            if column_scale is not None:
                value = multiply(value, column_scale[n])
            if bias is not None:
                value = add(value, bias[n])
            if relu and value <= 0:
                value = 0.0
            made[m, n] = stored(value, dtype if out == "own" else "fp32")
    return made
