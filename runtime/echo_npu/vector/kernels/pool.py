"""Programs of pooling: each tap of a window is a stream."""

from functools import cache

from echo_npu.vector.program import Builder, Program

MAX_TAPS = 4
"""Streams that one command combines."""


@cache
def taps(op: str, count: int) -> Program:
    """s0 .. s(count - 1) -> "max": their maximum; "add": their sum times p0."""
    b = Builder(f"taps_{op}_{count}")
    streams = [b.stream(i) for i in range(count)]
    combine = getattr(b, op)
    total = b.vector()
    with b.chunks(advance=streams):
        value = streams[0]
        for index, tap in enumerate(streams[1:], 2):
            dst = b.out if op == "max" and index == count else total
            combine(dst, value, tap)
            value = total
        if op == "add":
            b.mul(b.out, value, b.param(0))
        elif count == 1:
            b.mov(b.out, value)
    return b.build()
