"""Runs the tests of row_gatherer for the bus widths of the named configurations."""

import pytest

from tb.blocks import run_module


@pytest.mark.parametrize("data_width", [64, 256])
def test_row_gatherer(data_width: int) -> None:
    """Random row numbers with stalls, bad numbers, aborts."""
    run_module(__file__, DataWidth=data_width)
