"""stream_window: rows that fit, longer rows, and one constant row, as programs see them."""

import random
from enum import Enum
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout

from tb.blocks import parameter
from tests.rtl.situations import Situations
from tests.rtl.stimulus import CHANCES, clocks, offer, pulse, reset
from tests.rtl.streams import set_stream
from tests.rtl.windows import Shape, advance, look, use_row, word

CONFIGURATIONS = [
    {"Lanes": 4, "RowElements": 64, "BeatBits": 3},
    {"Lanes": 16, "RowElements": 128, "BeatBits": 1},
]
LANES = parameter("Lanes")
ROW_ELEMENTS = parameter("RowElements")
VECTOR_LENGTH = LANES << parameter("BeatBits")
KINDS = ("resident", "constant", "queue", "bcast")
CUT = ("word_valid_i", "window_advance_i", "row_end_i")
"""Inputs that an abort overrules."""

Rows = list[np.ndarray]


class StreamWindowAbort(Enum):
    """What an abort meets."""

    STORED = "a word in the clock of the abort"
    ADVANCED = "a step of the window in the clock of the abort"
    ROW_ENDED = "the end of a row in the clock of the abort"
    FULL = "a word without room in the clock of the abort"
    USED_UP = "a row whose passes are over"
    WITHIN = "a look at an element that has not come, behind the abort"
    BEYOND = "a look behind the segment's end, behind the abort"


def draw(kind: str) -> Shape:
    """Draw a shape of the kind; a row longer than the memory is a queue."""
    while True:
        length = random.choice((1, LANES, LANES + 1, VECTOR_LENGTH, random.randint(1, ROW_ELEMENTS)))
        if kind == "queue":
            length = random.choice((length, random.randint(ROW_ELEMENTS, 2 * ROW_ELEMENTS)))
        segments = random.choice((1, 1, 2, 3))
        shape = Shape(LANES, VECTOR_LENGTH, length, segments, random.randint(1, 3))
        if kind == "bcast":
            return Shape(LANES, VECTOR_LENGTH, 1, 1, random.randint(1, 3), bcast=True)
        if (16 * shape.row_granules > ROW_ELEMENTS) == (kind == "queue"):
            return shape


async def begin(dut: Any, shape: Shape, kind: str) -> None:
    """Start on a stream."""
    set_stream(
        dut,
        length=shape.length,
        segments=shape.segments,
        row_granules=shape.row_granules,
        passes=shape.passes,
        bcast=int(shape.bcast),
    )
    dut.resident_i.value, dut.constant_i.value = int(kind != "queue"), int(kind == "constant")
    await pulse(dut, "start_i")


def fed(rows: Rows, shape: Shape, kind: str) -> list[int]:
    """Return the words that come for these rows: once each, those of a queue for every pass, of a constant
    row once."""
    words = []
    for row in rows[:1] if kind == "constant" else rows:
        for _ in range(shape.passes if kind == "queue" else 1):
            for segment in row:
                for first in range(0, shape.length, LANES):
                    lanes = Shape(LANES, VECTOR_LENGTH, shape.length, 1, 1)
                    last = first + LANES >= shape.length
                    words.append(word(segment, lanes, first) | int(last) << 32 * LANES)
    return words


def some_rows(shape: Shape, kind: str) -> Rows:
    """Draw rows; repeat the same one if it is constant."""
    count = random.randint(1, 4)
    size = (count, shape.segments, shape.length)
    rows = list(
        np.random.default_rng(random.getrandbits(32)).integers(-(1 << 31), 1 << 31, size).astype(np.int32)
    )
    return [rows[0]] * count if kind == "constant" else rows


async def run(dut: Any, kind: str, *, whole: bool) -> None:
    """Run a command: its words come while a program uses its rows, some of them not to the end unless
    `whole`."""
    shape = draw(kind)
    rows = some_rows(shape, kind)
    await begin(dut, shape, kind)
    words = fed(rows, shape, kind)
    feeding = cocotb.start_soon(
        offer(dut, "word_valid_i", "word_ready_o", "word_i", words, random.choice(CHANCES))
    )
    for row in rows:
        passes = shape.passes if whole else random.randint(0, shape.passes)
        await use_row(dut, row, shape, looking=1.0 if whole else random.choice((1.0, 0.3)), passes=passes)
    await with_timeout(feeding, 1, "ms")


