"""Programs of log-softmax, losses, normalisation with given figures, and running sums."""

from functools import cache
from math import inf, nan

from echo_npu.vector.kernels.axes import Axis, variant
from echo_npu.vector.kernels.math import div, exp, log, rsqrt
from echo_npu.vector.program import Builder, Program


@cache
def log_softmax(*, kept: bool = True) -> Program:
    """s0 -> (s0 - max) - log(sum(exp(s0 - max))); `kept` holds the row in a row register."""
    b = Builder("log_softmax" + ("" if kept else "_long"))
    axis = Axis(b)
    x, power = b.stream(0), b.vector()
    row = b.row_register() if kept else b.vector()
    greatest = axis.start("max", -inf)
    with axis.loop(advance=[x]):
        if kept:
            b.mov(row, x)
        greatest.take(x)
    maximum = greatest.result()
    total = axis.start("add", 0.0)
    with axis.loop(advance=[] if kept else [x]):
        b.sub(row, row if kept else x, maximum)
        exp(b, power, row)
        total.take(power)
    share = total.result()
    log(b, share, share)
    with axis.loop(advance=[] if kept else [x]):
        if not kept:
            b.sub(row, x, maximum)
        b.sub(b.out, row, share)
    return b.build()


@cache
def log_softmax_backward() -> Program:
    """s0 = dy, s1 = y -> dy - exp(y) * sum(dy)."""
    b = Builder("log_softmax_backward")
    axis = Axis(b)
    dy, y, power = b.stream(0), b.stream(1), b.vector()
    total = axis.start("add", 0.0)
    with axis.loop(advance=[dy]):
        total.take(dy)
    share = total.result()
    with axis.loop(advance=[dy, y]):
        exp(b, power, y)
        b.fnma(b.out, power, share, dy)
    return b.build()


@cache
def picked(*, weighted: bool = False, counted: bool = False) -> Program:
    """s0 = a row, s1 = int32 target -> minus the row's element there, 0 if the target is p0 (int32).

    The result for a target that the row does not have is NaN.

    Args:
        weighted: s2 holds a weight for each element, and the result is times the target's.
        counted: give the target's weight, or 1, instead; 0 if the target is p0.
    """
    words = [word for word, flag in (("weighted", weighted), ("counted", counted)) if flag]
    b = Builder("_".join(["picked", *words]))
    axis = Axis(b)
    x, target, mask = b.stream(0), b.scalar(), b.vector()
    value = b.vector()
    b.mov(target, b.stream(1))
    total, weights = axis.start("add", 0.0), axis.start("add", 0.0)
    with axis.loop(advance=[x, b.stream(2)] if weighted else [x]):
        b.icmpeq(mask, b.iota, target)
        b.sel(value, mask, x, 0.0)
        total.take(value)
        if weighted:
            b.sel(value, mask, b.stream(2), 0.0)
            weights.take(value)
    loss, weight, ignored = total.result(), weights.result(), b.scalar()
    if not weighted:
        b.mov(weight, 1.0)
    if not counted:
        b.xor(loss, loss, 0x8000_0000)
        b.mul(weight, weight, loss)
    if not counted:
        beyond = b.scalar()
        b.icmplt(beyond, target, 0)
        b.sel(weight, beyond, nan, weight)
        b.icmplt(beyond, target, b.cols)
        b.sel(weight, beyond, weight, nan)
    b.icmpeq(ignored, target, b.param(0))
    b.sel(weight, ignored, 0.0, weight)
    axis.store(weight)
    return b.build()


@cache
def picked_backward(*, weighted: bool = False, mean: bool = False) -> Program:
    """s0 = int32 target, s1 = dy -> minus dy at the target's place of the row, else 0; 0 if it is p0 (int32).

    Args:
        weighted: s3 holds a weight for each element of the row.  mean: divide by s2.
    """
    words = [word for word, flag in (("weighted", weighted), ("mean", mean)) if flag]
    b = Builder("_".join(["picked_backward", *words]))
    axis = Axis(b)
    target, share, ignored, mask, value = b.scalar(), b.scalar(), b.scalar(), b.vector(), b.vector()
    b.mov(target, b.stream(0))
    b.xor(share, b.stream(1), 0x8000_0000)
    if mean:
        div(b, share, share, b.stream(2))
    b.icmpeq(ignored, target, b.param(0))
    b.sel(target, ignored, -1, target)
    with axis.loop(advance=[b.stream(3)] if weighted else []):
        b.icmpeq(mask, b.iota, target)
        if weighted:
            b.mul(value, b.stream(3), share)
        b.sel(b.out, mask, value if weighted else share, 0.0)
    return b.build()


