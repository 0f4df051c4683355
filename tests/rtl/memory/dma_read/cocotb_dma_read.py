"""dma_read: random transfers, a memory with stalls and errors, aborts and resets in any clock."""

import random
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tb.blocks import parameter
from tests.rtl.handshakes import HandshakeSource, Ready, vary
from tests.rtl.progress import until
from tests.rtl.situations import Situations
from tests.rtl.stimulus import CHANCES, reset
from tests.rtl.transfers import (
    MAX_BURST,
    Transfer,
    begin_of,
    bursts_of,
    bytes_as_beats,
    draw_anywhere,
    reset_in_traffic,
    rows_as_one,
)

CONFIGURATIONS = [
    {"DataWidth": 64, "BufferBeats": 32, "Bursts": 8},
    {"DataWidth": 256, "BufferBeats": 128, "Bursts": 64},
]
BUS, BUFFER_BEATS, BURSTS = parameter("DataWidth") // 8, parameter("BufferBeats"), parameter("Bursts")
SPACE = 1 << 16
TRANSFERS_AHEAD = 4
"""Transfers that the channel accepts whatever it is at, once their bursts are issued."""
SLVERR, DECERR = 2, 3
FAR = 1000
"""Rows of a transfer and beats of a row that the model plans: more than any test goes through."""


class DmaReadSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    AS_ONE = "dense rows with a burst that holds the end of one and the start of another"
    UNALIGNED = "a row that begins in the midst of a beat, over several beats"
    WITHIN = "a row that begins in the midst of a beat and ends in it"
    TAIL = "a row whose last beat needs no further data from memory"
    PADDED = "zeros behind the end of a row"
    OTHER_OFFSET = "a row with another alignment than the one before"
    WAITS_FOR_ROOM = "a burst that waits for room"
    FULL = "as many beats requested as fit"
    BURSTS_FULL = "as many bursts under way as there may be"
    TRANSFERS_FULL = "a transfer that waits for those whose bursts are issued"
    REQUEST_WAITS = "a request that waits to be taken"
    DATA_WAITS = "data that waits to be taken"
    SLAVE_ERROR = "a beat with the response SLVERR"
    DECODE_ERROR = "a beat with the response DECERR"
    ABORT_IDLE = "an abort of an idle channel"
    ABORT_OFFERED = "an abort in the clock in which a transfer is offered"
    ABORT_REQUEST_WAITS = "an abort with a request that waits"
    ABORT_REQUEST_TAKEN = "an abort in the clock in which a request is taken"
    ABORT_DATA_WAITS = "an abort with data that waits"
    ABORT_DATA_TAKEN = "an abort in the clock in which data is taken"
    ABORT_BEAT = "an abort in the clock in which a beat comes"
    ABORT_ERROR = "an error in an abort"
    ABORT_LATE = "a beat that comes in a later clock of an abort"
    ABORT_MIDWAY = "an abort between the beats of a row, nothing of it at hand"
    RESET_INSIDE = "a reset with requests and data inside"
    RESET_OFFERED = "a reset in the clock in which a transfer is offered"


@dataclass(frozen=True)
class Dense:
    """A beat that the channel must give.

    Attributes: needed (beats of memory that must have come), delay (clocks that alignment may take), early (a
    beat may leave the buffer before it), transfer_last (nothing of the transfer follows).
    """

    data: int
    row_last: bool
    needed: int
    delay: int
    early: bool
    transfer_last: bool


