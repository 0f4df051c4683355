"""burst_splitter: the beats of random transfers, each once and in order, in legal bursts."""

import random
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge, with_timeout

from tb.blocks import parameter
from tests.rtl.situations import Situations
from tests.rtl.stimulus import CHANCES, pulse, reset
from tests.rtl.transfers import MAX_BURST, PAGE, Transfer, beats_of, begin_of, check_burst, draw, submit

CONFIGURATIONS = [{"DataWidth": 64}, {"DataWidth": 256}]
BUS = parameter("DataWidth") // 8
SPACE = 1 << 15


class BurstSplitterSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    LONGEST = "a burst of the most beats"
    PAGE_END = "a burst that a page ends"
    PAGE_ONLY = "a burst of one beat that a page ends"
    ROW_END = "a burst that a row ends in the midst of a beat"
    UNALIGNED = "a row that begins in the midst of a beat"
    SHORT = "a row within a beat"
    TWO_BEATS = "a row of no more bytes than a beat has, in two beats"
    SHARED = "two rows with bytes in one beat"
    MANY = "several rows of several bursts"
    WAITED = "a burst that waits to be taken"
    BEHIND = "a transfer that is offered while another one is at work"
    ABORT_IDLE = "an abort without a transfer"
    ABORT_OFFERED = "an abort in the clock in which a transfer is offered"
    ABORT_TAKEN = "an abort in the clock in which a burst is taken"


