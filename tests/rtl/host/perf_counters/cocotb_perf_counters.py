"""perf_counters: each event adds its own amount to its own count, across every power of two, with clears."""

import random
from typing import Any

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge

from tests.rtl.stimulus import reset

CONFIGURATIONS: list[dict[str, int]] = [{}]
# The events and the counts, each from the highest bits of its structure.
EVENTS = {
    "busy": 1,
    "matrix_busy": 1,
    "vector_busy": 1,
    "macs": 16,
    "read_beat": 1,
    "write_beat": 1,
    "stall_read": 1,
    "stall_write": 1,
    "stall_bus": 1,
    "host_beats": 2,
    "command": 1,
}
COUNTS = 1 + len(EVENTS)
COUNT_BITS = 64


def packed(values: list[int], widths: list[int]) -> int:
    """Return the members of a structure as one number."""
    word = 0
    for value, width in zip(values, widths, strict=True):
        word = word << width | value
    return word


def unpacked(word: int) -> list[int]:
    """Return all counts."""
    places = range(COUNT_BITS * (COUNTS - 1), -1, -COUNT_BITS)
    return [word >> place & ((1 << COUNT_BITS) - 1) for place in places]


async def clock(dut: Any, events: list[int]) -> None:
    """Apply these events for one clock."""
    dut.events_i.value = packed(events, list(EVENTS.values()))
    await FallingEdge(dut.clk_i)


def after(counts: list[int], events: list[int]) -> list[int]:
    """Return the counts one clock later; the first one counts clocks."""
    return [(count + by) % (1 << COUNT_BITS) for count, by in zip(counts, [1, *events], strict=True)]


def random_events() -> list[int]:
    """Draw an event or none of each kind."""
    return [random.choice((0, random.getrandbits(width))) for width in EVENTS.values()]


@cocotb.test()
async def counts_across_all_powers_of_two(dut: Any) -> None:
    """Each count carries into each of its 64 bits."""
    await reset(dut, "events_i")
    await FallingEdge(dut.clk_i)
    for bit in range(COUNT_BITS + 1):
        near = [((1 << bit) - random.randint(1, 3)) % (1 << COUNT_BITS) for _ in range(COUNTS)]
        dut.counts_q.value = packed(near, [COUNT_BITS] * COUNTS)
        for _ in range(8):
            events = random_events()
            await clock(dut, events)
            near = after(near, events)
            assert unpacked(int(dut.counts_o.value)) == near, f"near 2^{bit}"


@cocotb.test()
async def each_event_alone(dut: Any) -> None:
    """An event changes only its own count; without events only the clocks are counted."""
    await reset(dut, "events_i")
    await FallingEdge(dut.clk_i)
    counts = unpacked(int(dut.counts_o.value))
    for which, width in enumerate(EVENTS.values()):
        for value in (1, (1 << width) - 1, 0):
            events = [value if place == which else 0 for place in range(len(EVENTS))]
            await clock(dut, events)
            counts = after(counts, events)
            assert unpacked(int(dut.counts_o.value)) == counts


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """A clear and a reset make every count zero, and the events of their clock are lost."""
    await reset(dut, "events_i")
    counts = [0] * COUNTS
    for _ in range(3000):
        clear, in_reset = (random.random() < 0.05 for _ in range(2))
        events = random_events()
        dut.clear_i.value, dut.rst_ni.value = int(clear), int(not in_reset)
        dut.events_i.value = packed(events, list(EVENTS.values()))
        await RisingEdge(dut.clk_i)
        assert unpacked(int(dut.counts_o.value)) == counts
        counts = [0] * COUNTS if clear or in_reset else after(counts, events)
    dut.rst_ni.value = 1
