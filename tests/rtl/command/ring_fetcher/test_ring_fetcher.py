"""Runs the tests of ring_fetcher for two widths of memory."""

import pytest

from tb.blocks import run_module


@pytest.mark.parametrize("data_width", [64, 256])
def test_ring_fetcher(data_width: int) -> None:
    """Random rings, holds, aborts, errors."""
    run_module(__file__, DataWidth=data_width, Depth=4)
