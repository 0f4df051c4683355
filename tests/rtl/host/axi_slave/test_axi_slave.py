"""Runs the tests of axi_slave for the bus widths of the named configurations."""

import pytest

from tb.blocks import run_module


@pytest.mark.parametrize("data_width", [64, 256])
def test_axi_slave(data_width: int) -> None:
    """Random traffic, refusals, stalls and throughput."""
    run_module(__file__, DataWidth=data_width, MaxOutstanding=8)
