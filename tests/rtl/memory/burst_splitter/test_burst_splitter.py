"""Runs the tests of burst_splitter for the bus widths of the named configurations."""

import pytest

from tb.blocks import run_module


@pytest.mark.parametrize("data_width", [64, 256])
def test_burst_splitter(data_width: int) -> None:
    """Random transfers with stalls, and aborts."""
    run_module(__file__, DataWidth=data_width)
