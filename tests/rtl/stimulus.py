"""Clock, reset and random handshakes, for the testbenches of single modules."""

import itertools
import random
from collections.abc import Sequence
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.handle import LogicObject
from cocotb.task import Task
from cocotb.triggers import ReadOnly, RisingEdge, Timer
from cocotb.utils import get_sim_time

CLOCK_NS = 10

CHANCES = (1.0, 0.7, 0.2)
"""Chances in a clock that a side of a handshake is ready."""

BEHIND = 0.25
"""Share of the receivers that are ready only behind a clock in which they see something valid."""


def _one_bit_inputs(dut: Any) -> list[LogicObject]:
    return [port for port in dut if isinstance(port, LogicObject) and port._name.endswith("_i")]


async def start_clock(dut: Any, *inputs: str) -> None:
    """Start the clock, with these inputs and all one-bit inputs at zero."""
    for port in (*_one_bit_inputs(dut), *(getattr(dut, name) for name in inputs)):
        port.value = 0
    await Timer(CLOCK_NS, "ns")  # the first edge finds them so
    cocotb.start_soon(Clock(dut.clk_i, CLOCK_NS, "ns").start())


async def reset(dut: Any, *inputs: str) -> None:
    """Start the clock and reset, with these inputs and all one-bit inputs at zero.

    During the reset the one-bit inputs are random: it has precedence over all of them. Only the first one of
    a simulation has no abort, which would clear what the reset has to clear.
    """
    still = {"clk_i", "rst_ni"} if get_sim_time() else {"clk_i", "rst_ni", "abort_i"}
    dut.rst_ni.value = 0
    await start_clock(dut, *inputs)
    noisy = [port for port in _one_bit_inputs(dut) if port._name not in still]
    for _ in range(3):
        await RisingEdge(dut.clk_i)
        for port in noisy:
            port.value = random.getrandbits(1)
    await RisingEdge(dut.clk_i)
    for port in noisy:
        port.value = 0
    dut.rst_ni.value = 1


class InputPort:
    """An input that is written only where its value changes: a write takes long, and most change nothing.

    Nothing else may write it between `forget` and the next `drive`.
    """

    def __init__(self, port: Any) -> None:
        self._port, self._last = port, -1

    def forget(self) -> None:
        """Forget the value, which something else may change."""
        self._last = -1

    def drive(self, value: int) -> None:
        """Give it a value, not negative, at the coming clock edge."""
        if value != self._last:
            self._port.value = self._last = value


def clocks() -> int:
    """Return the clocks since the start of the simulation, an int, so a difference of two is exact."""
    return round(get_sim_time("ns") / CLOCK_NS)


async def pulse(dut: Any, *inputs: str) -> None:
    """Hold single-bit inputs high for one clock."""
    for name in inputs:
        getattr(dut, name).value = 1
    await RisingEdge(dut.clk_i)
    for name in inputs:
        getattr(dut, name).value = 0


async def cut_off(dut: Any, sides: Sequence[Task[Any]], *inputs: str) -> None:
    """Abort in the middle of what other tasks do at these inputs; return in the next clock."""
    for side in sides:
        side.cancel()
    for name in inputs:
        getattr(dut, name).value = 0
    await pulse(dut, "abort_i")
    await RisingEdge(dut.clk_i)


async def until(dut: Any, signal: str) -> None:
    """Wait for a clock in which a signal is high."""
    while True:
        await ReadOnly()
        high = bool(getattr(dut, signal).value)
        await RisingEdge(dut.clk_i)
        if high:
            return


def pause(probability: float, *channels: Any) -> None:
    """Let these channels of a cocotbext-axi model pause in each clock with this probability.

    With 0 nothing runs, so that a test may pause them itself.
    """
    for channel in channels if probability else ():
        channel.set_pause_generator(random.random() < probability for _ in itertools.count())


async def offer(dut: Any, valid: str, ready: str, data: str, values: Sequence[int], chance: float) -> None:
    """Offer values one after another, each with this chance in a clock; an offered value stays until it is
    taken."""
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
    """Take `count` elements, with this chance of room in a clock; return the values of the signals `data` for
    each.

    Below a chance of 1, some receivers are ready only behind a clock with an element: no sender
    may wait for them.
    """
    taken: list[tuple[int, ...]] = []
    behind, seen = chance < 1 and random.random() < BEHIND, False
    while len(taken) < count:
        room = random.random() < chance and (seen or not behind)
        getattr(dut, ready).value = int(room)
        await RisingEdge(dut.clk_i)
        shown = bool(getattr(dut, valid).value)
        if room and shown:
            taken.append(tuple(int(getattr(dut, name).value) for name in data))
        seen = shown and not room
    getattr(dut, ready).value = 0
    return taken
