"""stream_input: elements in memory become the words that a program sees, for random streams."""

import itertools
import random
from collections import deque
from enum import Enum
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge

from echo_npu.spec.contract import MAX_DIM
from tb.blocks import parameter
from tests.rtl.elements import DTYPES
from tests.rtl.situations import Situations
from tests.rtl.stimulus import CHANCES, pulse, reset
from tests.rtl.streams import set_stream
from tests.rtl.transfers import Transfer, bytes_as_beats, until_idle
from tests.rtl.windows import Shape, use_row

CONFIGURATIONS = [
    {"DataWidth": 64, "Lanes": 4, "RowElements": 64, "BeatBits": 3},
    {"DataWidth": 256, "Lanes": 16, "RowElements": 128, "BeatBits": 1},
]
BUS = parameter("DataWidth") // 8
LANES = parameter("Lanes")
ROW_ELEMENTS = parameter("RowElements")
VECTOR_LENGTH = LANES << parameter("BeatBits")
SPACE = 1 << 14
IDLE_TIMEOUT = 20_000  # clocks
SIZES = (4, 2, 1)

Stream = dict[str, int]


class StreamInputCut(Enum):
    """What an abort or a reset meets."""

    ABORT_TRANSFER = "an abort with a transfer that is offered"
    ABORT_DATA = "an abort with data that has yet to come"
    ABORT_BEAT = "an abort in the clock in which a beat is taken"
    RESET_TRANSFER = "a reset with a transfer that is offered"
    RESET_DATA = "a reset with data that has yet to come"
    RESET_BEAT = "a reset in the clock in which a beat is taken"


class RowMemory:
    """Accepts transfers and gives their rows as dense beats, each with a chance in a clock.

    Attributes: data (its bytes), bytes_asked.
    """

    def __init__(self, dut: Any) -> None:
        self.data = random.randbytes(SPACE)
        self.accepting = self.answering = 1.0
        self.bytes_asked = 0
        self._dut = dut
        self._beats: deque[int] = deque()
        cocotb.start_soon(self._run())

    async def _run(self) -> None:
        dut = self._dut
        offering = False
        while True:
            dut.desc_ready_i.value = int(random.random() < self.accepting)
            offering = bool(self._beats) and (offering or random.random() < self.answering)
            dut.beat_valid_i.value = int(offering)
            if offering:
                dut.beat_i.value = self._beats[0]
            await RisingEdge(dut.clk_i)
            if offering and dut.beat_ready_o.value:
                self._beats.popleft()
                offering = False
            if dut.desc_ready_i.value and dut.desc_valid_o.value:
                transfer = Transfer.of(dut.desc_o)
                for start in transfer.row_starts():
                    self._queue(start, transfer.row_bytes)
            if dut.abort_i.value or not dut.rst_ni.value:
                self._beats.clear()
                offering = False

    def _queue(self, start: int, nbytes: int) -> None:
        assert start + nbytes <= SPACE
        self.bytes_asked += nbytes
        self._beats += bytes_as_beats(self.data[start : start + nbytes], BUS)


def draw() -> tuple[Stream, Shape, dict[str, int]]:
    """Draw a stream within the memory, its shape for a program, and the counts of rows and batches."""
    while True:
        size = random.choice(SIZES)
        bcast = random.random() < 0.15
        seg_len = 1 if bcast else random.choice((1, LANES, random.randint(1, 2 * ROW_ELEMENTS)))
        segs = 1 if bcast else random.choice((1, 1, 2, 3, 5))
        packed = not bcast and random.random() < 0.5
        counts = {name: random.choice((1, 1, 2, 3)) for name in ("rows", "batch0", "batch1")}
        length, segments = (seg_len * segs, 1) if packed else (seg_len, segs)
        shape = Shape(LANES, VECTOR_LENGTH, length, segments, random.randint(1, 3), bcast)
        stream = {
            "addr": size * random.randrange(50),
            "seg_stride": size * random.randrange(2 * seg_len) if segs > 1 else 0,
            "seg_bytes": size * seg_len,
            "seg_len": seg_len,
            "segs": segs,
            "length": length,
            "segments": segments,
            "row_granules": shape.row_granules,
            "passes": shape.passes,
            "size": SIZES.index(size),
            "bcast": int(bcast),
        }
        steps = (("row_stride", "rows"), ("batch0_stride", "batch0"), ("batch1_stride", "batch1"))
        still = random.random() < 0.3
        for stride, count in steps:
            stream[stride] = 0 if still or counts[count] == 1 else size * random.randrange(400)
        end = stream["addr"] + (segs - 1) * stream["seg_stride"] + stream["seg_bytes"]
        end += sum((counts[count] - 1) * stream[stride] for stride, count in steps)
        if end <= SPACE and length * segments * counts["rows"] * counts["batch0"] * counts["batch1"] < 2000:
            return stream, shape, counts


