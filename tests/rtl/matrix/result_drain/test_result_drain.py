"""Runs the tests of result_drain with small blocks."""

from tb.blocks import run_module


def test_result_drain() -> None:
    """Random blocks, stalls, aborts."""
    run_module(__file__, DataWidth=64, Tile=4, BlockM=32, BlockN=64, RingBits=6)