@cocotb.test()
@cocotb.parametrize(kind=KINDS)
async def whole_rows(dut: Any, kind: str) -> None:
    """Every word of every pass is right; zeros follow the elements of a segment."""
    await reset(dut)
    for _ in range(8):
        await run(dut, kind, whole=True)


@cocotb.test()
@cocotb.parametrize(kind=KINDS)
async def parts_of_rows(dut: Any, kind: str) -> None:
    """Skipped passes and unread words do not affect later rows."""
    await reset(dut)
    for _ in range(15):
        await run(dut, kind, whole=False)


@cocotb.test()
async def room(dut: Any) -> None:
    """Words come until the memory is full; a finished row makes room for as many."""
    await reset(dut)
    held = ROW_ELEMENTS // LANES
    shape = Shape(LANES, VECTOR_LENGTH, 16, 1, 1)
    await begin(dut, shape, "resident")
    dut.word_valid_i.value, dut.word_i.value = 1, 1 << 32 * LANES if LANES == 16 else 0
    taken = 0
    for _ in range(2 * held):
        await RisingEdge(dut.clk_i)
        taken += int(dut.word_ready_o.value)
    assert taken == held
    await pulse(dut, "row_end_i")
    for _ in range(2 * held):
        await RisingEdge(dut.clk_i)
        taken += int(dut.word_ready_o.value)
    assert taken == held + 16 // LANES


@cocotb.test()
async def drain(dut: Any) -> None:
    """When the program has ended, everything that still comes is dropped."""
    await reset(dut)
    for _ in range(5):
        shape = draw("queue")
        rows = some_rows(shape, "queue")
        await begin(dut, shape, "queue")
        dut.drain_i.value = 1
        words = fed(rows, shape, "queue")
        begun = clocks()
        await offer(dut, "word_valid_i", "word_ready_o", "word_i", words, 1.0)
        assert clocks() - begun == len(words)
        dut.drain_i.value = 0
        await run(dut, "resident", whole=True)


async def use(dut: Any, rows: Rows, shape: Shape) -> None:
    """Use all passes of rows, reading few words."""
    for row in rows:
        await use_row(dut, row, shape, looking=0.2, passes=shape.passes)


@cocotb.test()
async def abort(dut: Any) -> None:
    """An abort in any clock, whatever else that clock brings, leaves nothing: in the next one the window is
    that of an empty memory at the begin of a row; the next command works."""
    await reset(dut)
    situations = Situations(StreamWindowAbort)
    shown = VECTOR_LENGTH // LANES
    for number in situations.rounds(200):
        kind = random.choice(KINDS)
        shape = draw(kind)
        rows = some_rows(shape, kind)
        await begin(dut, shape, kind)
        words = fed(rows, shape, kind)
        feeding = offer(dut, "word_valid_i", "word_ready_o", "word_i", words, random.choice(CHANCES))
        sides = [cocotb.start_soon(feeding), cocotb.start_soon(use(dut, rows, shape))]
        await ClockCycles(dut.clk_i, random.choice((1, 5, random.randint(1, 60), random.randint(1, 400))))
        for side in sides:
            side.cancel()
        used_up = bool(dut.window_used_up_o.value)
        for name in CUT:
            getattr(dut, name).value = random.getrandbits(1)
        dut.window_granules_i.value = 1
        dut.abort_i.value = 1
        await RisingEdge(dut.clk_i)
        stored = dut.word_valid_i.value and dut.word_ready_o.value
        situations.saw(StreamWindowAbort.STORED, stored)
        situations.saw(StreamWindowAbort.ADVANCED, dut.window_advance_i.value)
        situations.saw(StreamWindowAbort.ROW_ENDED, dut.row_end_i.value)
        situations.saw(StreamWindowAbort.FULL, dut.word_valid_i.value and not dut.word_ready_o.value)
        situations.saw(StreamWindowAbort.USED_UP, used_up)
        for name in (*CUT, "abort_i"):
            getattr(dut, name).value = 0
        beat = dut.window_beat_i.value = random.randrange(shown)
        await RisingEdge(dut.clk_i)
        beyond = not shape.bcast and beat * LANES >= shape.length
        situations.saw(StreamWindowAbort.BEYOND, beyond)
        situations.saw(StreamWindowAbort.WITHIN, not beyond)
        assert bool(dut.window_ready_o.value) == beyond, f"round {number}: word {beat} of {kind} {shape}"
        assert not beyond or not int(dut.window_word_o.value)
        assert not dut.window_used_up_o.value, f"round {number}: used up after an abort"
        assert dut.word_ready_o.value, f"round {number}: no room after an abort"
        if number % 10 == 0:
            await run(dut, random.choice(KINDS), whole=True)


