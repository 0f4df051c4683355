"""Runs the tests of panel_memory."""

from tb.blocks import run_module


def test_panel_memory() -> None:
    """Random reads, and writes of one entry and of two."""
    run_module(__file__, Tile=4, AddrBits=6)
