"""Runs the tests of epilogue_loader with small blocks."""

from tb.blocks import run_module


def test_epilogue_loader() -> None:
    """Random blocks, stalls, aborts."""
    run_module(__file__, DataWidth=64, Tile=4, BlockM=32, BlockN=64)
