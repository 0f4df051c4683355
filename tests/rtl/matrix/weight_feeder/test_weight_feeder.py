"""Runs the tests of weight_feeder with a small panel."""

from tb.blocks import run_module


def test_weight_feeder() -> None:
    """Random panels, stalls on both sides, aborts."""
    run_module(__file__, Tile=4, BlockN=32, AddrBits=8, ManyRows=12)
