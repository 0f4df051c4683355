"""Runs the tests of systolic_row."""

from tb.blocks import run_module


def test_systolic_row() -> None:
    """Random steps on random operands."""
    run_module(__file__, Cols=4)
