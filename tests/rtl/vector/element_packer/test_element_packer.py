"""Runs the tests of element_packer for the named configurations' widths."""

import pytest

from tb.blocks import run_module


@pytest.mark.parametrize(("data_width", "lanes"), [(64, 4), (256, 16)])
def test_element_packer(data_width: int, lanes: int) -> None:
    """Random segments of all element sizes, and throughput."""
    run_module(__file__, DataWidth=data_width, Lanes=lanes)
