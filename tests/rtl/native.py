"""Comparisons in C++ with the arithmetic of the host."""

import os
from typing import Any

from cocotb.triggers import Timer


async def compared(dut: Any, count: Any, number: int) -> int:
    """Start the comparison of a testbench, and return how many results it has compared; all must be equal.

    Args:
        count: the input that says how much is drawn.
        number: what it gets.
    """
    dut.start.value = 0
    count.value = number
    dut.seed.value = int(os.environ["COCOTB_RANDOM_SEED"]) & 0x7FFFFFFF
    await Timer(1, "ns")
    dut.start.value = 1
    await Timer(1, "ns")
    assert dut.done.value == 1
    assert dut.failures.value.to_unsigned() == 0, f"{dut.failures.value.to_unsigned()} results differ"
    return int(dut.checked.value.to_unsigned())
