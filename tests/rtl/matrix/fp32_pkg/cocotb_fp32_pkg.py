"""Start the native comparison of fp32_pkg with the host's arithmetic and read its verdict."""

import os
from typing import Any

import cocotb
from cocotb.triggers import Timer

PAIRS = 12_000_000


@cocotb.test()
async def matches_host_arithmetic(dut: object) -> None:
    """Sum, product and scaling of all corner pairs and of random pairs are the host's, bit for bit."""
    top: Any = dut
    top.start.value = 0
    top.pairs.value = PAIRS
    top.seed.value = int(os.environ["COCOTB_RANDOM_SEED"]) & 0x7FFFFFFF
    await Timer(1, "ns")
    top.start.value = 1
    await Timer(1, "ns")
    assert top.done.value == 1
    assert top.checked.value.to_unsigned() > 3 * PAIRS
    assert top.failures.value.to_unsigned() == 0, f"{top.failures.value.to_unsigned()} results differ"
