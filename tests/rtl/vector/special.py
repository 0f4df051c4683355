"""The special functions of the vector engine's instruction set."""

from echo_npu.vector.isa import Op

SPECIAL = (Op.EXP, Op.RCP, Op.RSQRT)
"""Opcodes that take a clock more than others, in the order of the hardware's own codes."""
