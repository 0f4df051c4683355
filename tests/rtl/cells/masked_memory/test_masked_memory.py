"""Runs the tests of masked_memory."""

from tb.blocks import run_module


def test_masked_memory() -> None:
    """Random reads and writes of parts of words."""
    run_module(__file__, Words=4, Depth=16)
