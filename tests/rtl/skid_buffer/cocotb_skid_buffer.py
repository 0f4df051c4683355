"""skid_buffer: order, throughput, and that no output depends on an input of the same clock."""

import random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge, Timer, with_timeout

from tests.rtl.stimulus import CHANCES, clocks, offer, reset, take

INPUTS = ("valid_i", "ready_i", "data_i")


async def pass_through(dut: Any, values: list[int], sending: float, taking: float) -> None:
    """All values come out as they went in."""
    source = cocotb.start_soon(offer(dut, "valid_i", "ready_o", "data_i", values, sending))
    sink = cocotb.start_soon(take(dut, "valid_o", "ready_i", ["data_o"], len(values), taking))
    taken = await with_timeout(sink, 1, "ms")
    await source
    assert taken == [(value,) for value in values]


@cocotb.test()
@cocotb.parametrize(sending=CHANCES, taking=CHANCES)
async def random_stalls(dut: Any, sending: float, taking: float) -> None:
    """Nothing is lost, doubled or exchanged, whichever side waits; then it is empty."""
    await reset(dut, *INPUTS)
    await pass_through(dut, [random.getrandbits(16) for _ in range(500)], sending, taking)
    await RisingEdge(dut.clk_i)
    assert not dut.valid_o.value
    assert dut.ready_o.value


@cocotb.test()
async def throughput(dut: Any) -> None:
    """One element a clock."""
    await reset(dut, *INPUTS)
    begun = clocks()
    await pass_through(dut, list(range(200)), 1.0, 1.0)
    assert clocks() - begun <= 202


@cocotb.test()
async def outputs_are_registers(dut: Any) -> None:
    """In the midst of a clock, no input moves an output."""
    await reset(dut, *INPUTS)
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
