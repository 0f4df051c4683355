"""Runs the tests of tile_buffer with the parameters of both feeders."""

import pytest

from tb.blocks import run_module


@pytest.mark.parametrize(("blocks", "early"), [(2, 0), (4, 1)], ids=["weights", "rows"])
def test_tile_buffer(blocks: int, early: int) -> None:
    """Random traffic and aborts."""
    run_module(__file__, Tile=4, TagBits=8, Blocks=blocks, Early=early)
