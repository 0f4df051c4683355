"""Runs the tests of memory_controller with few write bursts ahead of their data."""

import pytest

from tb.blocks import run_module


@pytest.mark.parametrize(("data_width", "writes_ahead"), [(64, 4)])
def test_memory_controller(data_width: int, writes_ahead: int) -> None:
    """All clients at once, a memory that stalls, reorders and errs, aborts and resets."""
    run_module(__file__, DataWidth=data_width, WritesAhead=writes_ahead)
