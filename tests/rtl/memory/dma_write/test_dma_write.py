"""Runs the tests of dma_write for the bus widths of the named configurations."""

import pytest

from tb.blocks import run_module


@pytest.mark.parametrize(("data_width", "buffer_beats"), [(64, 32), (256, 64)])
def test_dma_write(data_width: int, buffer_beats: int) -> None:
    """Random transfers with stalls, error responses, aborts."""
    run_module(__file__, rules=["dma_write_rules.sv"], DataWidth=data_width, BufferBeats=buffer_beats)
