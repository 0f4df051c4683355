"""Builds round_robin and runs its cocotb tests."""

import pytest

from tb.designs import block_design
from tb.runner import run_block


@pytest.mark.parametrize("requests", [2, 5])
def test_round_robin(requests: int) -> None:
    """Random requests, and fairness."""
    run_block(
        block_design("round_robin", ("rtl/round_robin.sv",), parameters={"Requests": requests}),
        "tests.rtl.round_robin.cocotb_round_robin",
    )
