"""The watchdog counts up to any limit: the count is set, since no simulation reaches the great ones."""

from typing import Any

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge

from echo_npu.commands.packets import NpuCommandPacket, Opcode
from echo_npu.spec.memory_map import ACTIVATION, WEIGHT
from echo_npu.spec.status import ErrorCode
from tests.rtl.command.command_processor.surroundings import begin, failed, submit

LEAD = 4
"""Clocks between the count that is set and the limit."""
SOON = 20
"""Clocks in which a command starts or fails."""


async def started(dut: Any) -> None:
    """Submit a copy and wait until it is the oldest command under way."""
    packet = NpuCommandPacket(Opcode.MEMCPY, 0, WEIGHT.base, 0, ACTIVATION.base, m=64)
    await submit(dut, packet.pack())
    for _ in range(100):
        await RisingEdge(dut.clk_i)
        await ReadOnly()
        if dut.start_o.value.to_unsigned():
            await RisingEdge(dut.clk_i)
            return
    raise AssertionError("the copy does not start")


async def aborted(dut: Any, most: int) -> int:
    """Return the clocks until the command is stopped, at most `most`."""
    for clocks in range(1, most + 1):
        await RisingEdge(dut.clk_i)
        await ReadOnly()
        if dut.abort_o.value:
            return clocks
    return most


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def every_limit_is_reached(dut: Any) -> None:
    """A command that has taken one clock less than a limit goes on, and soon after that it ends."""
    await begin(dut, WEIGHT.base)
    for limit in (*(1 << bit for bit in range(3, 32)), 0xFFFF_FFFF):
        dut.watchdog_i.value = limit
        await started(dut)
        dut.age_q.value = limit - LEAD
        found = await aborted(dut, SOON)
        assert LEAD < found < SOON, f"limit 0x{limit:x}: the command ends {found} clocks later"
        await failed(dut, ErrorCode.TIMEOUT)
    dut.watchdog_i.value = 0
    await started(dut)
    dut.age_q.value = 0xFFFF_FFFF - LEAD
    assert await aborted(dut, SOON) == SOON, "without a limit"
    await RisingEdge(dut.clk_i)
    dut.watchdog_i.value = 0xFFFF_FFFF
    assert await aborted(dut, SOON) < SOON, "the count begins anew"
