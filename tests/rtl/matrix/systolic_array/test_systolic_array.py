"""Runs the tests of systolic_array with few rows."""

from tb.blocks import run_module


def test_systolic_array() -> None:
    """Random rows, weights and resets."""
    run_module(__file__, Tile=4)
