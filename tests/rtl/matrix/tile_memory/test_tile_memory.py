"""Runs the tests of tile_memory."""

from tb.blocks import run_module


def test_tile_memory() -> None:
    """Random reads and writes."""
    run_module(__file__, Width=128, Depth=32)
