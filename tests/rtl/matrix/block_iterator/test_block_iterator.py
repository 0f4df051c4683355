"""Runs the tests of block_iterator with small blocks."""

import pytest

from tb.blocks import run_module

SIZES = {"Tile": 4, "BlockM": 32, "BlockKTiles": 4, "BlockNTiles": 8, "AccEntries": 128}


@pytest.mark.parametrize("whole_k", [0, 1])
def test_block_iterator(whole_k: int) -> None:
    """Random products and aborts."""
    run_module(__file__, **SIZES, WholeK=whole_k)
