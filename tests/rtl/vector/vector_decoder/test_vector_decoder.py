"""Runs the tests of vector_decoder."""

from tb.blocks import run_module


def test_vector_decoder() -> None:
    """All opcodes with all operand codes."""
    run_module(__file__)
