"""Builds matrix_engine with a small array and small blocks and runs its cocotb tests."""

import pytest

from tb.blocks import run_module


@pytest.mark.parametrize("block_k_tiles", [4, 2])
def test_matrix_engine(block_k_tiles: int) -> None:
    """Random products, two at a time; stalls on every channel; aborts."""
    run_module(
        __file__,
        DataWidth=64,
        Tile=4,
        BlockM=16,
        BlockKTiles=block_k_tiles,
        BlockNTiles=4,
        AccEntries=32,
    )