@cache
def one_hot() -> Program:
    """s0 = int32 target -> 1.0 at its place of the row, else 0; all 0 if it is p0 (int32)."""
    b = Builder("one_hot")
    target, ignored, mask = b.scalar(), b.scalar(), b.vector()
    b.mov(target, b.stream(0))
    b.icmpeq(ignored, target, b.param(0))
    b.sel(target, ignored, -1, target)
    with b.chunks():
        b.icmpeq(mask, b.iota, target)
        b.and_(b.out, mask, 1.0)
    return b.build()


@cache
def rate() -> Program:
    """s0 = x, s1 = its mean -> 1 / sqrt(mean((x - s1)^2) + p0); p1 is 1 / cols."""
    b = Builder("rate")
    axis = Axis(b)
    x, value = b.stream(0), b.vector()
    squares = axis.start("add", 0.0)
    with axis.loop(advance=[x]):
        b.sub(value, x, b.stream(1))
        squares.take_product(value, value)
    result = squares.result()
    b.fma(result, result, b.param(1), b.param(0))
    rsqrt(b, result, result)
    axis.store(result)
    return b.build()


@cache
def normalised_backward(*, centred: bool = True) -> Program:
    """s0 = dy, s1 = y, s2 = weight, s3 = rate -> rate * (g - mean(g) - y * mean(g * y)), g = dy * weight.

    y is the normalised x, before the weight; p0 is 1 / cols. Without `centred`, as for an RMS norm, mean(g)
    counts as 0.
    """
    b = Builder(variant("normalised_backward", centred=centred))
    axis = Axis(b)
    dy, y, weight = b.stream(0), b.stream(1), b.stream(2)
    grad, value, mean = b.vector(), b.vector(), b.scalar()
    dots = axis.start("add", 0.0)
    if centred:
        total = axis.start("add", 0.0)
    with axis.loop(advance=[dy, y, weight]):
        b.mul(grad, dy, weight)
        if centred:
            total.take(grad)
        dots.take_product(grad, y)
    share = dots.result()
    b.mul(share, share, b.param(0))
    if centred:
        b.mul(mean, total.result(), b.param(0))
    with axis.loop(advance=[dy, y, weight]):
        b.mul(grad, dy, weight)
        if centred:
            b.sub(grad, grad, mean)
        b.fnma(value, y, share, grad)
        b.mul(b.out, value, b.stream(3))
    return b.build()


@cache
def running_sum(*, high: bool = False, wide: bool = False) -> Program:
    """s0 -> the sum of the rows down to each one, along the columns, float32.

    Args:
        wide: the elements are int64, s0 their low and s1 their high words; the sum's low words are stored.
        high: with `wide`, its high words.
    """
    words = [word for word, flag in (("wide", wide), ("high", high)) if flag]
    b = Builder("_".join(["running_sum", *words]))
    axis = Axis(b, column=True)
    x = b.stream(0)
    low = b.vector()
    b.mov(low, 0)
    if not wide:
        with axis.loop(advance=[x]):
            b.add(low, low, x)
            b.mov(b.out, low)
        return b.build()
    upper, carry, left = b.vector(), b.vector(), b.vector()
    b.mov(upper, 0)
    with axis.loop(advance=[x, b.stream(1)] if high else [x]):
        b.iadd(low, low, x)
        if high:
            b.xor(carry, low, 0x8000_0000)
            b.xor(left, x, 0x8000_0000)
            b.icmplt(carry, carry, left)
            b.and_(carry, carry, 1)
            b.iadd(upper, upper, b.stream(1))
            b.iadd(upper, upper, carry)
        b.mov(b.out, upper if high else low)
    return b.build()
