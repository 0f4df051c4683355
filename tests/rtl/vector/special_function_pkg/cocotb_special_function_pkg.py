"""Let special_function_pkg compute all operands of a file."""

import os
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import Timer


@cocotb.test()
async def computes_every_operand(dut: Any) -> None:
    """Every word of the file of operands is computed."""
    dut.start.value = 0
    await Timer(1, "ns")
    dut.start.value = 1
    await Timer(1, "ns")
    assert dut.done.value == 1
    assert 4 * int(dut.computed.value.to_unsigned()) == Path(os.environ["SPECIAL_OPERANDS"]).stat().st_size
