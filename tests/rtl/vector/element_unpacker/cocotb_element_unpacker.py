"""element_unpacker: words of any number of elements, compared with the beats that memory must get."""

import random
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout

from tb.blocks import parameter
from tests.rtl.elements import as_beats, as_number
from tests.rtl.stimulus import CHANCES, clocks, cut_off, pulse, reset, take
from tests.rtl.streams import set_stream

CONFIGURATIONS = [{"DataWidth": 64, "Lanes": 4}, {"DataWidth": 256, "Lanes": 16}]
BUS = parameter("DataWidth") // 8
LANES = parameter("Lanes")
SIZES = (4, 2, 1)


def as_words(values: np.ndarray) -> list[tuple[int, int]]:
    """Divide elements into words of 1 to all lanes: (bits, number of elements), with noise after them."""
    rng = np.random.default_rng(random.getrandbits(32))
    full = random.random() < 0.5
    words = []
    first = 0
    while first < len(values):
        count = min(LANES if full else random.randint(1, LANES), len(values) - first)
        word = rng.integers(-(1 << 31), 1 << 31, LANES).astype(np.int32)
        word[:count] = values[first : first + count]
        words.append((as_number(word), count))
        first += count
    return words


async def feed(dut: Any, words: list[tuple[int, int]], chance: float) -> None:
    """Offer words, each with a chance in a clock."""
    for word, count in words:
        while random.random() > chance:
            dut.word_valid_i.value = 0
            await RisingEdge(dut.clk_i)
        dut.word_valid_i.value = 1
        dut.word_i.value, dut.count_i.value = word, count
        await RisingEdge(dut.clk_i)
        while not dut.word_ready_o.value:
            await RisingEdge(dut.clk_i)
    dut.word_valid_i.value = 0


async def drain(dut: Any, count: int, chance: float) -> list[int]:
    """Take beats, each with a chance of room in a clock."""
    return [beat for (beat,) in await take(dut, "beat_valid_o", "beat_ready_i", ["beat_o"], count, chance)]


@cocotb.test()
async def random_words(dut: Any) -> None:
    """Every element size, words that end anywhere, segments that each begin a beat; idle when all is out."""
    await reset(dut)
    for trial in range(400):
        size = random.choice(SIZES)
        seg_len = random.choice((1, 2, LANES, LANES + 1, random.randint(1, 8 * LANES)))
        values = np.random.default_rng(random.getrandbits(32)).integers(
            -(1 << 31), 1 << 31, random.randint(1, 12) * seg_len
        )
        set_stream(dut, seg_len=seg_len, size=SIZES.index(size))
        await pulse(dut, "start_i")
        beats, words = as_beats(values, size, seg_len, BUS), as_words(values)
        feeder = cocotb.start_soon(feed(dut, words, random.choice(CHANCES)))
        drained = drain(dut, len(beats), random.choice(CHANCES))
        got = await with_timeout(cocotb.start_soon(drained), 1, "ms")
        await feeder
        assert got == beats, f"trial {trial}: {len(values)} elements of {size} bytes in segments of {seg_len}"
        await RisingEdge(dut.clk_i)
        assert dut.idle_o.value


@cocotb.test()
async def abort(dut: Any) -> None:
    """An abort in any clock leaves nothing: in the next one it is idle and offers no beat."""
    await reset(dut)
    for trial in range(200):
        length = random.randint(1, 3 * LANES)
        set_stream(dut, seg_len=length, size=random.randrange(3))
        await pulse(dut, "start_i")
        words = as_words(np.arange(4 * length))
        sides = [cocotb.start_soon(feed(dut, words, 0.9)), cocotb.start_soon(drain(dut, 1000, 0.3))]
        await ClockCycles(dut.clk_i, random.randint(1, 12))
        await cut_off(dut, sides, "word_valid_i", "beat_ready_i")
        assert dut.idle_o.value, f"trial {trial}: busy with segments of {length} elements after an abort"
        assert not dut.beat_valid_o.value, f"trial {trial}: a beat outlives the abort"


@cocotb.test()
async def throughput(dut: Any) -> None:
    """Whole words of 32-bit elements: a beat a clock."""
    await reset(dut)
    length = 64 * LANES
    set_stream(dut, seg_len=length)
    await pulse(dut, "start_i")
    words = [(as_number(np.full(LANES, i, np.int32)), LANES) for i in range(64)]
    count = 4 * length // BUS
    cocotb.start_soon(feed(dut, words, 1.0))
    await RisingEdge(dut.clk_i)
    begun = clocks()
    await drain(dut, count, 1.0)
    assert clocks() - begun <= count + 2
