"""Runs the tests of activation_feeder with a small panel."""

from tb.blocks import run_module


def test_activation_feeder() -> None:
    """Random panels, stalls on both sides, aborts."""
    run_module(__file__, Tile=4, BlockM=32, AddrBits=8, AccAddrBits=7, ManyRows=12)
