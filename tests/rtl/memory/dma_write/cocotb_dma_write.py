"""dma_write: random transfers to a memory with stalls, errors and latency; aborts."""

import random
from collections import deque
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout

from tb.blocks import parameter
from tests.rtl.stimulus import CHANCES, offer, reset
from tests.rtl.transfers import Transfer, bytes_as_beats, check_burst, draw, submit, submit_all, until_idle

CONFIGURATIONS = [{"DataWidth": 64, "BufferBeats": 32}, {"DataWidth": 256, "BufferBeats": 64}]
BUS = parameter("DataWidth") // 8
SPACE = 1 << 14
OKAY, SLVERR = 0, 2


class WriteMemory:
    """Serves the write channels: it accepts bursts and beats and gives responses with a chance in each clock.

    Attributes: data (its bytes), touched (the written ones), failing (the chance that a burst is refused),
    refused (starts of such bursts), reported (by the channel).
    """

    def __init__(self, dut: Any) -> None:
        self.data = bytearray(random.randbytes(SPACE + 4096))
        self.touched: set[int] = set()
        self.failing = 0.0
        self.refused: list[int] = []
        self.reported: list[int] = []
        self.accepting = self.taking = self.answering = 1.0
        self._dut = dut
        self._bursts: deque[tuple[int, int]] = deque()  # address and beats, their data not complete
        self._beats: list[tuple[int, int]] = []  # data and strobes of the first of them
        self._written: deque[int] = deque()  # bursts that wait for their response
        cocotb.start_soon(self._run())

    @property
    def quiet(self) -> bool:
        """Return whether every burst has been answered."""
        return not self._bursts and not self._written

    async def _run(self) -> None:
        dut = self._dut
        while True:
            dut.aw_ready_i.value = int(random.random() < self.accepting)
            dut.w_ready_i.value = int(random.random() < self.taking)
            answer = bool(self._written) and random.random() < self.answering
            dut.b_valid_i.value = int(answer)
            if answer:
                start = self._written.popleft()
                bad = random.random() < self.failing
                dut.b_resp_i.value = SLVERR if bad else OKAY
                if bad:
                    self.refused.append(start)
            await RisingEdge(dut.clk_i)
            if dut.error_o.value:
                self.reported.append(int(dut.error_addr_o.value))
            self._take_beat()
            if dut.aw_ready_i.value and dut.aw_valid_o.value:
                start, beats = int(dut.aw_addr_o.value), int(dut.aw_len_o.value) + 1
                check_burst(start, beats, BUS)
                self._bursts.append((start, beats))

    def _take_beat(self) -> None:
        dut = self._dut
        assert not self._bursts or dut.w_valid_o.value, "a burst was issued and its data is not at hand"
        if not (dut.w_ready_i.value and dut.w_valid_o.value):
            return
        start, beats = self._bursts[0]
        self._beats.append((int(dut.w_data_o.value), int(dut.w_strb_o.value)))
        assert bool(dut.w_last_o.value) == (len(self._beats) == beats)
        if len(self._beats) == beats:
            for number, (data, strobes) in enumerate(self._beats):
                for lane in range(BUS):
                    if strobes >> lane & 1:
                        place = start + number * BUS + lane
                        self.data[place] = data >> 8 * lane & 0xFF
                        self.touched.add(place)
            self._beats.clear()
            self._bursts.popleft()
            self._written.append(start)


async def begin(dut: Any) -> WriteMemory:
    """Reset, with a memory."""
    await reset(dut)
    return WriteMemory(dut)


def places(transfer: Transfer) -> set[int]:
    """Return the addresses of a transfer's bytes."""
    return {start + i for start in transfer.row_starts() for i in range(transfer.row_bytes)}


