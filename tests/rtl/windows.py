"""The window of an input stream as a program uses it, for the testbenches of the modules that provide one."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from cocotb.triggers import RisingEdge
from numpy.typing import NDArray

from tests.rtl.elements import as_number
from tests.rtl.stimulus import pulse

GRANULE = 16
"""Elements: windows advance by multiples of this, and every segment begins at one."""

LOOK_TIMEOUT = 20_000
"""Clocks."""


@dataclass(frozen=True)
class Shape:
    """How a program sees the rows of a stream.

    Attributes: lanes, vector_length (elements of a word, and the most that a window shows), length (elements
    of a segment), segments, passes, bcast.
    """

    lanes: int
    vector_length: int
    length: int
    segments: int
    passes: int
    bcast: bool = False

    @property
    def row_granules(self) -> int:
        return self.segments * -(-self.length // GRANULE)


def word(values: NDArray[np.int32], shape: Shape, place: int) -> int:
    """Return the word of a segment at the element `place`, with zeros after the last element."""
    if shape.bcast:
        return as_number(np.full(shape.lanes, values[0], np.int32))
    filled = np.zeros(shape.lanes, np.int32)
    there = values[place : place + shape.lanes]
    filled[: there.size] = there
    return as_number(filled)


async def look(dut: Any, beat: int) -> int:
    """Wait for the word `beat` of the window and return it."""
    dut.window_beat_i.value = beat
    for _ in range(LOOK_TIMEOUT):
        await RisingEdge(dut.clk_i)
        if dut.window_ready_o.value:
            return int(dut.window_word_o.value)
    raise AssertionError(f"word {beat} of the window never comes")


async def advance(dut: Any, granules: int) -> None:
    """Move the window."""
    dut.window_granules_i.value = granules
    await pulse(dut, "window_advance_i")


async def use_row(dut: Any, row: NDArray[np.int32], shape: Shape, *, looking: float, passes: int) -> None:
    """Use a row as a program with `passes` passes does, then go to the next row.

    Args:
        row: int32 [segments, length].
        looking: the chance that a word is read, which must then be right.
    """
    words = shape.vector_length // shape.lanes
    for _ in range(passes):
        assert not dut.window_used_up_o.value
        for segment in row:
            for first in range(0, shape.length, shape.vector_length):
                for beat in range(words):
                    if random.random() < looking:
                        expected = word(segment, shape, first + beat * shape.lanes)
                        assert await look(dut, beat) == expected, f"word {beat} at element {first}"
                count = min(shape.vector_length, shape.length - first)
                await advance(dut, -(-count // GRANULE))
    await RisingEdge(dut.clk_i)
    assert bool(dut.window_used_up_o.value) == (passes == shape.passes and not shape.bcast)
    await pulse(dut, "row_end_i")
    await RisingEdge(dut.clk_i)
