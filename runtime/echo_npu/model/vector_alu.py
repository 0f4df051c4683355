"""The arithmetic of the vector engine, to the bit: uint32 arrays in, uint32 arrays out (docs/vector.md).

`ALU[op](a, b, c)` computes every opcode with a destination in registers, except `swap`, which is not
elementwise. The arrays broadcast against each other. `partials` and `fold` model the accumulators.

The caller silences numpy's warnings, once for many of them: `with np.errstate(all="ignore")`.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.model.special_functions import exp, rcp, rsqrt
from echo_npu.spec.data_types import CANONICAL_NAN
from echo_npu.vector.isa import CHUNK_MULTIPLE, FOLDED, Op

Words = NDArray[np.uint32]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

_NAN: Final = np.uint32(CANONICAL_NAN)
_SIGN: Final = np.uint32(0x8000_0000)
_TRUE: Final = np.uint32(0xFFFF_FFFF)
_FALSE: Final = np.uint32(0)

# A float64 whose 29 lowest bits are these lies half way between two float32.
_TAIL: Final = np.uint64(0x1FFF_FFFF)
_TIE: Final = np.uint64(0x1000_0000)
_MAGNITUDE: Final = np.uint64(0x7FFF_FFFF_FFFF_FFFF)
_TINY: Final = np.float64(2.0**-126).view(np.uint64)  # the least normal float32


def _floats(bits: Words) -> Floats:
    return bits.view(np.float32)


def _bits(values: Floats) -> Words:
    """Return the bits of a new array, after making every NaN canonical in place."""
    result = np.asarray(values).view(np.uint32)
    nan = np.isnan(values)
    if np.count_nonzero(nan):
        result[nan] = _NAN
    return result


def _mask(condition: NDArray[np.bool_]) -> Words:
    return np.where(condition, _TRUE, _FALSE)


# --- float32 ------------------------------------------------------------------------------------------------


def add(a: Words, b: Words) -> Words:
    """a + b."""
    return _bits(np.add(_floats(a), _floats(b)))


def sub(a: Words, b: Words) -> Words:
    """a - b."""
    return _bits(np.subtract(_floats(a), _floats(b)))


def mul(a: Words, b: Words) -> Words:
    """a * b."""
    return _bits(np.multiply(_floats(a), _floats(b)))


def fma(a: Words, b: Words, c: Words) -> Words:
    """a * b + c with one rounding.

    A product of two float32 is exact in float64. Its sum with c is rounded to float64, and rounding that to
    float32 gives the rounded exact sum, unless the float64 lies on the border of two float32 results without
    being exact. The exact sum is used only there and among subnormals, whose borders are elsewhere.
    """
    return _bits(_fused(np.multiply(_floats(a), _floats(b), dtype=np.float64), _floats(c)))


def _fused(product: Doubles, addend: Floats) -> Floats:
    """Add float32 values to exact products, rounded once."""
    total: Doubles = np.asarray(np.add(product, addend, dtype=np.float64))
    border = _on_border(total)
    if np.count_nonzero(border):
        x, y = np.broadcast_arrays(product, addend.astype(np.float64))
        total[border] = _rounded_to_odd(x[border], y[border])
    return np.asarray(total.astype(np.float32))


def _on_border(total: Doubles) -> NDArray[np.bool_]:
    """Return where rounding a float64 sum to float32 may differ from rounding the exact sum."""
    bits = total.view(np.uint64)
    border: NDArray[np.bool_] = (bits & _TAIL) == _TIE
    size = bits & _MAGNITUDE
    size -= np.uint64(1)  # a zero is exact: it becomes the greatest number
    border |= size < _TINY
    return border


def _fused_chain(start: Floats, products: Doubles) -> Floats:
    """Add products [rows, n, 16] to `start` [rows, 16], one after another, each sum rounded once."""
    sums = np.empty((products.shape[1], *start.shape), dtype=np.float64)
    total = start
    for i, each in enumerate(sums):
        np.add(products[:, i], total, out=each)
        total = each.astype(np.float32)
    if np.count_nonzero(_on_border(sums)):
        total = start
        for i in range(len(sums)):
            total = _fused(products[:, i], total)
    return total


def _rounded_to_odd(x: Doubles, y: Doubles) -> Doubles:
    """Return x + y, finite, rounded to odd: truncated, with a last bit of 1 if the sum is not exact.

    The rounding to float32 that follows is then correct, since no border has a last bit of 1.
    """
    total = x + y
    part = total - x
    error = (x - (total - part)) + (y - part)  # exact: Knuth's two-sum
    even = (total.view(np.uint64) & np.uint64(1)) == 0
    towards = np.where(error > 0, np.inf, -np.inf)
    return np.where(even & (error != 0), np.nextafter(total, towards), total)


def fnma(a: Words, b: Words, c: Words) -> Words:
    """c - a * b with one rounding."""
    return fma(a ^ _SIGN, b, c)


def fms(a: Words, b: Words, c: Words) -> Words:
    """a * b - c with one rounding."""
    return fma(a, b, c ^ _SIGN)


def scale(a: Words, b: Words) -> Words:
    """a * 2^b, b int32, with one rounding."""
    # Beyond these every result is zero or infinite; within them float64 is exact.
    exponent = np.clip(b.view(np.int32), -300, 300)
    return _bits(np.asarray(np.ldexp(_floats(a).astype(np.float64), exponent).astype(np.float32)))


def _is_nan(bits: Words) -> NDArray[np.bool_]:
    return (bits & ~_SIGN) > np.uint32(0x7F80_0000)


def minimum(a: Words, b: Words) -> Words:
    """The lesser; NaN if either is; -0 < +0."""
    x, y = _floats(a), _floats(b)
    # Equal values have the same bits, except zeros: a | b is the negative one.
    return np.where(x == y, a | b, _bits(np.minimum(x, y)))


def maximum(a: Words, b: Words) -> Words:
    """The greater; NaN if either is; -0 < +0."""
    x, y = _floats(a), _floats(b)
    return np.where(x == y, a & b, _bits(np.maximum(x, y)))


def select(a: Words, b: Words, c: Words) -> Words:
    """b where a is not all zero bits, else c."""
    return np.where(a != 0, b, c)


def classify(a: Words, b: Words) -> Words:
    """Mask of the class of a being one of the bits of b.

    0 -inf, 1 -normal, 2 -subnormal, 3 -0, 4 +0, 5 +subnormal, 6 +normal, 7 +inf, 8 NaN.
    """
    size = a & ~_SIGN
    # 0 zero, 1 subnormal, 2 normal, 3 infinite
    rank = (size > 0).astype(np.uint32)
    rank += size > np.uint32(0x007F_FFFF)
    rank += size > np.uint32(0x7F7F_FFFF)
    number = np.where(a & _SIGN, np.uint32(3) - rank, np.uint32(4) + rank)
    number = np.where(_is_nan(a), np.uint32(8), number)
    return _mask((b >> number & np.uint32(1)) != 0)


def mantissa(a: Words) -> Words:
    """a scaled into [1, 2) or (-2, -1]; zeros and infinities themselves; NaN canonical."""
    values = _floats(a)
    fraction, _ = np.frexp(values)
    keep = ~np.isfinite(values) | (values == 0)
    return _bits(np.where(keep, values, fraction * np.float32(2)))


def exponent(a: Words) -> Words:
    """int32 floor(log2 abs a); zero: -512; infinity, NaN: 512."""
    values = _floats(a)
    _, power = np.frexp(values)
    result = np.where(values == 0, np.int32(-512), power.astype(np.int32) - np.int32(1))
    return np.where(np.isfinite(values), result, np.int32(512)).view(np.uint32)


# --- conversions --------------------------------------------------------------------------------------------


def _to_int(a: Words, rounding: Callable[[Doubles], Doubles]) -> Words:
    """int32, saturating; NaN is 0."""
    values = rounding(_floats(a).astype(np.float64))
    limited = np.clip(np.where(np.isnan(values), 0.0, values), -(2.0**31), 2.0**31 - 1)
    return limited.astype(np.int32).view(np.uint32)


def float_to_int(a: Words) -> Words:
    """int32, nearest even, saturating; NaN: 0."""
    return _to_int(a, np.rint)


def int_to_float(a: Words) -> Words:
    """float32 of int32, nearest even."""
    return np.asarray(a.view(np.int32).astype(np.float32)).view(np.uint32)


def float_to_half(a: Words) -> Words:
    """Bits of float16, nearest even; NaN: 0x7E00."""
    bits = np.asarray(_floats(a).astype(np.float16)).view(np.uint16).astype(np.uint32)
    return np.where(_is_nan(a), np.uint32(0x7E00), bits)


def half_to_float(a: Words) -> Words:
    """float32 of the float16 in bits 15:0."""
    half = np.asarray((a & np.uint32(0xFFFF)).astype(np.uint16)).view(np.float16)
    return _bits(np.asarray(half.astype(np.float32)))


def float_to_bfloat(a: Words) -> Words:
    """Bits of bfloat16, nearest even; NaN: 0x7FC0."""
    odd = (a >> np.uint32(16)) & np.uint32(1)
    rounded = (a + np.uint32(0x7FFF) + odd) >> np.uint32(16)
    return np.where(_is_nan(a), np.uint32(0x7FC0), rounded)


# --- integers and bits --------------------------------------------------------------------------------------

_SHIFT: Final = np.uint32(31)


ALU: Final[dict[Op, Callable[..., Words]]] = {
    Op.ADD: add,
    Op.SUB: sub,
    Op.MUL: mul,
    Op.FMA: fma,
    Op.FNMA: fnma,
    Op.FMS: fms,
    Op.SCALE: scale,
    Op.MIN: minimum,
    Op.MAX: maximum,
    Op.CMPEQ: lambda a, b: _mask(_floats(a) == _floats(b)),
    Op.CMPLT: lambda a, b: _mask(_floats(a) < _floats(b)),
    Op.CMPLE: lambda a, b: _mask(_floats(a) <= _floats(b)),
    Op.CMPUN: lambda a, b: _mask(_is_nan(a) | _is_nan(b)),
    Op.SEL: select,
    Op.CLASS: classify,
    Op.GETMANT: mantissa,
    Op.GETEXP: exponent,
    Op.F2I: float_to_int,
    Op.F2IZ: lambda a: _to_int(a, np.trunc),
    Op.I2F: int_to_float,
    Op.F2H: float_to_half,
    Op.H2F: half_to_float,
    Op.F2B: float_to_bfloat,
    Op.MOV: np.copy,
    Op.EXP: exp,
    Op.RCP: rcp,
    Op.RSQRT: rsqrt,
    Op.IADD: lambda a, b: a + b,
    Op.ISUB: lambda a, b: a - b,
    Op.AND: lambda a, b: a & b,
    Op.OR: lambda a, b: a | b,
    Op.XOR: lambda a, b: a ^ b,
    Op.SHL: lambda a, b: a << (b & _SHIFT),
    Op.SHR: lambda a, b: a >> (b & _SHIFT),
    Op.SAR: lambda a, b: (a.view(np.int32) >> (b & _SHIFT).view(np.int32)).view(np.uint32),
    Op.IMIN: lambda a, b: np.minimum(a.view(np.int32), b.view(np.int32)).view(np.uint32),
    Op.IMAX: lambda a, b: np.maximum(a.view(np.int32), b.view(np.int32)).view(np.uint32),
    Op.ICMPEQ: lambda a, b: _mask(a == b),
    Op.ICMPLT: lambda a, b: _mask(a.view(np.int32) < b.view(np.int32)),
}
"""The function of each elementwise opcode, with as many arguments as the opcode has sources."""


def swap(a: Words, count: int) -> Words:
    """Return a[..., i xor 1] for each i below `count`; zero where i or i xor 1 is not below it."""
    result = np.zeros_like(a)
    pairs = count & ~1
    result[..., 0:pairs:2] = a[..., 1:pairs:2]
    result[..., 1:pairs:2] = a[..., 0:pairs:2]
    return result


def partials(op: Op, accumulator: Words, *sources: Words) -> None:
    """Accumulate in place: element i of the last axis of the sources into partial result i mod 16, ascending.

    Args:
        op: one of isa.ACCUMULATING.
        accumulator: [rows, 16].
        sources: [rows, n], as many as the opcode takes when it accumulates.
    """
    rows, count = sources[0].shape
    whole = count - count % CHUNK_MULTIPLE
    if whole:
        groups = [source[:, :whole].reshape(rows, -1, CHUNK_MULTIPLE) for source in sources]
        accumulator[...] = _accumulated(op, accumulator, *groups)
    if whole < count:
        # add and the other symmetric ones take (partial result, element), fma and fnma (a, b, partial result)
        rest = [source[:, whole:] for source in sources]
        target = accumulator[:, : count - whole]
        target[...] = ALU[op](*rest, target) if len(rest) == 2 else ALU[op](target, *rest)


def _accumulated(op: Op, start: Words, *groups: Words) -> Words:
    """Accumulate the groups [rows, n, 16] onto `start` [rows, 16], in order."""
    first = groups[0]
    if op in _REDUCTIONS:
        reduction, dtype = _REDUCTIONS[op]
        return ALU[op](start, reduction.reduce(first.view(dtype), axis=1, dtype=dtype).view(np.uint32))
    if op in (Op.FMA, Op.FNMA):
        x = first if op == Op.FMA else first ^ _SIGN
        products = np.multiply(_floats(x), _floats(groups[1]), dtype=np.float64)
        return _bits(_fused_chain(_floats(start), products))
    if op == Op.ADD:
        # `accumulate` is defined as r[i] = r[i-1] + x[i]; `reduce` may add in another order.
        terms = np.concatenate([start[:, None], first], axis=1)
        return _bits(np.add.accumulate(_floats(terms), axis=1)[:, -1].copy())
    # min and max give the same result in any order
    return ALU[op](start, _halved(op, first, axis=1))


_REDUCTIONS: Final[dict[Op, tuple[np.ufunc, Any]]] = {
    Op.IADD: (np.add, np.uint32),
    Op.AND: (np.bitwise_and, np.uint32),
    Op.OR: (np.bitwise_or, np.uint32),
    Op.IMIN: (np.minimum, np.int32),
    Op.IMAX: (np.maximum, np.int32),
}


def fold(op: Op, accumulator: Words) -> Words:
    """((acc[0] op acc[1]) op acc[2]) ... op acc[15] over the last axis, for a FOLD opcode."""
    folded = FOLDED[op]
    if folded == Op.ADD:
        return _bits(np.add.accumulate(_floats(accumulator), axis=-1)[..., -1].copy())
    # the others give the same result in any order
    return _halved(folded, accumulator, axis=-1)


def _halved(op: Op, values: Words, axis: int) -> Words:
    """Reduce an axis with an operation that may take elements in any order."""
    values = np.moveaxis(values, axis, 0)
    while len(values) > 1:
        half = len(values) // 2
        values = np.concatenate([ALU[op](values[:half], values[half : 2 * half]), values[2 * half :]])
    last: Words = values[0]
    return last
