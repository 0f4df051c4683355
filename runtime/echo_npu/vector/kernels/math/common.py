"""What the macros share: temporaries, constants, polynomials, bit patterns."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from echo_npu.vector.isa import Operand
from echo_npu.vector.program import Builder

# Bits of the class instruction.
NEGATIVE: Final = 0b0_0000_0111  # below -0
ZERO: Final = 0b0_0001_1000
INFINITE: Final = 0b0_1000_0001
NAN: Final = 0b1_0000_0000

SIGN: Final = 0x8000_0000
MAGNITUDE: Final = 0x7FFF_FFFF
INFINITY_BITS: Final = 0x7F80_0000  # as xor mask it turns 0 into infinity and back

NO_TERM: Final = 2.0**-40
"""The coefficient of a power that a polynomial lacks. It is too small to change any result except -0, which
would become +0 with a coefficient of 0."""


@contextmanager
def temporaries(b: Builder, dst: Operand, count: int) -> Iterator[list[Operand]]:
    """Provide `count` registers of the width of `dst`, and give them back at the end."""
    registers = [b.like(dst) for _ in range(count)]
    yield registers
    b.free(*registers)


def polynomial(b: Builder, dst: Operand, x: Operand, coefficients: Sequence[float]) -> None:
    """dst = the polynomial in x, by Horner's rule, coefficients from the highest power down.

    It takes as many instructions as the degree. `dst` is neither `x` nor the output.
    """
    leading, *others = coefficients
    b.fma(dst, x, b.constant(leading), others[0])
    for coefficient in others[1:]:
        b.fma(dst, x, dst, coefficient)
