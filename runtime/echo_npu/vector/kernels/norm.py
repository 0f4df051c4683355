"""Programs of the normalisations over a row, and of their gradients.

p0 is epsilon, p1 is 1 / cols. Kept variants hold the row in a row register and read each operand once; the
others read it again in each loop.
"""

from functools import cache

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.axes import Axis, variant
from echo_npu.vector.kernels.math import rsqrt
from echo_npu.vector.program import Builder, Program


def _rate(b: Builder, squares: Operand) -> None:
    """Emit squares = 1 / sqrt(squares / cols + eps)."""
    b.fma(squares, squares, b.param(1), b.param(0))
    rsqrt(b, squares, squares)


def _rate_and_share(b: Builder, squares: Operand, dots: Operand) -> None:
    """Do as `_rate`, and dots = rate^2 * dots / cols."""
    _rate(b, squares)
    b.mul(dots, dots, b.param(1))
    b.mul(dots, dots, squares)
    b.mul(dots, dots, squares)


@cache
def rms_norm(*, weighted: bool = True, kept: bool = True) -> Program:
    """s0 -> s0 * s1 / sqrt(mean(s0^2) + eps); s1, the weight, only if `weighted`.

    The product with the weight comes first: so only one register is kept, and an element takes three
    instructions.
    """
    b = Builder(variant("rms_norm", weighted=weighted, long=not kept))
    axis = Axis(b)
    x, weight = b.stream(0), b.stream(1)
    both = [x, weight] if weighted else [x]
    row = b.row_register() if kept else b.vector()

    squares = axis.start("add", 0.0)
    with axis.loop(advance=both if kept else [x]):
        squares.take_product(x, x)
        if kept and weighted:
            b.mul(row, x, weight)
        elif kept:
            b.mov(row, x)
    rate = squares.result()
    _rate(b, rate)
    with axis.loop(advance=[] if kept else both):
        if weighted and not kept:
            b.mul(row, x, weight)
        b.mul(b.out, row if weighted or kept else x, rate)
    return b.build()


@cache
def layer_norm(*, weighted: bool = True, biased: bool = True, kept: bool = True) -> Program:
    """s0 -> (s0 - mean) / sqrt(var + eps) * s1 + s2; var is the mean of (s0 - mean)^2.

    There is a weight if `weighted`, and a bias, in the next stream, if `biased`.
    """
    b = Builder(variant("layer_norm", weighted=weighted, biased=biased, long=not kept))
    axis = Axis(b)
    x, weight, bias = b.stream(0), b.stream(1), b.stream(2 if weighted else 1)
    row = b.row_register() if kept else b.vector()

    total = axis.start("add", 0.0)
    with axis.loop(advance=[x]):
        if kept:
            b.mov(row, x)
        total.take(x)
    mean = total.result()
    b.mul(mean, mean, b.param(1))

    squares = axis.start("add", 0.0)
    with axis.loop(advance=[] if kept else [x]):
        b.sub(row, row if kept else x, mean)
        squares.take_product(row, row)
    rate = squares.result()
    _rate(b, rate)

    last = [] if kept else [x]
    last += [weight] if weighted else []
    last += [bias] if biased else []
    with axis.loop(advance=last):
        if not kept:
            b.sub(row, x, mean)
        if not (weighted or biased):
            b.mul(b.out, row, rate)
        elif not weighted:
            b.fma(b.out, row, rate, bias)
        else:
            value = b.vector()
            b.mul(value, row, rate)
            if biased:
                b.fma(b.out, value, weight, bias)
            else:
                b.mul(b.out, value, weight)
            b.free(value)
    return b.build()


@cache
def rms_norm_backward(*, kept: bool = True) -> Program:
    """s0 = dy, s1 = x, s2 = weight -> dx = rate * (g - x * rate^2 * mean(g * x)), g = dy * weight.

    rate is 1 / sqrt(mean(x^2) + eps).
    """
    b = Builder(variant("rms_norm_backward", long=not kept))
    axis = Axis(b)
    dy, x, weight = b.stream(0), b.stream(1), b.stream(2)
    row = b.row_register() if kept else b.stream(1)
    grad = b.row_register() if kept else b.vector()

    squares, dots = axis.start("add", 0.0), axis.start("add", 0.0)
    with axis.loop(advance=[dy, x, weight]):
        if kept:
            b.mov(row, x)
        b.mul(grad, dy, weight)
        squares.take_product(x, x)
        dots.take_product(grad, x)
    rate, share = squares.result(), dots.result()
    _rate_and_share(b, rate, share)

    value = b.vector()
    with axis.loop(advance=[] if kept else [dy, x, weight]):
        if not kept:
            b.mul(grad, dy, weight)
        b.fnma(value, row, share, grad)
        b.mul(b.out, value, rate)
    return b.build()


@cache
def layer_norm_backward(*, kept: bool = True) -> Program:
    """s0 = dy, s1 = x, s2 = weight -> dx = rate * (g - mean(g) - c * rate^2 * mean(g * c)), g = dy * weight.

    c is x - mean(x), rate 1 / sqrt(mean(c^2) + eps).
    """
    b = Builder(variant("layer_norm_backward", long=not kept))
    axis = Axis(b)
    dy, x, weight = b.stream(0), b.stream(1), b.stream(2)
    row = b.row_register() if kept else b.vector()
    grad = b.row_register() if kept else b.vector()
    later = [] if kept else [dy, x, weight]

    total, grads = axis.start("add", 0.0), axis.start("add", 0.0)
    with axis.loop(advance=[dy, x, weight]):
        if kept:
            b.mov(row, x)
        b.mul(grad, dy, weight)
        total.take(x)
        grads.take(grad)
    mean, grad_mean = total.result(), grads.result()
    b.mul(mean, mean, b.param(1))
    b.mul(grad_mean, grad_mean, b.param(1))

    def centre() -> None:
        b.sub(row, row if kept else x, mean)
        if not kept:
            b.mul(grad, dy, weight)

    squares, dots = axis.start("add", 0.0), axis.start("add", 0.0)
    with axis.loop(advance=later):
        centre()
        squares.take_product(row, row)
        dots.take_product(grad, row)
    rate, share = squares.result(), dots.result()
    _rate_and_share(b, rate, share)

    value = b.vector()
    with axis.loop(advance=later):
        if not kept:
            centre()
        b.sub(value, grad, grad_mean)
        b.fnma(value, row, share, value)
        b.mul(b.out, value, rate)
    return b.build()
