"""Programs of the optimizers' steps. A program has one output, so averages and parameters are two."""

from functools import cache

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.axes import variant
from echo_npu.vector.program import Builder, Program


def _with_decay(b: Builder, g: Operand, p: Operand, decay: Operand) -> Operand:
    """Return g + decay * p in a new register."""
    whole = b.vector()
    b.mul(whole, p, decay)
    b.add(whole, g, whole)
    return whole


@cache
def moments(*, decayed: bool = False) -> Program:
    """Update the averages of Adam: two rows, of the gradients and of their squares.

    s0 = averages, s1 = g (the same in both rows) -> p0 * average + p1 * g in row 0 and
    p2 * average + p3 * g * g in row 1. If `decayed`, s2 = p and g + p4 * p takes the place of g.
    """
    b = Builder(variant("adam_moments", decayed=decayed))
    average, g, *p = (b.stream(i) for i in range(2 + decayed))
    first, keep, rate = b.scalar(), b.scalar(), b.scalar()
    b.icmpeq(first, b.row, 0)
    b.sel(keep, first, b.param(0), b.param(2))
    b.sel(rate, first, b.param(1), b.param(3))
    part, square = b.vector(), b.vector()
    with b.chunks(advance=[average, g, *p]):
        whole = _with_decay(b, g, p[0], b.param(4)) if decayed else g
        b.mul(part, whole, rate)
        b.mul(square, part, whole)
        b.sel(part, first, part, square)
        b.fma(b.out, average, keep, part)
    return b.build()


@cache
def momentum(*, decayed: bool = False) -> Program:
    """s0 = m, s1 = g -> p2 * m + p3 * g. If `decayed`, s2 = p and g + p1 * p takes the place of g."""
    b = Builder(variant("sgd_momentum", decayed=decayed))
    m, g, *p = (b.stream(i) for i in range(2 + decayed))
    part = b.vector()
    with b.chunks(advance=[m, g, *p]):
        whole = _with_decay(b, g, p[0], b.param(1)) if decayed else g
        b.mul(part, whole, b.param(3))
        b.fma(b.out, m, b.param(2), part)
    return b.build()


@cache
def sgd_update(*, decayed: bool = False, nesterov: bool = False) -> Program:
    """s0 = p, s1 = g -> p + p0 * g. If `decayed`, g + p1 * p takes the place of g.

    With `nesterov`, s2 = the momentum, and g + p2 * s2 takes the place of g, decayed or not.
    """
    b = Builder(variant("sgd_update", decayed=decayed, nesterov=nesterov))
    streams = [b.stream(i) for i in range(2 + nesterov)]
    p, g = streams[:2]
    with b.chunks(advance=streams):
        whole = _with_decay(b, g, p, b.param(1)) if decayed else g
        part = b.vector()
        if nesterov:
            b.mul(part, streams[2], b.param(2))
            b.add(part, whole, part)
            b.mul(part, part, b.param(0))
        else:
            b.mul(part, whole, b.param(0))
        b.add(b.out, p, part)
    return b.build()
