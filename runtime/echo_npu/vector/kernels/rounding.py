"""Results that a program computes in float32 and stores in float16."""

from collections.abc import Iterator
from contextlib import contextmanager

from echo_npu.vector.isa import Operand
from echo_npu.vector.program import Builder


@contextmanager
def result(b: Builder, *, half: bool) -> Iterator[Operand]:
    """Yield what an instruction writes its result to; with `half` it is then rounded to float16."""
    if not half:
        yield b.out
        return
    value = b.vector()
    yield value
    b.f2h(b.out, value)
    b.free(value)
