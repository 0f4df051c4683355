"""memory_controller: a reset reaches channels that power up idle, and so without a clock of their own."""

from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tests.rtl.memory.memory_controller.cocotb_memory_controller import INPUTS
from tests.rtl.stimulus import start_clock

CONFIGURATIONS = [{"DataWidth": 64, "WritesAhead": 4}]


@cocotb.test()
async def idle_channels_are_reset(dut: Any) -> None:
    """An idle channel may power up with a claim to its buffer, which only the reset drops."""
    dut.rst_ni.value = 0
    await start_clock(dut, *INPUTS)
    await ClockCycles(dut.clk_i, 3)
    dut.rst_ni.value = 1
    await RisingEdge(dut.clk_i)
    claims = [channel.u_channel.reserved_q for channel in dut.dut.g_read]
    claims += [channel.u_channel.uncommitted_q for channel in dut.dut.g_write]
    assert dut.idle_o.value
    dut.rst_ni.value = 0  # the channels are idle, as half of the power-ups leave them
    for claim in claims:
        claim.value = 1
    await ClockCycles(dut.clk_i, 2)
    assert [int(claim.value) for claim in claims] == [0] * len(claims)
