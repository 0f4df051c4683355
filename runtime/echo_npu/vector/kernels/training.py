"""Programs of the loss, of gradients and of the optimiser step."""

import math
from functools import cache
from math import inf
from typing import Final

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.axes import Axis, variant
from echo_npu.vector.kernels.math import exp, log, normal_cdf, rcp
from echo_npu.vector.kernels.softmax import Exponentials, Scores
from echo_npu.vector.program import Builder, Program

_GATE_LIMIT: Final = 64.0
"""From here on the logistic function is 1: an exponential times its reciprocal, to the bit."""


@cache
def cross_entropy() -> Program:
    """s0 = logits, s1 = int32 target -> log(sum(exp(logits))) - logits[target]; inf for an illegal target."""
    b = Builder("cross_entropy")
    axis = Axis(b)
    x, target = b.stream(0), b.scalar()
    b.mov(target, b.stream(1))
    greatest = axis.start("max", -inf)
    with axis.loop(advance=[x]):
        greatest.take(x)
    maximum = greatest.result()
    total, picked = axis.start("add", 0.0), axis.start("max", -inf)
    shifted, power = b.vector(), b.vector()
    with axis.loop(advance=[x]):
        b.sub(shifted, x, maximum)
        exp(b, power, shifted)
        total.take(power)
        b.icmpeq(power, b.iota, target)
        b.sel(power, power, shifted, -inf)
        picked.take(power)
    loss, right = total.result(), picked.result()
    log(b, loss, loss)
    b.sub(loss, loss, right)
    axis.store(loss)
    return b.build()


@cache
def cross_entropy_backward(*, kept: bool = True) -> Program:
    """s0 = logits, s1 = int32 target -> (softmax(logits) - onehot(target)) * p0."""
    b = Builder(variant("cross_entropy_backward", long=not kept))
    target = b.scalar()
    b.mov(target, b.stream(1))
    powers = Exponentials(Axis(b), Scores(b), kept=kept)
    share = powers.total
    rcp(b, share, share)
    b.mul(share, share, b.param(0))
    onehot = b.vector()
    with powers.again() as power:
        b.icmpeq(onehot, b.iota, target)
        b.sel(onehot, onehot, b.param(0), 0.0)
        b.fms(b.out, power, share, onehot)
    return b.build()


@cache
def softmax_backward(*, scaled: bool = False, kept: bool = True) -> Program:
    """s0 = dy, s1 = y -> y * (dy - sum(dy * y)), times p0 if `scaled`."""
    b = Builder(variant("softmax_backward", scaled=scaled, long=not kept))
    axis = Axis(b)
    dy, y = b.stream(0), b.stream(1)
    product = b.row_register() if kept else b.vector()
    row = b.row_register() if kept else y
    total = axis.start("add", 0.0)
    with axis.loop(advance=[dy, y]):
        b.mul(product, dy, y)
        total.take(product)
        if kept:
            b.mov(row, y)
    share = total.result()
    with axis.loop(advance=[] if kept else [dy, y]):
        if not kept:
            b.mul(product, dy, y)
        if scaled:
            difference = b.vector()
            b.fnma(difference, row, share, product)
            b.mul(b.out, difference, b.param(0))
            b.free(difference)
        else:
            b.fnma(b.out, row, share, product)
    return b.build()


def _gate_gradient(b: Builder, w: Operand, slope: Operand) -> None:
    """Write the derivative of `x * sigmoid(w)`, w a function of x, times s0; slope = x * w'."""
    gate, opposite = b.vector(), b.vector()
    b.min(gate, w, _GATE_LIMIT)
    b.exp(gate, gate)
    b.add(opposite, gate, 1.0)
    b.rcp(opposite, opposite)  # 1 - sigmoid(w), which a subtraction would cancel
    b.mul(gate, gate, opposite)
    b.fma(opposite, slope, opposite, 1.0)
    b.mul(opposite, opposite, gate)
    b.mul(b.out, opposite, b.stream(0))
    b.free(gate, opposite)


def _clamped(b: Builder, limit: float) -> Operand:
    """Load s1 limited to +-limit, beyond which the derivative is constant, to avoid infinities."""
    x = b.vector()
    b.min(x, b.stream(1), limit)
    b.max(x, x, -limit)
    return x


@cache
def silu_backward() -> Program:
    """s0 = dy, s1 = x -> dy * s * (1 + x * (1 - s)), s = sigmoid(x)."""
    b = Builder("silu_backward")
    with b.chunks(advance=[b.stream(0), b.stream(1)]):
        x = _clamped(b, 128.0)
        _gate_gradient(b, x, x)
    return b.build()


@cache
def gelu_tanh_backward() -> Program:
    """s0 = dy, s1 = x -> dy times the derivative of `x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x^3))`.

    It is the form of gelu with tanh, since `(1 + tanh(u)) / 2 = sigmoid(2 * u)`.
    """
    factor = 2 * math.sqrt(2 / math.pi)
    b = Builder("gelu_tanh_backward")
    with b.chunks(advance=[b.stream(0), b.stream(1)]):
        x = _clamped(b, 16.0)
        square, w, slope = b.vector(), b.vector(), b.vector()
        b.mul(square, x, x)
        b.fma(w, square, b.constant(0.044715 * factor), factor)
        b.mul(w, w, x)
        b.fma(slope, square, b.constant(3 * 0.044715 * factor), factor)
        b.mul(slope, slope, x)
        _gate_gradient(b, w, slope)
    return b.build()


@cache
def gelu_backward() -> Program:
    """s0 = dy, s1 = x -> dy * (Phi(x) + x * phi(x)): the normal distribution and its density."""
    b = Builder("gelu_backward")
    with b.chunks(advance=[b.stream(0), b.stream(1)]):
        x, density, share = _clamped(b, 16.0), b.vector(), b.vector()
        b.mul(density, x, x)
        b.mul(density, density, -0.5)
        exp(b, density, density)
        b.mul(density, density, 1 / math.sqrt(2 * math.pi))
        normal_cdf(b, share, x)
        b.fma(share, x, density, share)
        b.mul(b.out, share, b.stream(0))
    return b.build()
