"""Clock, reset and random handshakes, for the testbenches of single modules."""

import random
from collections.abc import Sequence
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer
from cocotb.utils import get_sim_time

CLOCK_NS = 10

CHANCES = (1.0, 0.7, 0.2)
"""How often a side of a handshake is ready, from always to seldom."""


async def start_clock(dut: Any, *inputs: str) -> None:
    """Start the clock, with all these inputs at zero, and clock gates at work."""
    for name in inputs:
        getattr(dut, name).value = 0
    if hasattr(dut, "test_enable_i"):
        dut.test_enable_i.value = 0
    await Timer(CLOCK_NS, "ns")  # the first edge finds them so
    cocotb.start_soon(Clock(dut.clk_i, CLOCK_NS, "ns").start())


async def reset(dut: Any, *inputs: str) -> None:
    """Start the clock and reset, with all these inputs at zero."""
    dut.rst_ni.value = 0
    await start_clock(dut, *inputs)
    for _ in range(3):
        await RisingEdge(dut.clk_i)
    dut.rst_ni.value = 1


def clocks() -> int:
    """Clocks since the start of the simulation: an int, so a difference of two is exact."""
    return round(get_sim_time("ns") / CLOCK_NS)


async def pulse(dut: Any, *inputs: str) -> None:
    """Hold single-bit inputs high for one clock."""
    for name in inputs:
        getattr(dut, name).value = 1
    await RisingEdge(dut.clk_i)
    for name in inputs:
        getattr(dut, name).value = 0


async def offer(dut: Any, valid: str, ready: str, data: str, values: Sequence[int], chance: float) -> None:
    """Hand values over one after another, each with this chance of being there in a clock; what is there
    stays until it is taken."""
    for value in values:
        while random.random() > chance:
            await RisingEdge(dut.clk_i)
        getattr(dut, valid).value = 1
        getattr(dut, data).value = value
        await RisingEdge(dut.clk_i)
        while not getattr(dut, ready).value:
            await RisingEdge(dut.clk_i)
        getattr(dut, valid).value = 0


async def take(
    dut: Any, valid: str, ready: str, data: Sequence[str], count: int, chance: float
) -> list[tuple[int, ...]]:
    """Take `count` elements with this chance of there being room in a clock: the values of the signals `data`
    with each."""
    taken: list[tuple[int, ...]] = []
    while len(taken) < count:
        getattr(dut, ready).value = room = int(random.random() < chance)
        await RisingEdge(dut.clk_i)
        if room and getattr(dut, valid).value:
            taken.append(tuple(int(getattr(dut, name).value) for name in data))
    getattr(dut, ready).value = 0
    return taken
