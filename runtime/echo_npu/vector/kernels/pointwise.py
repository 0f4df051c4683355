"""Elementwise programs on elements of any type: floats are computed in float32, with one rounding."""

from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.cast import INTEGERS, load, load_integer, stored
from echo_npu.vector.kernels.elementwise import BODIES, elementwise
from echo_npu.vector.kernels.math import div, exp, log
from echo_npu.vector.kernels.math.common import temporaries
from echo_npu.vector.program import Builder, Program

ROUNDER: Final = 1.5 * 2**23
"""Beside this number float32 has no room for a fraction."""

Body: TypeAlias = Callable[..., None]
"""As in `kernels.elementwise`."""


@cache
def pointwise(name: str, operands: str, sources: tuple[str, ...], target: str) -> Program:
    """The program of a function of float32.

    Args:
        name: of `kernels.elementwise.BODIES` or of MORE.
        operands: a letter for each: "s" is the next input stream, "p" the next parameter, a float32.
        sources: the type of each stream, one of `cast.FROM`.  target: of the output, one of `cast.TO`.
    """
    if name in BODIES and {*sources, target} == {"float32"}:
        return elementwise(name, operands)
    b = Builder("_".join([name, operands, *sources, target]))
    body = BODIES.get(name) or MORE[name]
    params = map(b.param, range(8))
    with b.chunks(advance=[b.stream(i) for i in range(len(sources))]):
        streams = iter([load(b, source, b.stream(i)) for i, source in enumerate(sources)])
        given = [next(streams) if letter == "s" else next(params) for letter in operands]
        with stored(b, target) as result:
            body(b, result, *given)
    return b.build()


@cache
def integer(name: str, operands: str, sources: tuple[str, ...]) -> Program:
    """The program of a function of int32 words; the output stores the low bits of its elements.

    Args:
        name: of INTEGER_BODIES.  operands: as in `pointwise`, parameters are int32.
        sources: of `cast.INTEGERS`, or "bits" for elements that are only moved.
    """
    b = Builder("_".join(["integer", name, operands, *sources]))
    params = map(b.param, range(8))
    with b.chunks(advance=[b.stream(i) for i in range(len(sources))]):
        loaded = []
        for i, source in enumerate(sources):
            value = b.stream(i)
            if INTEGERS.get(source) is not None:
                value = b.vector()
                load_integer(b, value, b.stream(i), source)
            loaded.append(value)
        streams = iter(loaded)
        given = [next(streams) if letter == "s" else next(params) for letter in operands]
        INTEGER_BODIES[name](b, b.out, *given)
    return b.build()


# --- floats -------------------------------------------------------------------------------------------------