async def check(dut: Any, memory: WriteMemory, transfers: list[Transfer]) -> None:
    """Write random rows; when the channel is idle they are in memory, and nothing else has changed."""
    expected, beats, touched = bytearray(memory.data), [], set()
    for transfer in transfers:
        touched |= places(transfer)
        for start in transfer.row_starts():
            row = random.randbytes(transfer.row_bytes)
            expected[start : start + len(row)] = row
            row += random.randbytes(-len(row) % BUS)
            beats += bytes_as_beats(row, BUS)

    memory.touched.clear()
    memory.accepting, memory.taking, memory.answering = (random.choice(CHANCES) for _ in range(3))
    submitting = cocotb.start_soon(submit_all(dut, transfers))
    sending = offer(dut, "data_valid_i", "data_ready_o", "data_i", beats, random.choice(CHANCES))
    await with_timeout(cocotb.start_soon(sending), 1, "ms")
    await submitting
    await until_idle(dut)
    assert memory.quiet, "idle before all was in memory"
    assert memory.data == expected, transfers
    assert memory.touched == touched, transfers


@cocotb.test()
async def random_transfers(dut: Any) -> None:
    """Rows of every alignment, with and without gaps, across pages, one transfer after another."""
    memory = await begin(dut)
    for _ in range(40):
        await check(dut, memory, [draw(SPACE, BUS) for _ in range(random.randint(1, 5))])
    assert not memory.reported


@cocotb.test()
async def errors(dut: Any) -> None:
    """Every burst that memory refuses is reported, with its start."""
    memory = await begin(dut)
    memory.failing = 0.2
    for _ in range(30):
        await check(dut, memory, [draw(SPACE, BUS)])
    assert memory.refused
    assert memory.reported == memory.refused


@cocotb.test()
async def whole_data_first(dut: Any) -> None:
    """A burst is issued only when all its data is there."""
    memory = await begin(dut)
    await submit(dut, Transfer(0, 16 * BUS, 1, 0))
    await offer(dut, "data_valid_i", "data_ready_o", "data_i", list(range(15)), 1.0)
    for _ in range(50):
        await RisingEdge(dut.clk_i)
        assert not dut.aw_valid_o.value
        assert not dut.idle_o.value
    await offer(dut, "data_valid_i", "data_ready_o", "data_i", [15], 1.0)
    await until_idle(dut)
    assert memory.data[: 16 * BUS] == b"".join(i.to_bytes(BUS, "little") for i in range(16))


@cocotb.test()
async def abort(dut: Any) -> None:
    """An abort at any moment: bursts under way are completed, the channel becomes idle and goes on working;
    nothing outside the transfer changes."""
    memory = await begin(dut)
    for _ in range(40):
        memory.accepting, memory.taking, memory.answering = (random.choice(CHANCES) for _ in range(3))
        memory.touched.clear()
        transfer = Transfer(random.randrange(100), 3000, 4, 3072)
        await submit(dut, transfer)
        for _ in range(random.randrange(150)):
            dut.data_valid_i.value, dut.data_i.value = random.getrandbits(1), random.getrandbits(8 * BUS)
            await RisingEdge(dut.clk_i)
        dut.data_valid_i.value, dut.abort_i.value = 0, 1
        await RisingEdge(dut.clk_i)
        await until_idle(dut)
        dut.abort_i.value = 0
        assert memory.quiet
        assert memory.touched <= places(transfer)
        await check(dut, memory, [draw(SPACE, BUS)])


@cocotb.test()
async def offered_in_reset(dut: Any) -> None:
    """A transfer that is offered in a reset, of one clock or more, is not taken."""
    memory = await begin(dut)
    for _ in range(10):
        dut.desc_i.value, dut.desc_valid_i.value, dut.rst_ni.value = draw(SPACE, BUS).bits, 1, 0
        await ClockCycles(dut.clk_i, random.choice((1, 1, 3)))
        dut.desc_valid_i.value, dut.rst_ni.value = 0, 1
        await ClockCycles(dut.clk_i, 2)
        assert dut.idle_o.value, "it works on a transfer after a reset"
        await check(dut, memory, [draw(SPACE, BUS)])
