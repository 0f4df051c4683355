"""Start the native comparison of fp32_pkg with the host's arithmetic and read its verdict."""

from typing import Any

import cocotb

from tests.rtl.native import compared

PAIRS = 12_000_000


@cocotb.test()
async def matches_host_arithmetic(dut: Any) -> None:
    """Sum, product and scaling of all corner pairs and of random pairs are the host's, bit for bit."""
    assert await compared(dut, dut.pairs, PAIRS) > 3 * PAIRS
