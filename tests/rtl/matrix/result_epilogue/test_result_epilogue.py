"""Runs the tests of result_epilogue with few columns."""

from tb.blocks import run_module


def test_result_epilogue() -> None:
    """Random commands and entries, gaps, aborts."""
    run_module(__file__, Tile=4)
