"""The program that fills memory with one value."""

from functools import cache

from echo_npu.vector.program import Builder, Program


@cache
def fill() -> Program:
    """p0 in every element."""
    b = Builder("fill")
    with b.chunks():
        b.mov(b.out, b.param(0))
    return b.build()
