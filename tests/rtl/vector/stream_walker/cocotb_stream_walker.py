"""stream_walker: the bytes of its transfers, in order, for random streams."""

import itertools
import random
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tests.rtl.situations import Situations
from tests.rtl.stimulus import pulse, reset
from tests.rtl.streams import set_stream
from tests.rtl.transfers import Transfer

CONFIGURATIONS: list[dict[str, int]] = [{}]
Run = tuple[int, int]
"""Address and bytes."""

ADDRESS_BITS = 32
ROW_BITS = 25
PORTS = ("resident", "constant", "rows", "batch0", "batch1")
"""The walker's inputs besides the stream."""


class StreamWalkerSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    MERGED = "rows of one segment, which are one transfer a batch"
    MERGED_BATCHES = "the same, with inner and outer batches"
    SEGMENTS = "rows of several segments"
    PASSES = "rows that are transferred in every pass, with rows and both batches"
    RESIDENT = "rows with several passes that are transferred once"
    CONSTANT = "a constant row of rows and batches, transferred once"
    MOST_PASSES = "the most passes of a row that does not stay"
    OUTPUT = "a stream without a pass"
    SAME_AGAIN = "rows and batches that are the same again"
    ONE = "a stream of one transfer"
    WAITED = "a transfer that waits to be taken"
    AGAIN = "a stream right behind the last transfer of another"
    ABORT_IDLE = "an abort without a transfer"
    ABORT_TAKEN = "an abort in the clock in which a transfer is taken"
    ABORT_WAITING = "an abort with a transfer that waits"
    ABORT_START = "an abort in the clock of a start"


def note(situations: Situations, stream: dict[str, int]) -> None:
    """Count the situations of a stream."""
    saw = situations.saw
    once, several = stream["resident"] or stream["passes"] <= 1, stream["segs"] > 1
    batches = stream["batch0"] > 1 and stream["batch1"] > 1
    all_counts = batches and stream["rows"] > 1
    merged = not several and once and not stream["constant"] and stream["rows"] > 1
    saw(StreamWalkerSituation.MERGED, merged)
    saw(StreamWalkerSituation.MERGED_BATCHES, merged and batches)
    saw(StreamWalkerSituation.SEGMENTS, several and once and all_counts)
    saw(StreamWalkerSituation.PASSES, not once and all_counts)
    saw(StreamWalkerSituation.MOST_PASSES, not once and stream["passes"] == 15)
    saw(StreamWalkerSituation.RESIDENT, stream["resident"] and stream["passes"] > 1 and all_counts)
    saw(StreamWalkerSituation.CONSTANT, stream["constant"] and all_counts)
    saw(StreamWalkerSituation.OUTPUT, stream["passes"] == 0)
    strides = [stream[name] for name in ("row_stride", "batch0_stride", "batch1_stride")]
    saw(StreamWalkerSituation.SAME_AGAIN, all_counts and not any(strides))
    saw(StreamWalkerSituation.ONE, len(runs(stream)) == 1)


def runs(stream: dict[str, int]) -> list[Run]:
    """Return what a stream must fetch: the segments of each pass of each row; a constant row once."""
    listed = []
    rows = itertools.product(range(stream["batch1"]), range(stream["batch0"]), range(stream["rows"]))
    passes = 1 if stream["resident"] else max(stream["passes"], 1)
    for batch1, batch0, row in [(0, 0, 0)] if stream["constant"] else rows:
        place = stream["addr"] + batch1 * stream["batch1_stride"] + batch0 * stream["batch0_stride"]
        place += row * stream["row_stride"]
        for _ in range(passes):
            listed += [
                (place + segment * stream["seg_stride"], stream["seg_bytes"])
                for segment in range(stream["segs"])
            ]
    return listed


def few() -> int:
    """Draw a count, often 1."""
    return random.choice((1, 1, 2, random.randint(1, 6)))


def stride() -> int:
    """Draw a stride in bytes; 0 is the same place again."""
    return random.choice((0, 4 * random.randint(1, 5000)))


def draw() -> dict[str, int]:
    """Draw a stream; an output has no pass, which counts as one."""
    resident = random.getrandbits(1)
    return {
        "addr": random.randrange(1 << 28),
        "row_stride": stride(),
        "batch0_stride": stride(),
        "batch1_stride": stride(),
        "seg_stride": stride(),
        "seg_bytes": random.randint(1, 5000),
        "segs": few(),
        "passes": random.choice((0, 1, 2, 15)),
        "resident": resident,
        "constant": resident and int(random.random() < 0.3),
        "rows": few(),
        "batch0": few(),
        "batch1": few(),
    }


async def collect(dut: Any, chance: float, situations: Situations) -> tuple[list[Run], int]:
    """Take transfers until none is left; return the runs of bytes that they name, and their number."""
    taken: list[Run] = []
    count = 0
    while True:
        dut.desc_ready_i.value = int(random.random() < chance)
        await RisingEdge(dut.clk_i)
        if not dut.desc_valid_o.value:
            return taken, count
        situations.saw(StreamWalkerSituation.WAITED, not dut.desc_ready_i.value)
        if dut.desc_ready_i.value:
            count += 1
            transfer = Transfer.of(dut.desc_o)
            taken += [(start, transfer.row_bytes) for start in transfer.row_starts()]


async def begin(dut: Any, stream: dict[str, int]) -> None:
    """Start the walker on a stream."""
    for name in PORTS:
        getattr(dut, f"{name}_i").value = stream[name]
    set_stream(dut, **{name: value for name, value in stream.items() if name not in PORTS})
    dut.desc_ready_i.value = 0
    await pulse(dut, "start_i")
    await RisingEdge(dut.clk_i)


