"""Runs the tests of round_robin."""

import pytest

from tb.blocks import run_module


@pytest.mark.parametrize("requests", [2, 5])
def test_round_robin(requests: int) -> None:
    """Random requests, and fairness."""
    run_module(__file__, Requests=requests)