class DmaReadTestbench:
    """The ports, a memory, and a model that follows the channel clock by clock."""

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.transfers = HandshakeSource(dut, "desc_valid_i", "desc_ready_o", "desc_i")
        self.requests = Ready(dut, "ar_valid_o", "ar_ready_i", ["ar_addr_o", "ar_len_o"])
        self.sink = Ready(dut, "data_valid_o", "data_ready_i", ["data_o", "data_row_last_o"])
        self.memory = random.randbytes(SPACE)
        self.answering = 1.0
        self.failing = 0.0
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.transfers.withdraw()
        self.way: deque[tuple[int, int, bool]] = deque()  # address, start of the burst, whether the last
        self.under_way = 0  # bursts
        self.drop()

    def drop(self) -> None:
        """Begin as after an abort: only what is under way counts."""
        self.bursts: deque[tuple[int, int]] = deque()  # to be requested: address and beats
        self.dense: deque[Dense] = deque()
        self.inside = 0  # transfers
        self.requested = self.arrived = self.taken = self.planned = 0  # beats
        self.late = 0  # clocks for which the next dense beat could have been there

    @property
    def idle(self) -> bool:
        return not (self.bursts or self.dense or self.way)

    async def clock(self, *, abort: bool = False, in_reset: bool = False) -> None:
        """Do one clock: choose inputs, then judge the channel."""
        dut = self.dut
        dut.abort_i.value, dut.rst_ni.value = int(abort), int(not in_reset)
        self.transfers.drive()
        self.requests.drive()
        self.sink.drive()
        comes = bool(self.way) and random.random() < self.answering
        address, start, last = self.way[0] if comes else (0, 0, random.getrandbits(1))
        data = self._bytes(address, BUS) if comes else random.randbytes(BUS)
        failed = comes and random.random() < self.failing
        resp = random.choice((SLVERR, DECERR)) if failed else 0 if comes else random.getrandbits(2)
        dut.r_valid_i.value, dut.r_last_i.value, dut.r_resp_i.value = int(comes), int(last), resp
        dut.r_data_i.value = int.from_bytes(data, "little")
        await RisingEdge(dut.clk_i)
        saw = self.situations.saw
        if in_reset:
            saw(DmaReadSituation.RESET_INSIDE, self.way and self.dense and self.arrived > self.taken)
            saw(DmaReadSituation.RESET_OFFERED, dut.desc_valid_i.value and dut.desc_ready_o.value)
            self.forget()
            return
        assert bool(dut.error_o.value) == failed
        if failed:
            assert int(dut.error_addr_o.value) == start
        saw(DmaReadSituation.SLAVE_ERROR, failed and resp == SLVERR)
        saw(DmaReadSituation.DECODE_ERROR, failed and resp == DECERR)
        self._look(abort=abort)
        if abort:
            self._note_abort(comes=comes, failed=failed)
        self._follow(comes=comes, last=bool(last))
        if abort:
            self.drop()

    def _bytes(self, address: int, count: int) -> bytes:
        place = address % SPACE
        return (
            (self.memory[place:] + self.memory)[:count]
            if place + count > SPACE
            else (self.memory[place : place + count])
        )

    def _look(self, *, abort: bool) -> None:
        """Compare the outputs of this clock."""
        dut, saw = self.dut, self.situations.saw
        assert bool(dut.idle_o.value) == self.idle
        offered, ready = bool(dut.desc_valid_i.value), bool(dut.desc_ready_o.value)
        if abort:
            assert not ready, "it takes a transfer in an abort"
        elif not self.bursts and self.inside < TRANSFERS_AHEAD:
            assert ready, "it has nothing to request and takes no transfer"
        saw(DmaReadSituation.TRANSFERS_FULL, offered and not ready and not self.bursts and not abort)

        requested = bool(dut.ar_valid_o.value)
        early = bool(self.dense) and self.dense[0].early
        ahead = self.requested - self.taken
        if requested:
            burst = int(dut.ar_addr_o.value), int(dut.ar_len_o.value) + 1
            assert self.bursts, "a request that nobody wants"
            assert burst == self.bursts[0]
            assert ahead + burst[1] - early <= BUFFER_BEATS, "a burst without room for all of it"
            assert self.under_way < BURSTS
        elif self.bursts:
            full = self.under_way == BURSTS
            assert full or ahead > BUFFER_BEATS - MAX_BURST, "a burst waits although there is room"
            saw(DmaReadSituation.WAITS_FOR_ROOM, not full)
            saw(DmaReadSituation.BURSTS_FULL, full)
        saw(DmaReadSituation.FULL, ahead == BUFFER_BEATS)
        saw(DmaReadSituation.REQUEST_WAITS, requested and not dut.ar_ready_i.value)

        shown = bool(dut.data_valid_o.value)
        at_hand = bool(self.dense) and self.arrived >= self.dense[0].needed
        if shown:
            assert at_hand, "data that has not come"
            dense = self.dense[0]
            assert (int(dut.data_o.value), bool(dut.data_row_last_o.value)) == (dense.data, dense.row_last)
        elif at_hand:
            self.late += 1
            assert self.late <= self.dense[0].delay, "data is at hand and not given"
        saw(DmaReadSituation.DATA_WAITS, shown and not dut.data_ready_i.value)

    def _note_abort(self, *, comes: bool, failed: bool) -> None:
        """Count what this clock of an abort meets."""
        dut, saw = self.dut, self.situations.saw
        requested, taken = bool(dut.ar_valid_o.value), bool(dut.ar_ready_i.value)
        shown, used = bool(dut.data_valid_o.value), bool(dut.data_ready_i.value)
        saw(DmaReadSituation.ABORT_IDLE, self.idle)
        saw(DmaReadSituation.ABORT_OFFERED, dut.desc_valid_i.value)
        saw(DmaReadSituation.ABORT_REQUEST_WAITS, requested and not taken)
        saw(DmaReadSituation.ABORT_REQUEST_TAKEN, requested and taken)
        saw(DmaReadSituation.ABORT_DATA_WAITS, shown and not used)
        saw(DmaReadSituation.ABORT_DATA_TAKEN, shown and used)
        saw(DmaReadSituation.ABORT_BEAT, comes and self.dense)
        saw(DmaReadSituation.ABORT_ERROR, failed)
        saw(DmaReadSituation.ABORT_LATE, comes and not self.dense)
        saw(DmaReadSituation.ABORT_MIDWAY, self.way and self.arrived and self.arrived == self.taken)

    def _follow(self, *, comes: bool, last: bool) -> None:
        """Follow what this clock has done."""
        if comes:
            self.way.popleft()
            self.arrived += 1
            self.under_way -= last
        if (request := self.requests.took()) is not None:
            start, beats = self.bursts.popleft()
            assert request == (start, beats - 1)
            self.way += [(start + i * BUS, start, i == beats - 1) for i in range(beats)]
            self.requested += beats
            self.under_way += 1
        if self.sink.took() is not None:
            dense = self.dense.popleft()
            self.taken, self.late = dense.needed, 0
            self.inside -= dense.transfer_last
        if (taken := self.transfers.taken()) is not None:
            self._expect(begin_of(Transfer.from_bits(taken), FAR, FAR * BUS))

    def _expect(self, transfer: Transfer) -> None:
        """Plan the bursts and the data of the begin of a transfer."""
        saw = self.situations.saw
        whole = rows_as_one(transfer, BUS)
        for start in whole.row_starts():
            self.bursts += bursts_of(start, whole.row_bytes, BUS)
        self.inside += 1
        saw(DmaReadSituation.AS_ONE, whole.rows < transfer.rows and transfer.row_bytes % (MAX_BURST * BUS))
        before = None
        for row, start in enumerate(transfer.row_starts()):
            offset, count = start % BUS, transfer.row_bytes
            in_memory, beats = -(-(offset + count) // BUS), bytes_as_beats(self._bytes(start, count), BUS)
            crosses = bool(offset) and in_memory > 1
            for number, data in enumerate(beats, 1):
                needed = self.planned + (offset + min(number * BUS, count) - 1) // BUS + 1
                first, last = number == 1, number == len(beats)
                delay = (2 * (not row) + crosses) if first else 0
                ends = last and row == transfer.rows - 1
                self.dense.append(Dense(data, last, needed, delay, first and crosses, ends))
            self.planned += in_memory
            saw(DmaReadSituation.UNALIGNED, crosses)
            saw(DmaReadSituation.WITHIN, offset and not crosses)
            saw(DmaReadSituation.TAIL, crosses and in_memory == len(beats))
            saw(DmaReadSituation.PADDED, count % BUS)
            saw(DmaReadSituation.OTHER_OFFSET, before not in (None, offset))
            before = offset

    async def end(self) -> None:
        """Let all transfers pass; the channel is then idle."""
        for side in (self.transfers, self.requests, self.sink):
            side.chance = 1.0
        self.answering = 1.0
        await until(
            self.clock,
            lambda: self.idle and not self.transfers.values,
            lambda: (self.requested, self.arrived, self.taken),
            "it does not become idle",
        )

    async def abort(self) -> None:
        """Abort until the channel is idle, and possibly longer."""
        await self.clock(abort=True)
        while self.way:
            await self.clock(abort=True)
        for _ in range(random.choice((0, 0, 3))):
            await self.clock(abort=True)
        if random.random() < 0.5:
            self.transfers.withdraw()

    def draw(self) -> None:
        """Queue transfers, among them rows of single beats, which make many bursts, dense rows, and
        short transfers."""
        if random.random() < 0.2:
            short = (Transfer(random.randrange(SPACE), random.randint(1, BUS), 1, 0) for _ in range(10))
            self.transfers.values += [transfer.bits for transfer in short]
        for _ in range(random.randint(1, 6)):
            transfer, kind = draw_anywhere(BUS), random.random()
            if kind < 0.2:
                transfer = Transfer(transfer.addr, random.choice((1, BUS)), random.randint(20, 100), 3 * BUS)
            elif kind < 0.4:
                row_bytes = BUS * random.randint(1, 20)
                transfer = Transfer(transfer.addr // BUS * BUS, row_bytes, random.randint(2, 9), row_bytes)
            self.transfers.values.append(transfer.bits)


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """Rows come complete, in order and as soon as their data is there, whichever side waits; requests
    stop for lack of room alone."""
    await reset(dut)
    situations = Situations(DmaReadSituation, least=10)
    testbench = DmaReadTestbench(dut, situations)
    for _ in situations.rounds(600):
        vary(testbench.transfers, testbench.requests, testbench.sink)
        testbench.answering = random.choice(CHANCES)
        testbench.failing = random.choice((0.0, 0.05, 0.3))
        testbench.draw()
        for _ in range(random.choice((3, 30, 200))):
            await testbench.clock()
        end = random.random()
        if end < 0.2:
            await testbench.end()
        elif end < 0.6:
            await testbench.abort()
        elif end < 0.8:
            await reset_in_traffic(testbench)
    await testbench.end()


@cocotb.test()
async def far_beyond_what_is_simulated(dut: Any) -> None:
    """A power of two of rows and a few more, and rows of as many bytes: data goes on behind the few."""
    await reset(dut)
    testbench = DmaReadTestbench(dut, Situations(DmaReadSituation))
    for bit in range(8, 32):
        few = random.randint(1, 40)
        many = Transfer(random.getrandbits(20), random.randint(1, BUS), (1 << bit) + few, 3 * BUS)
        long = Transfer(random.getrandbits(20), (1 << bit) + few * BUS, 1, random.getrandbits(32))
        for transfer in (many, long):
            testbench.transfers.values.append(transfer.bits)
            while testbench.taken <= 2 * few and not (testbench.taken and testbench.idle):
                await testbench.clock()
            await testbench.abort()
            testbench.transfers.withdraw()