def rows_of(memory: RowMemory, stream: Stream, shape: Shape, counts: dict[str, int]) -> list[np.ndarray]:
    """Return the rows of a stream from memory, int32 [segments, length]."""
    dtype = DTYPES[SIZES[stream["size"]]]
    rows = []
    for places in itertools.product(*(range(counts[name]) for name in ("batch1", "batch0", "rows"))):
        strides = (stream["batch1_stride"], stream["batch0_stride"], stream["row_stride"])
        start = stream["addr"] + sum(place * step for place, step in zip(places, strides, strict=True))
        segments = [
            np.frombuffer(memory.data, dtype, stream["seg_len"], start + i * stream["seg_stride"])
            for i in range(stream["segs"])
        ]
        rows.append(np.concatenate(segments).astype(np.int32).reshape(shape.segments, shape.length))
    return rows


async def begin(dut: Any, stream: Stream, counts: dict[str, int], *, program: bool) -> None:
    """Start on a stream."""
    for name, value in {**counts, "program": int(program)}.items():
        getattr(dut, f"{name}_i").value = value
    set_stream(dut, **stream, enable=1)
    await pulse(dut, "start_i")


async def run(dut: Any, memory: RowMemory, *, whole: bool) -> None:
    """Run a command: a program uses all rows, but not all of their passes and words unless `whole`, and
    ends."""
    stream, shape, counts = draw()
    memory.accepting, memory.answering = random.choice(CHANCES), random.choice(CHANCES)
    await begin(dut, stream, counts, program=True)
    for row in rows_of(memory, stream, shape, counts):
        passes = shape.passes if whole else random.randint(0, shape.passes)
        await use_row(dut, row, shape, looking=1.0 if whole else random.choice((1.0, 0.3)), passes=passes)
    dut.drain_i.value = 1
    await until_idle(dut, IDLE_TIMEOUT)
    dut.drain_i.value = 0


@cocotb.test()
async def whole_rows(dut: Any) -> None:
    """Every element size, strides, segments, packed or not, on chip or not, broadcast; every word."""
    await reset(dut)
    memory = RowMemory(dut)
    for _ in range(50):
        await run(dut, memory, whole=True)


@cocotb.test()
async def parts_of_rows(dut: Any) -> None:
    """A program skips passes and words; what still comes is dropped at its end."""
    await reset(dut)
    memory = RowMemory(dut)
    for _ in range(60):
        await run(dut, memory, whole=False)


@cocotb.test()
async def transfers(dut: Any) -> None:
    """A row that fits on chip is fetched once for all passes, a constant one once for all rows, a longer one
    for each pass."""
    await reset(dut)
    memory = RowMemory(dut)
    for _ in range(50):
        stream, shape, counts = draw()
        rows = counts["rows"] * counts["batch0"] * counts["batch1"]
        fits = 16 * shape.row_granules <= ROW_ELEMENTS
        still = not (stream["row_stride"] or stream["batch0_stride"] or stream["batch1_stride"])
        before = memory.bytes_asked
        dut.drain_i.value = 1
        await begin(dut, stream, counts, program=True)
        await until_idle(dut, IDLE_TIMEOUT)
        dut.drain_i.value = 0
        times = 1 if fits and still else rows if fits else rows * shape.passes
        asked = memory.bytes_asked - before
        assert asked == times * stream["segs"] * stream["seg_bytes"], (stream, counts)


@cocotb.test()
async def rows_of_any_length(dut: Any) -> None:
    """Rows of a length at each power of two are requested for each pass if they do not fit on chip."""
    await reset(dut)
    for bit in range(32):
        stream, _, counts = draw()
        granules = (1 << bit) + random.choice((0, random.randrange(1 << bit)))
        stream |= {"row_granules": granules, "passes": random.randint(2, 3), "row_stride": 4}
        counts = {"rows": random.randint(1, 3), "batch0": 1, "batch1": 1}
        asked = 0
        await begin(dut, stream, counts, program=False)
        dut.desc_ready_i.value = 1
        while True:
            await RisingEdge(dut.clk_i)
            if not dut.desc_valid_o.value:
                break
            transfer = Transfer.of(dut.desc_o)
            asked += transfer.rows * transfer.row_bytes
        dut.desc_ready_i.value = 0
        await pulse(dut, "abort_i")
        times = 1 if 16 * granules <= ROW_ELEMENTS else stream["passes"]
        assert asked == times * counts["rows"] * stream["segs"] * stream["seg_bytes"], (granules, stream)


