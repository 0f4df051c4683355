"""The exponential function."""

from echo_npu.vector.isa import Operand
from echo_npu.vector.program import Builder


def exp(b: Builder, dst: Operand, x: Operand) -> None:
    """dst = e^x."""
    b.exp(dst, x)
