"""Runs the tests of dma_read for the bus widths of the named configurations."""

import pytest

from tb.blocks import run_module


@pytest.mark.parametrize(("data_width", "buffer_beats"), [(64, 32), (256, 128)])
def test_dma_read(data_width: int, buffer_beats: int) -> None:
    """Random transfers with stalls, error responses, a full buffer, aborts."""
    run_module(__file__, rules=["dma_read_rules.sv"], DataWidth=data_width, BufferBeats=buffer_beats)