@cocotb.test()
async def random_streams(dut: Any) -> None:
    """The right runs in the right order; rows of one segment are one transfer a batch. An abort in any clock
    leaves no transfer."""
    await reset(dut)
    situations = Situations(StreamWalkerSituation)
    for _ in situations.rounds(400):
        aborted = random.random() < 0.3
        if aborted:
            await abort(dut, situations)
        stream = draw()
        await begin(dut, stream)
        taken, count = await collect(dut, random.choice((1.0, 0.5, 0.1)), situations)
        assert taken == runs(stream), stream
        once = stream["resident"] or stream["passes"] <= 1
        if stream["segs"] == 1 and once and not stream["constant"]:
            assert count == stream["batch0"] * stream["batch1"], stream
        note(situations, stream)
        situations.saw(StreamWalkerSituation.AGAIN, not aborted)


@cocotb.test()
async def far_rows(dut: Any) -> None:
    """Rows end where they shall and not earlier, whatever bit of their number is the highest or the first
    that differs."""
    await reset(dut)
    for bit in range(2, ROW_BITS):
        for rows in ((1 << bit) + 1, (1 << bit + 1) - 1):
            # No stride is zero: another row has another address.
            strides = {name: 4 * random.randint(1, 5000) for name in ("row_stride", "batch0_stride")}
            sizes = {"segs": 2, "passes": 1, "constant": 0, "rows": rows, "batch0": 2, "batch1": 1}
            stream = draw() | strides | sizes
            await begin(dut, stream)
            for lower in range(bit):
                await jump(dut, stream, rows - 1 - (1 << lower))
                dut.desc_ready_i.value = 1
                await RisingEdge(dut.clk_i)
                dut.desc_ready_i.value = 0
                await RisingEdge(dut.clk_i)
                assert Transfer.of(dut.desc_o).addr == place(stream, 0, rows - (1 << lower)), "another row"
            first = (1 << bit) - 2
            await jump(dut, stream, first)
            several = min(4, rows - 1 - first)  # without the last one, behind which the next batch begins
            expected = [place(stream, 0, row) for row in range(first, first + several)]
            expected += [place(stream, 0, rows - 2), place(stream, 0, rows - 1), place(stream, 1, 0)]
            found = await take(dut, several)
            await jump(dut, stream, rows - 2)
            found += await take(dut, 3)
            assert found == expected, f"{rows} rows"
            await cut(dut)


@cocotb.test()
async def many_merged_rows(dut: Any) -> None:
    """A transfer of all rows has their number, whatever bit is its highest."""
    await reset(dut)
    for bit in range(ROW_BITS):
        rows = (1 << bit) + random.randrange(1 << bit)
        await begin(dut, draw() | {"segs": 1, "passes": 1, "constant": 0, "rows": rows})
        assert Transfer.of(dut.desc_o).rows == rows
        await cut(dut)


def place(stream: dict[str, int], batch0: int, row: int) -> int:
    """Return the address of a row, of the bits that an address has."""
    return (stream["addr"] + batch0 * stream["batch0_stride"] + row * stream["row_stride"]) % (
        1 << ADDRESS_BITS
    )


async def jump(dut: Any, stream: dict[str, int], row: int) -> None:
    """Set the walker's state to that before the transfer of a row, counted from 0, of the first batch.

    A transfer that is offered must not change, so it is cut off before.
    """
    await cut(dut)
    dut.row_q.value, dut.addr_q.value, dut.valid_q.value = row + 1, place(stream, 0, row), 1
    await RisingEdge(dut.clk_i)


async def take(dut: Any, count: int) -> list[int]:
    """Take transfers; return their addresses."""
    found = []
    dut.desc_ready_i.value = 1
    for _ in range(count):
        await RisingEdge(dut.clk_i)
        assert dut.desc_valid_o.value
        found.append(Transfer.of(dut.desc_o).addr)
    dut.desc_ready_i.value = 0
    await RisingEdge(dut.clk_i)
    return found


async def cut(dut: Any) -> None:
    """Abort the walk."""
    await pulse(dut, "abort_i")
    await RisingEdge(dut.clk_i)
    assert not dut.desc_valid_o.value


async def abort(dut: Any, situations: Situations) -> None:
    """Abort in any clock of a walk, whatever else that clock brings: in the next one there is no transfer."""
    at_work = random.random() < 0.7
    dut.desc_ready_i.value = 0
    if at_work:
        await begin(dut, draw())
        for _ in range(random.choice((0, 1, random.randrange(20)))):
            dut.desc_ready_i.value = random.getrandbits(1)
            await RisingEdge(dut.clk_i)
    dut.desc_ready_i.value = random.getrandbits(1)
    dut.start_i.value = int(not at_work and random.random() < 0.5)
    dut.abort_i.value = 1
    await RisingEdge(dut.clk_i)
    valid, ready, start = (
        bool(getattr(dut, name).value) for name in ("desc_valid_o", "desc_ready_i", "start_i")
    )
    situations.saw(StreamWalkerSituation.ABORT_TAKEN, valid and ready)
    situations.saw(StreamWalkerSituation.ABORT_WAITING, valid and not ready)
    situations.saw(StreamWalkerSituation.ABORT_IDLE, not valid and not start)
    situations.saw(StreamWalkerSituation.ABORT_START, start)
    dut.abort_i.value = dut.desc_ready_i.value = dut.start_i.value = 0
    await RisingEdge(dut.clk_i)
    assert not dut.desc_valid_o.value, "a transfer outlives the abort"
