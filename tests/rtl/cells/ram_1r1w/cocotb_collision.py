"""ram_1r1w: what nobody may do."""

from typing import Any

import cocotb
from cocotb.triggers import ClockCycles

from tests.rtl.stimulus import start_clock


@cocotb.test()
async def an_entry_is_read_as_it_is_written(dut: Any) -> None:
    """In a reset it means nothing; outside of one the module complains."""
    dut.rst_ni.value = 0
    await start_clock(dut, "write_i", "write_addr_i", "read_addr_i")
    dut.write_i.value = dut.read_i.value = 1
    await ClockCycles(dut.clk_i, 4)
    dut.rst_ni.value = 1
    await ClockCycles(dut.clk_i, 4)
