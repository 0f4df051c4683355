"""ram_queue: order, throughput, capacity, and each clock of random traffic."""

from typing import Any

import cocotb
from cocotb.triggers import ClockCycles

from tb.blocks import parameter
from tests.rtl.queues import QueueModel, follows, keeps_order, keeps_pace
from tests.rtl.stimulus import CHANCES, offer, reset, take

CONFIGURATIONS = [{"Width": 16, "Depth": 8}]
DEPTH = parameter("Depth")


@cocotb.test()
@cocotb.parametrize(sending=CHANCES, taking=CHANCES)
async def random_stalls(dut: Any, sending: float, taking: float) -> None:
    """No element is lost, doubled or reordered, whichever side waits; then the queue is empty."""
    await keeps_order(dut, sending, taking)


@cocotb.test()
async def each_clock(dut: Any) -> None:
    """An element shows two clocks after it went in; a reset in any clock drops all of them."""
    await follows(dut, QueueModel(DEPTH, passes=False))


@cocotb.test()
async def throughput(dut: Any) -> None:
    """One element a clock."""
    await keeps_pace(dut, 2)


@cocotb.test()
async def holds_all_that_it_promises(dut: Any) -> None:
    """While nothing is taken, `Depth` elements go in, and one more, which is at the output."""
    await reset(dut)
    source = cocotb.start_soon(offer(dut, "valid_i", "ready_o", "data_i", list(range(DEPTH + 2)), 1.0))
    await ClockCycles(dut.clk_i, DEPTH + 5)
    assert not dut.ready_o.value
    assert not source.done()
    taken = await take(dut, "valid_o", "ready_i", ["data_o"], DEPTH + 2, 1.0)
    await source
    assert taken == [(value,) for value in range(DEPTH + 2)]
