"""Properties of any queue between two handshakes: order, no loss, one element a clock."""

import random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge, with_timeout

from tests.rtl.stimulus import clocks, offer, reset, take


async def pass_through(dut: Any, values: list[int], sending: float, taking: float) -> None:
    """Pass all values through and check that they come out in order."""
    source = cocotb.start_soon(offer(dut, "valid_i", "ready_o", "data_i", values, sending))
    sink = cocotb.start_soon(take(dut, "valid_o", "ready_i", ["data_o"], len(values), taking))
    taken = await with_timeout(sink, 1, "ms")
    await source
    assert taken == [(value,) for value in values]


async def keeps_order(dut: Any, sending: float, taking: float) -> None:
    """Check that no element is lost, doubled or reordered, whichever side waits, and that the queue is then
    empty."""
    await reset(dut)
    await pass_through(dut, [random.getrandbits(16) for _ in range(500)], sending, taking)
    await RisingEdge(dut.clk_i)
    assert not dut.valid_o.value
    assert dut.ready_o.value


async def keeps_pace(dut: Any, latency: int) -> None:
    """Check one element a clock, each out again after `latency` clocks."""
    await reset(dut)
    begun = clocks()
    await pass_through(dut, list(range(200)), 1.0, 1.0)
    assert clocks() - begun <= 201 + latency
