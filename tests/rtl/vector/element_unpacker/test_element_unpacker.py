"""Runs the tests of element_unpacker for the named configurations' widths."""

import pytest

from tb.blocks import run_module


@pytest.mark.parametrize(("data_width", "lanes"), [(64, 4), (256, 16)])
def test_element_unpacker(data_width: int, lanes: int) -> None:
    """Random words into segments of all element sizes, and throughput."""
    run_module(__file__, DataWidth=data_width, Lanes=lanes)