def note(situations: Situations, transfer: Transfer, bursts: list[tuple[int, int]]) -> None:
    """Count the situations of a transfer and its bursts (address and beats)."""
    saw, starts = situations.saw, transfer.row_starts()
    for address, beats in bursts:
        saw(BurstSplitterSituation.LONGEST, beats == MAX_BURST)
        end = address + beats * BUS
        at_page = end % PAGE == 0 and not any(
            end - BUS < start + transfer.row_bytes <= end for start in starts
        )
        saw(BurstSplitterSituation.PAGE_END, at_page and 1 < beats < MAX_BURST)
        saw(BurstSplitterSituation.PAGE_ONLY, at_page and beats == 1)
    for start, following in zip(starts, (*starts[1:], None), strict=True):
        first, last = start // BUS, (start + transfer.row_bytes - 1) // BUS
        saw(BurstSplitterSituation.ROW_END, (start + transfer.row_bytes) % BUS)
        saw(BurstSplitterSituation.UNALIGNED, start % BUS)
        saw(BurstSplitterSituation.SHORT, first == last and transfer.row_bytes < BUS)
        saw(BurstSplitterSituation.TWO_BEATS, first != last and transfer.row_bytes <= BUS)
        saw(BurstSplitterSituation.SHARED, following is not None and following // BUS == last)
    saw(BurstSplitterSituation.MANY, transfer.rows > 1 and len(bursts) > 2 * transfer.rows)


async def collect(dut: Any, count: int, chance: float, situations: Situations) -> list[tuple[int, int]]:
    """Take bursts until they hold `count` beats; return address and beats of each."""
    bursts: list[tuple[int, int]] = []
    while sum(beats for _, beats in bursts) < count:
        dut.burst_ready_i.value = int(random.random() < chance)
        await RisingEdge(dut.clk_i)
        situations.saw(BurstSplitterSituation.WAITED, dut.burst_valid_o.value and not dut.burst_ready_i.value)
        if dut.burst_ready_i.value and dut.burst_valid_o.value:
            addr, length = int(dut.burst_addr_o.value), int(dut.burst_len_o.value) + 1
            check_burst(addr, length, BUS)
            bursts.append((addr, length))
    dut.burst_ready_i.value = 0
    return bursts


async def check(dut: Any, transfers: list[Transfer], situations: Situations) -> None:
    """Submit transfers one behind the other; their beats must come in order, and nothing after them."""
    for transfer in transfers:
        await submit(dut, transfer)
        expected = beats_of(transfer, BUS)
        collecting = collect(dut, len(expected), random.choice(CHANCES), situations)
        following = transfers[-1] is not transfer and random.random() < 0.5
        if following:  # it must not be taken yet
            dut.desc_valid_i.value, dut.desc_i.value = 1, transfers[-1].bits
        taken = await with_timeout(cocotb.start_soon(collecting), 1, "ms")
        dut.desc_valid_i.value = 0
        situations.saw(BurstSplitterSituation.BEHIND, following)
        beats = [address + i * BUS for address, length in taken for i in range(length)]
        assert beats == expected, transfer
        note(situations, transfer, taken)
        await RisingEdge(dut.clk_i)
        assert not dut.burst_valid_o.value, transfer
        assert dut.desc_ready_o.value, transfer


@cocotb.test()
async def random_transfers(dut: Any) -> None:
    """Rows of every alignment, with and without gaps, across pages; aborts in any clock, which leave
    nothing."""
    await reset(dut)
    situations = Situations(BurstSplitterSituation)
    for _ in situations.rounds(300):
        await check(dut, [draw(SPACE, BUS) for _ in range(random.randint(1, 2))], situations)
        if random.random() < 0.3:
            await abort(dut, situations)


@cocotb.test()
async def far_beyond_what_is_simulated(dut: Any) -> None:
    """Rows of a power of two of bytes and a few more, and as many short rows: their first bursts, which go
    on behind the few."""
    await reset(dut)
    for bit in range(8, 32):
        few = random.randint(MAX_BURST * BUS + 1, 4 * MAX_BURST * BUS)
        start = random.randrange(1 << 31)
        long = Transfer(start, (1 << bit) + few, 1, random.getrandbits(32))
        await check_begin(dut, long, few // BUS + 2 * MAX_BURST)
        rows = (1 << bit) + random.randint(1, 4)
        many = Transfer(random.randrange(1 << 20) * PAGE, random.randint(1, BUS), rows, PAGE)
        await check_begin(dut, many, 8)
    for bit in range(12, 19):  # to the begin of the second row
        second = Transfer(start, (1 << bit) + few, 2, 1 << 20)
        await check_begin(dut, second, second.row_bytes // BUS + 4 * MAX_BURST)


async def check_begin(dut: Any, transfer: Transfer, count: int) -> None:
    """Compare the first `count` beats of a transfer, or all if it has fewer, then abort it."""
    expected = beats_of(begin_of(transfer, count, (count + 1) * BUS), BUS)[:count]
    await submit(dut, transfer)
    taken = await with_timeout(
        cocotb.start_soon(collect(dut, len(expected), 1.0, Situations(BurstSplitterSituation))), 1, "ms"
    )
    beats = [address + i * BUS for address, length in taken for i in range(length)]
    assert beats[: len(expected)] == expected, transfer
    await pulse(dut, "abort_i")
    await RisingEdge(dut.clk_i)


async def abort(dut: Any, situations: Situations) -> None:
    """Abort in any clock of a transfer, whatever else that clock brings: in the next one there is none."""
    saw, at_work = situations.saw, random.random() < 0.8
    if at_work:
        await submit(dut, random.choice((draw(SPACE, BUS), Transfer(random.randrange(100), 1000, 4, 1024))))
        for _ in range(random.choice((0, 1, random.randrange(12)))):
            dut.burst_ready_i.value = random.getrandbits(1)
            await RisingEdge(dut.clk_i)
    dut.burst_ready_i.value, dut.desc_valid_i.value = random.getrandbits(1), random.getrandbits(1)
    dut.desc_i.value = draw(SPACE, BUS).bits
    dut.abort_i.value = 1
    await RisingEdge(dut.clk_i)
    busy = bool(dut.burst_valid_o.value)
    taken = busy and dut.burst_ready_i.value
    saw(BurstSplitterSituation.ABORT_IDLE, not at_work and not dut.desc_valid_i.value)
    saw(BurstSplitterSituation.ABORT_OFFERED, not busy and dut.desc_valid_i.value)
    saw(BurstSplitterSituation.ABORT_TAKEN, taken)
    dut.abort_i.value = dut.burst_ready_i.value = dut.desc_valid_i.value = 0
    await RisingEdge(dut.clk_i)
    assert not dut.burst_valid_o.value, "a burst outlives the abort"
    assert dut.desc_ready_o.value