def _lerp(b: Builder, dst: Operand, x: Operand, y: Operand, weight: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        b.sub(t, y, x)
        b.fma(dst, t, weight, x)


def _lerp_from_end(b: Builder, dst: Operand, x: Operand, y: Operand, rest: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        b.sub(t, y, x)
        b.fnma(dst, t, rest, y)


def _threshold_backward(b: Builder, dst: Operand, grad: Operand, x: Operand, threshold: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        b.cmple(t, x, threshold)  # the gradient of NaN passes
        b.sel(dst, t, 0.0, grad)


def _sigmoid_backward(b: Builder, dst: Operand, grad: Operand, y: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        b.sub(t, 1.0, y)
        b.mul(t, t, y)
        b.mul(dst, t, grad)


def _tanh_backward(b: Builder, dst: Operand, grad: Operand, y: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        b.fnma(t, y, y, 1.0)
        b.mul(dst, t, grad)


def _exp_times(b: Builder, dst: Operand, x: Operand, y: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        exp(b, t, x)
        b.mul(dst, t, y)


def _floor(b: Builder, dst: Operand, x: Operand) -> None:
    with temporaries(b, dst, 3) as (t, u, m):
        b.f2iz(t, x)
        b.i2f(t, t)  # toward zero
        b.cmplt(m, x, t)
        b.and_(m, m, 1.0)
        b.sub(t, t, m)
        _keep_large(b, dst, x, t, u)


def _ceil(b: Builder, dst: Operand, x: Operand) -> None:
    with temporaries(b, dst, 3) as (t, u, m):
        b.f2iz(t, x)
        b.i2f(t, t)
        b.cmplt(m, t, x)
        b.and_(m, m, 1.0)
        b.add(t, t, m)
        _keep_large(b, dst, x, t, u)


def _trunc(b: Builder, dst: Operand, x: Operand) -> None:
    with temporaries(b, dst, 2) as (t, u):
        b.f2iz(t, x)
        b.i2f(t, t)
        _keep_large(b, dst, x, t, u)


def _round(b: Builder, dst: Operand, x: Operand) -> None:
    with temporaries(b, dst, 2) as (t, u):
        b.f2i(t, x)
        b.i2f(t, t)
        _keep_large(b, dst, x, t, u)


def _nearest_integer(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = the nearest integer, halves to even; beyond 2**22 the low 23 bits of the sum with ROUNDER."""
    with temporaries(b, dst, 1) as (t,):
        b.add(t, x, ROUNDER)
        b.and_(t, t, 0x7F_FFFF)
        b.isub(t, t, 0x40_0000)
        b.i2f(dst, t)


def _exponent(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = floor(log2(abs(x))); -512 of zero."""
    with temporaries(b, dst, 1) as (t,):
        b.getexp(t, x)
        b.i2f(dst, t)


def _power_of_two(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = 2**x of whole numbers; subnormal results are rounded."""
    with temporaries(b, dst, 1) as (t,):
        b.f2iz(t, x)
        b.scale(dst, b.constant(1.0), t)


def _keep_large(b: Builder, dst: Operand, x: Operand, whole: Operand, t: Operand) -> None:
    """dst = whole with the sign of x, or x itself from 2^23 on, where every number is whole, and if NaN."""
    b.and_(t, x, 0x8000_0000)
    b.or_(whole, whole, t)
    b.and_(t, x, 0x7FFF_FFFF)
    b.cmplt(t, t, 2.0**23)
    b.sel(dst, t, whole, x)


def _sign(b: Builder, dst: Operand, x: Operand) -> None:
    with temporaries(b, dst, 2) as (t, u):
        b.cmplt(t, 0.0, x)
        b.and_(t, t, 1.0)
        b.cmplt(u, x, 0.0)
        b.and_(u, u, 1.0)
        b.sub(dst, t, u)


def _centred(b: Builder, dst: Operand, x: Operand, mean: Operand, rate: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        b.sub(t, x, mean)
        b.mul(dst, t, rate)


def _log1p(b: Builder, dst: Operand, x: Operand) -> None:
    """log(1 + x) = log(u) * x / (u - 1) with u the rounded 1 + x: the error of u cancels."""
    with temporaries(b, dst, 4) as (u, rest, whole, m):
        b.add(u, x, 1.0)
        b.sub(rest, u, 1.0)
        log(b, whole, u)
        div(b, m, x, rest)
        b.mul(m, m, whole)
        b.cmpeq(u, u, x)  # so large that 1 is lost, or infinite
        b.sel(m, u, whole, m)
        b.cmpeq(u, rest, 0.0)
        b.sel(dst, u, x, m)


MORE: Final[dict[str, Body]] = {
    "log1p": _log1p,
    "lerp": _lerp,
    "lerp_from_end": _lerp_from_end,
    "threshold_backward": _threshold_backward,
    "sigmoid_backward": _sigmoid_backward,
    "tanh_backward": _tanh_backward,
    "exp_times": _exp_times,
    "floor": _floor,
    "ceil": _ceil,
    "trunc": _trunc,
    "round": _round,
    "nearest_integer": _nearest_integer,
    "exponent": _exponent,
    "mantissa": Builder.getmant,
    "power_of_two": _power_of_two,
    "sign": _sign,
    "centred": _centred,
}
"""Functions besides those of `kernels.elementwise`."""


# --- integers -----------------------------------------------------------------------------------------------


def _comparison(compare: Body, *, swapped: bool = False, negated: bool = False) -> Body:
    def body(b: Builder, dst: Operand, x: Operand, y: Operand) -> None:
        with temporaries(b, dst, 1) as (t,):
            compare(b, t, *((y, x) if swapped else (x, y)))
            if negated:
                b.xor(t, t, 0xFFFF_FFFF)
            b.and_(dst, t, 1)

    return body


def _not(b: Builder, dst: Operand, x: Operand) -> None:
    b.xor(dst, x, 0xFFFF_FFFF)


def _logical_not(b: Builder, dst: Operand, x: Operand) -> None:
    b.sel(dst, x, 0, b.constant(1))


def _neg(b: Builder, dst: Operand, x: Operand) -> None:
    b.isub(dst, 0, x)


def _abs(b: Builder, dst: Operand, x: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        b.isub(t, 0, x)
        b.imax(dst, t, x)


def _mul(b: Builder, dst: Operand, x: Operand, y: Operand) -> None:
    """Emit the product modulo 2^32, from products of 11 bits, which float32 holds exactly."""
    with temporaries(b, dst, 7) as (a0, a1, a2, b0, b1, b2, total):
        for parts, whole in (((a0, a1, a2), x), ((b0, b1, b2), y)):
            b.and_(parts[0], whole, 0x7FF)
            b.shr(parts[1], whole, 11)
            b.and_(parts[1], parts[1], 0x7FF)
            b.shr(parts[2], whole, 22)
            for part in parts:
                b.i2f(part, part)
        b.mul(total, a0, b2)
        b.fma(total, a1, b1, total)
        b.fma(total, a2, b0, total)  # below 2^24
        b.f2i(total, total)
        b.shl(total, total, 11)
        b.mul(a2, a0, b1)
        b.fma(a2, a1, b0, a2)
        b.f2i(a2, a2)
        b.iadd(total, total, a2)
        b.shl(total, total, 11)
        b.mul(a0, a0, b0)
        b.f2i(a0, a0)
        b.iadd(dst, total, a0)


def _wrapped(b: Builder, dst: Operand, low: Operand, high: Operand, count: Operand) -> None:
    """Emit an index of two words, counted from the end if negative; -1 if no int32 holds it."""
    with temporaries(b, dst, 2) as (t, u):
        b.sar(t, low, 31)
        b.and_(u, t, count)
        b.iadd(u, u, low)
        b.icmpeq(t, t, high)
        b.sel(dst, t, u, -1)


def _index(b: Builder, dst: Operand, low: Operand, high: Operand) -> None:
    """Emit an index of two words; -1 if no int32 holds it."""
    with temporaries(b, dst, 1) as (t,):
        b.sar(t, low, 31)
        b.icmpeq(t, t, high)
        b.sel(dst, t, low, -1)


def _zero(b: Builder, dst: Operand, x: Operand) -> None:
    b.mov(dst, 0)


def _sign_word(b: Builder, dst: Operand, x: Operand) -> None:
    b.sar(dst, x, 31)


def _linear(b: Builder, dst: Operand, x: Operand, factor: Operand, base: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        _mul(b, t, x, factor)
        b.iadd(dst, t, base)


def _carry(b: Builder, dst: Operand, low: Operand, addend: Operand) -> None:
    """Emit dst = 1 where low = a + addend passed 2^32: where low is less than the addend, unsigned."""
    with temporaries(b, dst, 1) as (t,):
        b.xor(t, low, 0x8000_0000)
        b.xor(dst, addend, 0x8000_0000)
        b.icmplt(dst, t, dst)
        b.and_(dst, dst, 1)


def _add_high(b: Builder, dst: Operand, x0: Operand, x1: Operand, y0: Operand, y1: Operand) -> None:
    with temporaries(b, dst, 3) as (low, carry, high):
        b.iadd(low, x0, y0)
        _carry(b, carry, low, y0)
        b.iadd(high, x1, y1)
        b.iadd(dst, high, carry)


def _sub_high(b: Builder, dst: Operand, x0: Operand, x1: Operand, y0: Operand, y1: Operand) -> None:
    with temporaries(b, dst, 2) as (borrow, high):
        _carry(b, borrow, x0, y0)  # x0 < y0
        b.isub(high, x1, y1)
        b.isub(dst, high, borrow)


def _eq64(b: Builder, dst: Operand, x0: Operand, x1: Operand, y0: Operand, y1: Operand) -> None:
    with temporaries(b, dst, 2) as (t, u):
        b.icmpeq(t, x0, y0)
        b.icmpeq(u, x1, y1)
        b.and_(t, t, u)
        b.and_(dst, t, 1)


def _lt64(b: Builder, dst: Operand, x0: Operand, x1: Operand, y0: Operand, y1: Operand) -> None:
    with temporaries(b, dst, 3) as (t, u, v):
        _carry(b, t, x0, y0)
        b.icmpeq(u, x1, y1)
        b.and_(t, t, u)
        b.icmplt(v, x1, y1)
        b.or_(t, t, v)
        b.and_(dst, t, 1)


def _inverse(body: Body, *, swapped: bool = False, negated: bool = True) -> Body:
    def inverse(b: Builder, dst: Operand, x0: Operand, x1: Operand, y0: Operand, y1: Operand) -> None:
        with temporaries(b, dst, 1) as (t,):
            body(b, t, *((y0, y1, x0, x1) if swapped else (x0, x1, y0, y1)))
            b.xor(dst, t, int(negated))

    return inverse


def _any_word(b: Builder, dst: Operand, low: Operand, high: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        b.or_(t, low, high)
        b.sel(dst, t, b.constant(1), 0)


def _float_of(b: Builder, dst: Operand, low: Operand, high: Operand) -> None:
    """Emit the float32 nearest to an int64, from 31 bits of its magnitude.

    The last bit stands for all that were cut off.
    """
    with temporaries(b, dst, 6) as (sign, low_part, high_part, shift, rest, t):
        b.sar(sign, high, 31)
        b.xor(low_part, low, sign)
        b.xor(high_part, high, sign)
        b.isub(low_part, low_part, sign)
        b.icmpeq(t, low_part, 0)  # the magnitude's low word is zero: the carry goes on
        b.and_(t, t, sign)
        b.isub(high_part, high_part, t)
        # How far the high word must move up so that the magnitude begins at bit 29 or 30.
        b.i2f(t, high_part)
        b.getexp(shift, t)  # -512 for 0; 31 for 2^63, whose int32 is negative
        b.imax(shift, shift, -1)
        b.isub(shift, 30, shift)
        b.imin(shift, shift, 30)
        b.imax(shift, shift, 0)
        b.isub(t, 32, shift)
        b.shr(rest, low_part, t)
        b.icmpeq(t, shift, 0)
        b.sel(rest, t, 0, rest)  # a shift by 32 is one by 0
        b.shl(t, high_part, shift)
        b.or_(rest, rest, t)
        b.shl(t, low_part, shift)
        b.sel(t, t, b.constant(1), 0)
        b.or_(rest, rest, t)
        b.i2f(rest, rest)
        b.isub(t, 32, shift)
        b.scale(rest, rest, t)
        # A magnitude below 2^31 has no high word.
        b.i2f(t, low_part)
        b.or_(shift, high_part, 0)
        b.sar(low_part, low_part, 31)
        b.or_(shift, shift, low_part)
        b.sel(rest, shift, rest, t)
        b.and_(sign, sign, 0x8000_0000)
        b.or_(dst, rest, sign)


def _long(*, high: bool) -> Body:
    """Return the body of the low or the high word of the int64 of a float32, toward zero.

    What int64 does not hold becomes -2^63.
    """

    def body(b: Builder, dst: Operand, x: Operand) -> None:
        with temporaries(b, dst, 4) as (rest, upper, lower, t):
            b.and_(rest, x, 0x7FFF_FFFF)
            # Every step is exact: the parts have at most the bits of x.
            b.mul(t, rest, 2.0**-32)
            b.f2iz(upper, t)
            b.i2f(t, upper)
            b.fnma(rest, t, 2.0**32, rest)
            b.mul(t, rest, 2.0**-16)
            b.f2iz(lower, t)
            b.i2f(t, lower)
            b.fnma(rest, t, 2.0**16, rest)
            b.f2iz(rest, rest)
            b.shl(lower, lower, 16)
            b.or_(lower, lower, rest)
            b.sar(t, x, 31)
            b.xor(lower, lower, t)
            b.isub(lower, lower, t)
            if high:
                b.xor(upper, upper, t)
                b.icmpeq(rest, lower, 0)
                b.and_(rest, rest, t)
                b.isub(upper, upper, rest)  # the carry of the negation
            b.and_(t, x, 0x7FFF_FFFF)
            b.cmplt(t, t, 2.0**63)
            b.sel(dst, t, upper if high else lower, 0x8000_0000 if high else 0)

    return body


INTEGER_BODIES: Final[dict[str, Body]] = {
    "mov": Builder.mov,
    "add": Builder.iadd,
    "sub": Builder.isub,
    "mul": _mul,
    "neg": _neg,
    "abs": _abs,
    "minimum": Builder.imin,
    "maximum": Builder.imax,
    "eq": _comparison(Builder.icmpeq),
    "ne": _comparison(Builder.icmpeq, negated=True),
    "lt": _comparison(Builder.icmplt),
    "gt": _comparison(Builder.icmplt, swapped=True),
    "le": _comparison(Builder.icmplt, swapped=True, negated=True),
    "ge": _comparison(Builder.icmplt, negated=True),
    "and": Builder.and_,
    "or": Builder.or_,
    "xor": Builder.xor,
    "not": _not,
    "logical_not": _logical_not,
    "where": Builder.sel,
    "zero": _zero,
    "sign_word": _sign_word,
    "linear": _linear,
    "wrapped": _wrapped,
    "index": _index,
    "add_high": _add_high,
    "sub_high": _sub_high,
    "eq64": _eq64,
    "ne64": _inverse(_eq64),
    "lt64": _lt64,
    "gt64": _inverse(_lt64, swapped=True, negated=False),
    "le64": _inverse(_lt64, swapped=True),
    "ge64": _inverse(_lt64),
    "any_word": _any_word,
    "float_of": _float_of,
    "long_low": _long(high=False),
    "long_high": _long(high=True),
}
"""Functions of int32 words. Those whose name ends in 64 or high take the low and high words of int64."""
