"""skid_buffer: order, throughput, and no output that depends on an input within a clock."""

import random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge, Timer

from tests.rtl.queues import QueueModel, follows, keeps_order, keeps_pace
from tests.rtl.stimulus import CHANCES, reset

CONFIGURATIONS = [{"Width": 16}]


@cocotb.test()
@cocotb.parametrize(sending=CHANCES, taking=CHANCES)
async def random_stalls(dut: Any, sending: float, taking: float) -> None:
    """No element is lost, doubled or reordered, whichever side waits; then the buffer is empty."""
    await keeps_order(dut, sending, taking)


@cocotb.test()
async def each_clock(dut: Any) -> None:
    """An element shows one clock after it went in; a reset in any clock drops all of them."""
    await follows(dut, QueueModel(1, passes=True))


@cocotb.test()
async def throughput(dut: Any) -> None:
    """One element a clock."""
    await keeps_pace(dut, 1)


@cocotb.test()
async def outputs_are_registers(dut: Any) -> None:
    """In the middle of a clock, no input changes an output."""
    await reset(dut)
    for _ in range(300):
        await RisingEdge(dut.clk_i)
        valid = int(dut.valid_i.value) and not int(dut.ready_o.value)  # what waits must stay
        seen = set()
        for choice in range(4):
            dut.ready_i.value = choice & 1
            dut.valid_i.value = int(valid or choice >> 1)
            await Timer(1, "ns")
            seen.add((int(dut.valid_o.value), int(dut.ready_o.value), int(dut.data_o.value)))
        assert len(seen) == 1
        dut.ready_i.value = random.getrandbits(1)
        if not valid:
            dut.valid_i.value, dut.data_i.value = random.getrandbits(1), random.getrandbits(16)