@cocotb.test()
async def any_number_of_rows_awaited(dut: Any) -> None:
    """The module is not idle before the data of a transfer has come, whatever the number of its rows."""
    await reset(dut)
    stream = {"addr": 0, "row_stride": 4, "batch0_stride": 0, "batch1_stride": 0, "seg_stride": 0}
    stream |= {"seg_bytes": 4, "seg_len": 1, "segs": 1, "bcast": 0, "size": 0, "passes": 1}
    stream |= {"length": 1, "segments": 1, "row_granules": 1}
    for bit in range(MAX_DIM.bit_length()):
        rows = 1 << bit
        await begin(dut, stream, {"rows": rows, "batch0": 1, "batch1": 1}, program=True)
        asked = 0
        dut.desc_ready_i.value = 1
        while asked < rows:
            await RisingEdge(dut.clk_i)
            if dut.desc_valid_o.value:
                asked += Transfer.of(dut.desc_o).rows
        dut.desc_ready_i.value = 0
        for _ in range(3):
            await RisingEdge(dut.clk_i)
            assert not dut.idle_o.value, f"{rows} rows"
            assert not dut.desc_valid_o.value
        await pulse(dut, "abort_i")


@cocotb.test()
async def idle_when_stored(dut: Any) -> None:
    """Data without room on chip counts as not arrived, even if it is only the last word and all its beats are
    taken: the module is not idle until a row makes room."""
    await reset(dut)
    RowMemory(dut)
    seg_len, segs = 5, 7  # with sixteen lanes: three words, the last of which begins in the last beat
    shape = Shape(LANES, VECTOR_LENGTH, seg_len * segs, 1, 1)
    stream = {"addr": 0, "row_stride": 4, "batch0_stride": 0, "batch1_stride": 0, "seg_stride": 40}
    stream |= {"seg_bytes": 4 * seg_len, "seg_len": seg_len, "segs": segs, "bcast": 0, "size": 0, "passes": 1}
    stream |= {"length": shape.length, "segments": 1, "row_granules": shape.row_granules}
    await begin(dut, stream, {"rows": 3, "batch0": 1, "batch1": 1}, program=True)
    for _ in range(500):
        await RisingEdge(dut.clk_i)
        assert not dut.idle_o.value
    for _ in range(2):
        await pulse(dut, "row_end_i")
    await until_idle(dut, IDLE_TIMEOUT)


@cocotb.test()
async def no_program(dut: Any) -> None:
    """For a command without a program, all rows are requested, and none of their beats is waited for."""
    await reset(dut)
    for _ in range(30):
        stream, _, counts = draw()
        stream["passes"] = 1
        asked = 0
        await begin(dut, stream, counts, program=False)
        dut.beat_valid_i.value = dut.desc_ready_i.value = 1
        while True:
            await RisingEdge(dut.clk_i)
            if not dut.desc_valid_o.value:
                break
            transfer = Transfer.of(dut.desc_o)
            asked += transfer.rows * transfer.row_bytes
        assert dut.idle_o.value
        dut.beat_valid_i.value = dut.desc_ready_i.value = 0
        rows = counts["rows"] * counts["batch0"] * counts["batch1"]
        assert asked == rows * stream["segs"] * stream["seg_bytes"]


@cocotb.test()
async def cut_off(dut: Any) -> None:
    """An abort or a reset comes in any clock, among transfers and data; in the next one the module is idle,
    and the next command works."""
    await reset(dut)
    memory = RowMemory(dut)
    situations = Situations(StreamInputCut, least=10)
    saw = situations.saw
    for _ in situations.rounds(150):
        stream, shape, counts = draw()
        memory.accepting, memory.answering = random.choice(CHANCES), random.choice(CHANCES)
        in_reset = random.random() < 0.5
        await begin(dut, stream, counts, program=True)
        using = cocotb.start_soon(
            use_row(dut, rows_of(memory, stream, shape, counts)[0], shape, looking=1.0, passes=1)
        )
        await ClockCycles(dut.clk_i, random.choice((random.randrange(8), random.randrange(80))))
        using.cancel()
        dut.window_advance_i.value = dut.row_end_i.value = 0
        dut.abort_i.value, dut.rst_ni.value = int(not in_reset), int(not in_reset)
        await RisingEdge(dut.clk_i)
        kinds = (StreamInputCut.RESET_TRANSFER, StreamInputCut.RESET_DATA, StreamInputCut.RESET_BEAT)
        if not in_reset:
            kinds = (StreamInputCut.ABORT_TRANSFER, StreamInputCut.ABORT_DATA, StreamInputCut.ABORT_BEAT)
        transfer, beat = bool(dut.desc_valid_o.value), bool(dut.beat_valid_i.value and dut.beat_ready_o.value)
        saw(kinds[0], transfer)
        saw(kinds[1], not transfer and not dut.idle_o.value)
        saw(kinds[2], beat)
        dut.abort_i.value, dut.rst_ni.value = 0, 1
        await RisingEdge(dut.clk_i)
        assert dut.idle_o.value
        assert not dut.desc_valid_o.value
        await run(dut, memory, whole=True)
