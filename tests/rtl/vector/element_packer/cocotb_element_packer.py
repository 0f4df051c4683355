"""element_packer: random segments in beats, compared with the words that programs must see."""

import random
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout

from tb.blocks import parameter
from tests.rtl.elements import as_beats, as_number
from tests.rtl.stimulus import CHANCES, clocks, cut_off, offer, pulse, reset, take
from tests.rtl.streams import set_stream

CONFIGURATIONS = [{"DataWidth": 64, "Lanes": 4}, {"DataWidth": 256, "Lanes": 16}]
BUS = parameter("DataWidth") // 8
LANES = parameter("Lanes")
SIZES = (4, 2, 1)


def as_words(values: np.ndarray, length: int) -> list[tuple[int, bool]]:
    """Return elements in segments of `length` as words of all lanes, the last one of each padded with zeros,
    with a mark of the last."""
    words = []
    for segment in values.astype(np.int32).reshape(-1, length):
        filled = np.zeros(-(-length // LANES) * LANES, np.int32)
        filled[:length] = segment
        for first in range(0, length, LANES):
            words.append((as_number(filled[first : first + LANES]), first + LANES >= length))
    return words


async def feed(dut: Any, beats: list[int], chance: float) -> None:
    """Offer beats, each with a chance in a clock."""
    await offer(dut, "beat_valid_i", "beat_ready_o", "beat_i", beats, chance)


async def drain(dut: Any, count: int, chance: float) -> list[tuple[int, ...]]:
    """Take words and their marks, each with a chance of room in a clock."""
    return await take(dut, "word_valid_o", "word_ready_i", ("word_o", "word_last_o"), count, chance)


async def count_rows(dut: Any, counted: list[int]) -> None:
    """Count the accepted memory rows."""
    while True:
        await RisingEdge(dut.clk_i)
        counted[0] += int(dut.row_taken_o.value)


@cocotb.test()
async def random_segments(dut: Any) -> None:
    """Every element size, packed rows or not, with and without gaps on either side."""
    await reset(dut)
    counted = [0]
    cocotb.start_soon(count_rows(dut, counted))
    for trial in range(400):
        size = random.choice(SIZES)
        seg_len = random.choice((1, 2, LANES, LANES + 1, random.randint(1, 8 * LANES)))
        segments = random.randint(1, 12)
        packed = random.choice((1, segments, random.randint(1, segments)))  # rows of a segment
        segments -= segments % packed
        length = seg_len * packed
        values = np.random.default_rng(random.getrandbits(32)).integers(
            -(1 << 8 * size - 1), 1 << 8 * size - 1, segments * seg_len
        )
        set_stream(dut, seg_len=seg_len, length=length, size=SIZES.index(size))
        await pulse(dut, "start_i")
        before = counted[0]
        beats, words = as_beats(values, size, seg_len, BUS), as_words(values, length)
        feeder = cocotb.start_soon(feed(dut, beats, random.choice(CHANCES)))
        drained = drain(dut, len(words), random.choice(CHANCES))
        got = await with_timeout(cocotb.start_soon(drained), 1, "ms")
        await feeder
        assert got == words, f"trial {trial}: {segments} x {seg_len} of {size} bytes, length {length}"
        await RisingEdge(dut.clk_i)
        assert counted[0] - before == segments


@cocotb.test()
async def abort(dut: Any) -> None:
    """An abort in any clock leaves nothing: in the next one no word is offered."""
    await reset(dut)
    for trial in range(200):
        # Rows of any length in a segment: the last one may fill a word and begin the next, which waits.
        seg_len, size = random.randint(1, LANES + 1), random.choice(SIZES)
        length = seg_len * random.randint(2, 6)
        values = np.arange(4 * length)
        set_stream(dut, seg_len=seg_len, length=length, size=SIZES.index(size))
        await pulse(dut, "start_i")
        beats = as_beats(values, size, seg_len, BUS)
        sides = [cocotb.start_soon(feed(dut, beats, 0.9)), cocotb.start_soon(drain(dut, 1000, 0.3))]
        await ClockCycles(dut.clk_i, random.randint(1, 12))
        await cut_off(dut, sides, "beat_valid_i", "word_ready_i")
        assert not dut.word_valid_o.value, f"trial {trial}: a word of {length} elements outlives the abort"


@cocotb.test()
async def throughput(dut: Any) -> None:
    """Whole words of 32-bit elements: a beat a clock."""
    await reset(dut)
    length = 64 * LANES
    values = np.arange(length)
    set_stream(dut, seg_len=length, length=length)
    await pulse(dut, "start_i")
    beats = as_beats(values, 4, length, BUS)
    cocotb.start_soon(drain(dut, 64, 1.0))
    await RisingEdge(dut.clk_i)
    begun = clocks()
    await feed(dut, beats, 1.0)
    assert clocks() - begun <= len(beats) + 1