LARGEST = (1 << 32) - 1


def long_shape() -> Shape:
    """Draw a queue of any magnitude, up to the longest legal segment and row."""
    bits = random.randint(12, 32)
    length = random.choice(
        (LARGEST, (1 << bits) - random.randint(1, 40), random.randint(1 << bits - 1, LARGEST))
    )
    most = max(1, LARGEST // length)
    segments = random.choice((1, most, random.randint(1, most)))
    return Shape(LANES, VECTOR_LENGTH, length, segments, random.randint(1, 15))


def some_words(count: int) -> list[int]:
    """Draw words, none the last of a segment."""
    return [random.getrandbits(32 * LANES) for _ in range(count)]


async def give(dut: Any, words: list[int]) -> None:
    """Bring words, as fast as they are taken."""
    await with_timeout(offer(dut, "word_valid_i", "word_ready_o", "word_i", words, 1.0), 100, "us")


async def shows(dut: Any, words: list[int]) -> None:
    """Check that the window begins with these words."""
    for beat, expected in enumerate(words):
        assert await look(dut, beat) == expected, f"word {beat}"


@cocotb.test()
async def far_rows(dut: Any) -> None:
    """More than 2^32 words of all passes may precede the next row: the window waits until exactly those have
    come."""
    await reset(dut)
    shown = VECTOR_LENGTH // LANES
    for _ in range(40):
        shape = long_shape()
        await begin(dut, shape, "queue")
        first = some_words(shown)
        await give(dut, first)
        await shows(dut, first)
        await pulse(dut, "row_end_i")
        dut.window_beat_i.value = random.randrange(shown)
        behind = shape.row_granules * (16 // LANES) * shape.passes
        for _ in range(3):
            await give(dut, some_words(2 * shown))
            assert not dut.window_ready_o.value
            # As if this many had come.
            dut.dut.write_q.value = random.randrange(shown, behind - 8 * shown)
            await RisingEdge(dut.clk_i)
        missing = random.randint(1, 5)
        dut.dut.write_q.value = behind - missing
        await RisingEdge(dut.clk_i)
        await give(dut, some_words(missing))
        assert not dut.window_ready_o.value
        second = some_words(shown)
        await give(dut, second)
        await shows(dut, second)


@cocotb.test()
async def ends_of_long_segments(dut: Any) -> None:
    """The last words of a segment of any length, zeros behind them, and the first words of what follows."""
    await reset(dut)
    shown, granule = VECTOR_LENGTH // LANES, 16 // LANES
    for _ in range(40):
        shape = long_shape()
        await begin(dut, shape, "queue")
        whole = (shape.length - 1) // LANES + 1
        place = (whole - 1) // granule * granule - granule * random.randrange(shown // granule)
        # As if all words before these had come and gone.
        for name in ("offset_q", "keep_q", "write_q"):
            getattr(dut.dut, name).value = place
        await RisingEdge(dut.clk_i)
        left = some_words(whole - place)
        await give(dut, [*left[:-1], left[-1] | 1 << 32 * LANES])
        await shows(dut, [*left, *[0] * (shown - len(left))])
        await advance(dut, -(-len(left) // granule))
        await RisingEdge(dut.clk_i)
        used_up = shape.segments == 1 and shape.passes == 1
        assert bool(dut.window_used_up_o.value) == used_up
        if not used_up:
            after = some_words(shown)
            await give(dut, after)
            await shows(dut, after)
