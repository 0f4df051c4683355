"""The vector engine: its instruction set, programs, and what they compute."""

from echo_npu.vector.isa import Instruction, Op, Operand, operand
from echo_npu.vector.program import AssemblyError, Builder, Program, Value, make_program

__all__ = [
    "AssemblyError",
    "Builder",
    "Instruction",
    "Op",
    "Operand",
    "Program",
    "Value",
    "make_program",
    "operand",
]
