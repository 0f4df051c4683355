"""Runs the tests of sync_fifo."""

import pytest

from tb.blocks import run_module


@pytest.mark.parametrize("depth", [2, 16])
def test_sync_fifo(depth: int) -> None:
    """Random traffic at every level."""
    run_module(__file__, Width=16, Depth=depth)
