"""Runs the tests of panel_loader with entries of two and of four beats."""

import pytest

from tb.blocks import run_module


@pytest.mark.parametrize("tile", [4, 8])
def test_panel_loader(tile: int) -> None:
    """Random panels, stalls, aborts."""
    run_module(__file__, DataWidth=64, Tile=tile, BlockX=32, AddrBits=8)
