"""stream_walker: the bytes of its transfers, in order, for random streams."""

import itertools
import random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tests.rtl.stimulus import pulse, reset
from tests.rtl.streams import set_stream
from tests.rtl.transfers import Transfer

CONFIGURATIONS: list[dict[str, int]] = [{}]
Run = tuple[int, int]
"""Address and bytes."""

PORTS = ("resident", "constant", "rows", "batch0", "batch1")
"""The walker's inputs besides the stream."""


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


async def collect(dut: Any, chance: float) -> tuple[list[Run], int]:
    """Take transfers until none is left; return the runs of bytes that they name, and their number."""
    taken: list[Run] = []
    count = 0
    while True:
        dut.desc_ready_i.value = int(random.random() < chance)
        await RisingEdge(dut.clk_i)
        if not dut.desc_valid_o.value:
            return taken, count
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
    """The right runs in the right order; rows of one segment are one transfer a batch."""
    await reset(dut)
    for _ in range(500):
        stream = draw()
        await begin(dut, stream)
        taken, count = await collect(dut, random.choice((1.0, 0.5, 0.1)))
        assert taken == runs(stream), stream
        once = stream["resident"] or stream["passes"] <= 1
        if stream["segs"] == 1 and once and not stream["constant"]:
            assert count == stream["batch0"] * stream["batch1"], stream


@cocotb.test()
async def abort(dut: Any) -> None:
    """An abort ends the walk at once; the next one works."""
    await reset(dut)
    for _ in range(20):
        await begin(dut, {**draw(), "rows": 6, "segs": 2, "constant": 0})
        for _ in range(random.randrange(4)):
            dut.desc_ready_i.value = 1
            await RisingEdge(dut.clk_i)
        await pulse(dut, "abort_i")
        await RisingEdge(dut.clk_i)
        assert not dut.desc_valid_o.value
        stream = draw()
        await begin(dut, stream)
        assert (await collect(dut, 0.7))[0] == runs(stream), stream
