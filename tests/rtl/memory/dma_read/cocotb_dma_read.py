"""dma_read: random transfers from a memory with stalls, errors and latency; aborts."""

import random
from collections import deque
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout

from tb.blocks import parameter
from tests.rtl.stimulus import CHANCES, reset, take
from tests.rtl.transfers import Transfer, bytes_as_beats, check_burst, draw, submit, submit_all, until_idle

CONFIGURATIONS = [{"DataWidth": 64, "BufferBeats": 32}, {"DataWidth": 256, "BufferBeats": 128}]
BUS = parameter("DataWidth") // 8
BUFFER_BEATS = parameter("BufferBeats")
SPACE = 1 << 14
OKAY, SLVERR = 0, 2


class ReadMemory:
    """Serves the read channel: it accepts bursts and gives beats with a chance in each clock.

    Attributes: bad (beats that are answered with an error), refused (start of the burst, for each such beat),
    reported (by the channel), requested (beats).
    """

    def __init__(self, dut: Any) -> None:
        self.data = random.randbytes(SPACE + 4096)
        self.bad: set[int] = set()
        self.refused: list[int] = []
        self.reported: list[int] = []
        self.requested = 0
        self.accepting = self.answering = 1.0
        self._dut = dut
        self._beats: deque[tuple[int, int, bool]] = deque()  # address, start of the burst, whether the last
        cocotb.start_soon(self._run())

    async def _run(self) -> None:
        dut = self._dut
        while True:
            dut.ar_ready_i.value = int(random.random() < self.accepting)
            valid = bool(self._beats) and random.random() < self.answering
            dut.r_valid_i.value = int(valid)
            if valid:
                beat, start, last = self._beats.popleft()
                dut.r_data_i.value = int.from_bytes(self.data[beat : beat + BUS], "little")
                dut.r_resp_i.value = SLVERR if beat in self.bad else OKAY
                dut.r_last_i.value = int(last)
                if beat in self.bad:
                    self.refused.append(start)
            await RisingEdge(dut.clk_i)
            if dut.error_o.value:
                self.reported.append(int(dut.error_addr_o.value))
            if dut.ar_ready_i.value and dut.ar_valid_o.value:
                start, beats = int(dut.ar_addr_o.value), int(dut.ar_len_o.value) + 1
                check_burst(start, beats, BUS)
                self.requested += beats
                self._beats += [(start + i * BUS, start, i == beats - 1) for i in range(beats)]


async def begin(dut: Any) -> ReadMemory:
    """Reset, with a memory."""
    await reset(dut)
    return ReadMemory(dut)


def dense_beats(memory: ReadMemory, transfer: Transfer) -> list[tuple[int, int]]:
    """Return each row as beats from bit 0 on, the last one padded with zeros, with a mark of the last."""
    beats = []
    for start in transfer.row_starts():
        row = bytes_as_beats(memory.data[start : start + transfer.row_bytes], BUS)
        beats += [(beat, int(place == len(row))) for place, beat in enumerate(row, 1)]
    return beats


async def check(dut: Any, memory: ReadMemory, transfers: list[Transfer]) -> None:
    """Submit transfers as fast as the channel takes them; their data must come, and then it is idle."""
    expected = [beat for transfer in transfers for beat in dense_beats(memory, transfer)]
    memory.accepting, memory.answering = random.choice(CHANCES), random.choice(CHANCES)
    submitting = cocotb.start_soon(submit_all(dut, transfers))
    signals = ("data_o", "data_row_last_o")
    taking = take(dut, "data_valid_o", "data_ready_i", signals, len(expected), random.choice(CHANCES))
    taken = await with_timeout(cocotb.start_soon(taking), 1, "ms")
    await submitting
    assert taken == expected, transfers
    await RisingEdge(dut.clk_i)
    assert dut.idle_o.value
    assert not dut.data_valid_o.value


@cocotb.test()
async def random_transfers(dut: Any) -> None:
    """Rows of every alignment, with and without gaps, across pages, one transfer after another."""
    memory = await begin(dut)
    for _ in range(40):
        await check(dut, memory, [draw(SPACE, BUS) for _ in range(random.randint(1, 5))])
    assert not memory.reported


@cocotb.test()
async def errors(dut: Any) -> None:
    """Every beat that memory refuses is reported, with the start of its burst."""
    memory = await begin(dut)
    memory.bad = {beat for beat in range(0, SPACE, BUS) if random.random() < 0.05}
    for _ in range(30):
        await check(dut, memory, [draw(SPACE, BUS)])
    assert memory.refused
    assert memory.reported == memory.refused


@cocotb.test()
async def room(dut: Any) -> None:
    """While nobody takes the data, the channel requests no more than its buffer holds; then all data comes.

    A short row before the long one lets the last burst begin at any fill level.
    """
    memory = await begin(dut)
    for short in range(6):
        transfers = [Transfer(0, short * BUS, 1, 0)] * bool(short) + [Transfer(0, SPACE, 1, 0)]
        memory.requested = 0
        await submit_all(dut, transfers)
        await ClockCycles(dut.clk_i, 8 * BUFFER_BEATS)
        assert BUFFER_BEATS // 2 <= memory.requested <= BUFFER_BEATS + 2  # beats in alignment have left it
        expected = [beat for transfer in transfers for beat in dense_beats(memory, transfer)]
        taking = take(dut, "data_valid_o", "data_ready_i", ("data_o", "data_row_last_o"), len(expected), 1.0)
        assert await with_timeout(cocotb.start_soon(taking), 1, "ms") == expected


@cocotb.test()
async def abort(dut: Any) -> None:
    """An abort at any moment: data on its way is dropped, the channel becomes idle and goes on working."""
    memory = await begin(dut)
    for _ in range(40):
        memory.accepting, memory.answering = random.choice(CHANCES), random.choice(CHANCES)
        await submit(dut, Transfer(random.randrange(100), 3000, 4, 3072))
        dut.data_ready_i.value = random.getrandbits(1)
        await ClockCycles(dut.clk_i, random.randrange(60))
        dut.abort_i.value = 1
        await RisingEdge(dut.clk_i)
        await until_idle(dut, 2000)
        dut.abort_i.value = dut.data_ready_i.value = 0
        await check(dut, memory, [draw(SPACE, BUS)])
