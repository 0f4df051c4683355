"""Programs of the optimizers' steps. A program has one output, so averages and parameters are two.

A parameter and what belongs to it have one type, `kind`: "float32", "bfloat16" or "float16". A program
computes in float32 and rounds once.
"""

from functools import cache

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.axes import variant
from echo_npu.vector.kernels.cast import load, stored
from echo_npu.vector.kernels.math import div, sqrt
from echo_npu.vector.program import Builder, Program


def _builder(name: str, kind: str, **forms: bool) -> Builder:
    return Builder(variant(name, **forms) if kind == "float32" else f"{variant(name, **forms)}_{kind}")


def _with_decay(b: Builder, g: Operand, p: Operand, decay: Operand) -> Operand:
    """Return g + decay * p in a new register."""
    whole = b.vector()
    b.mul(whole, p, decay)
    b.add(whole, g, whole)
    return whole


@cache
def moments(*, decayed: bool = False, kind: str = "float32") -> Program:
    """Update the averages of Adam: two rows, of the gradients and of their squares.

    s0 = averages, s1 = g (the same in both rows) -> p0 * average + p1 * g in row 0 and
    p2 * average + p3 * g * g in row 1, float32. If `decayed`, s2 = p and g + p4 * p takes the place of g.
    """
    b = _builder("adam_moments", kind, decayed=decayed)
    streams = [b.stream(i) for i in range(2 + decayed)]
    first, keep, rate = b.scalar(), b.scalar(), b.scalar()
    b.icmpeq(first, b.row, 0)
    b.sel(keep, first, b.param(0), b.param(2))
    b.sel(rate, first, b.param(1), b.param(3))
    part, square = b.vector(), b.vector()
    with b.chunks(advance=streams):
        average, g, *p = (load(b, kind, each) for each in streams)
        whole = _with_decay(b, g, p[0], b.param(4)) if decayed else g
        b.mul(part, whole, rate)
        b.mul(square, part, whole)
        b.sel(part, first, part, square)
        b.fma(b.out, average, keep, part)
    return b.build()


@cache
def moving_average(*, squared: bool = False) -> Program:
    """s0 = average, s1 = g -> p0 * average + p1 * g, or g * g if `squared`; float32."""
    b = Builder(variant("moving_average", squared=squared))
    average, g = b.stream(0), b.stream(1)
    part = b.vector()
    with b.chunks(advance=[average, g]):
        b.mul(part, g, b.param(1))
        if squared:
            b.mul(part, part, g)
        b.fma(b.out, average, b.param(0), part)
    return b.build()


@cache
def adamw_update(*, kind: str = "float32") -> Program:
    """s0 = p, s1 = m, s2 = v, both float32 -> p * p0 - p3 * m / (sqrt(v) * p1 + p2)."""
    b = _builder("adamw_update", kind)
    streams = [b.stream(i) for i in range(3)]
    with b.chunks(advance=streams):
        p, m, v = load(b, kind, streams[0]), *streams[1:]
        rate, kept = b.vector(), b.vector()
        sqrt(b, rate, v)
        b.fma(rate, rate, b.param(1), b.param(2))
        div(b, rate, m, rate)
        b.mul(kept, p, b.param(0))
        with stored(b, kind) as result:
            b.fnma(result, rate, b.param(3), kept)
    return b.build()


@cache
def momentum(*, decayed: bool = False, kind: str = "float32") -> Program:
    """s0 = m, s1 = g -> p0 * m + p1 * g. If `decayed`, s2 = p and g + p2 * p takes the place of g."""
    b = _builder("sgd_momentum", kind, decayed=decayed)
    streams = [b.stream(i) for i in range(2 + decayed)]
    part = b.vector()
    with b.chunks(advance=streams):
        m, g, *p = (load(b, kind, each) for each in streams)
        whole = _with_decay(b, g, p[0], b.param(2)) if decayed else g
        b.mul(part, whole, b.param(1))
        with stored(b, kind) as result:
            b.fma(result, m, b.param(0), part)
    return b.build()


@cache
def sgd_update(*, decayed: bool = False, nesterov: bool = False, kind: str = "float32") -> Program:
    """s0 = p, s1 = g -> p + p0 * g. If `decayed`, g + p1 * p takes the place of g.

    With `nesterov`, s2 = the momentum, and g + p2 * s2 takes the place of g, decayed or not.
    """
    b = _builder("sgd_update", kind, decayed=decayed, nesterov=nesterov)
    streams = [b.stream(i) for i in range(2 + nesterov)]
    with b.chunks(advance=streams):
        p, g, *m = (load(b, kind, each) for each in streams)
        whole = _with_decay(b, g, p, b.param(1)) if decayed else g
        part = b.vector()
        if nesterov:
            b.mul(part, m[0], b.param(2))
            b.add(part, whole, part)
            b.mul(part, part, b.param(0))
        else:
            b.mul(part, whole, b.param(0))
        with stored(b, kind) as result:
            b.add(result, p, part)
    return b.build()
