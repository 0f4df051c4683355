"""A host breaks a rule of AXI4-Lite: the test would pass without the protocol checker."""

from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge


@cocotb.test()
async def test_valid_falls(dut: Any) -> None:
    """Addresses without data, until the block takes no more; then the next one is withdrawn."""
    for name in ("awvalid", "wvalid", "bready", "arvalid", "rready"):
        getattr(dut, f"s_axil_{name}").value = 0
    dut.rst_ni.value = 0
    Clock(dut.clk_i, 10, unit="ns").start()
    await ClockCycles(dut.clk_i, 3)
    dut.rst_ni.value = 1
    await ClockCycles(dut.clk_i, 2)
    await FallingEdge(dut.clk_i)
    dut.s_axil_awvalid.value = 1
    await ClockCycles(dut.clk_i, 20)
    dut.s_axil_awvalid.value = 0
    await ClockCycles(dut.clk_i, 3)
