"""dma_write: random transfers, a memory with stalls and errors, aborts and resets in any clock."""

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
from tests.rtl.transfers import Transfer, bursts_of, bytes_as_beats, draw_anywhere, reset_in_traffic

CONFIGURATIONS = [
    {"DataWidth": 64, "BufferBeats": 32, "Bursts": 32},
    {"DataWidth": 256, "BufferBeats": 64, "Bursts": 32},
]
BUS, BUFFER_BEATS, BURSTS = parameter("DataWidth") // 8, parameter("BufferBeats"), parameter("Bursts")
ISSUED_AHEAD = 16
"""Bursts that are issued before the data of the first one is complete."""
OKAY, SLVERR, DECERR = 0, 2, 3


class DmaWriteSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    UNALIGNED = "a row that begins in the midst of a beat, over several beats"
    WITHIN = "a row with other bytes of its only beat on both sides"
    TAIL = "a row with one more beat in memory than at the input"
    OTHER_OFFSET = "a row with another alignment than the one before"
    SHARED = "two rows with bytes in one beat"
    WAITS_FOR_DATA = "a burst that waits for the rest of its data"
    BUFFER_FULL = "data that waits for room"
    ISSUED_FULL = "as many bursts issued as may wait for their data"
    BURSTS_FULL = "as many bursts under way as there may be"
    OVERTAKEN = "data of a transfer while bursts of the one before are to be issued"
    TRANSFER_WAITS = "a transfer that waits for the one before"
    ADDRESS_WAITS = "an address that waits to be taken"
    BEAT_WAITS = "write data that waits to be taken"
    RESPONSE_MISSING = "a channel that nothing but a response keeps from being idle"
    SLAVE_ERROR = "a burst with the response SLVERR"
    DECODE_ERROR = "a burst with the response DECERR"
    ABORT_IDLE = "an abort of an idle channel"
    ABORT_OFFERED = "an abort in the clock in which a transfer is offered"
    ABORT_ADDRESS = "an abort with a burst that could be issued"
    ABORT_INPUT = "an abort in the clock in which data is taken"
    ABORT_TAIL = "an abort in the clock of the beat that needs no data"
    ABORT_BEAT = "an abort in the clock in which write data is taken, not the last of its burst"
    ABORT_LAST = "an abort in the clock in which the last write data of a burst is taken"
    ABORT_BOTH = "an abort with data of issued bursts and behind it data that is dropped"
    ABORT_DROPPED = "an abort with data in the buffer and no burst issued"
    ABORT_RESPONSE = "an abort in the clock in which a response comes"
    ABORT_ERROR = "an error in an abort"
    RESET_INSIDE = "a reset with bursts under way and data in the buffer"
    RESET_OFFERED = "a reset in the clock in which a transfer is offered"


@dataclass(frozen=True)
class WrittenBeat:
    """A beat that the channel must write.

    Attributes: mask (the bits of data whose strobes are set; the others are any).
    """

    data: int
    mask: int
    strobes: int

    def matches(self, data: int, strobes: int) -> bool:
        """Compare with a beat at the port."""
        return strobes == self.strobes and data & self.mask == self.data


@dataclass
class RowLeft:
    """What of a row has yet to come in, and to be put into the buffer, in beats."""

    inputs: int
    outputs: int


class DmaWriteTestbench:
    """The ports, a memory, and a model that follows the channel clock by clock."""

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.transfers = HandshakeSource(dut, "desc_valid_i", "desc_ready_o", "desc_i")
        self.data = HandshakeSource(dut, "data_valid_i", "data_ready_o", "data_i")
        self.addresses = Ready(dut, "aw_valid_o", "aw_ready_i", ["aw_addr_o", "aw_len_o"])
        self.beats = Ready(dut, "w_valid_o", "w_ready_i", ["w_data_o", "w_strb_o", "w_last_o"])
        self.answering = 1.0
        self.failing = 0.0
        self.queued: deque[list[bytes]] = deque()  # rows of the transfers that are not taken
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.transfers.withdraw()
        self.queued.clear()
        self.issued: deque[list[WrittenBeat]] = deque()  # bursts whose data is not complete
        self.starts: deque[int] = deque()  # of the bursts without a response
        self.complete = 0  # bursts whose data is complete, without a response
        self.buffered = 0  # beats
        self.drop()

    def drop(self) -> None:
        """Begin as after an abort: only the issued bursts count."""
        self.data.withdraw()
        for rows in self.queued:
            self._queue_data(rows)
        self.rows: deque[RowLeft] = deque()  # of the transfer whose data is taken
        self.next_bursts: list[tuple[int, int]] = []  # of a transfer behind the one whose bursts are issued
        self.bursts: deque[tuple[int, int]] = deque()
        self.written: deque[WrittenBeat] = deque()  # beats of bursts that are not issued
        self.uncommitted = 0  # beats in the buffer for them

    @property
    def idle(self) -> bool:
        return not (self.rows or self.next_bursts or self.bursts or self.buffered or self.starts)

    @property
    def has_room(self) -> bool:
        return self.buffered < BUFFER_BEATS

    def could_issue(self) -> bool:
        """Whether the next burst has all its data, and there is room for it."""
        ready = bool(self.bursts) and self.uncommitted >= self.bursts[0][1]
        return ready and len(self.issued) < ISSUED_AHEAD and len(self.starts) < BURSTS

    async def clock(self, *, abort: bool = False, in_reset: bool = False) -> None:
        """Do one clock: choose inputs, then judge the channel."""
        dut, saw = self.dut, self.situations.saw
        dut.abort_i.value, dut.rst_ni.value = int(abort), int(not in_reset)
        for side in (self.transfers, self.data, self.addresses, self.beats):
            side.drive()
        answer = self.complete > 0 and random.random() < self.answering
        failed = answer and random.random() < self.failing
        resp = random.choice((SLVERR, DECERR)) if failed else OKAY if answer else random.getrandbits(2)
        dut.b_valid_i.value, dut.b_resp_i.value = int(answer), resp
        await RisingEdge(dut.clk_i)
        if in_reset:
            saw(DmaWriteSituation.RESET_INSIDE, self.issued and self.uncommitted)
            saw(DmaWriteSituation.RESET_OFFERED, dut.desc_valid_i.value and dut.desc_ready_o.value)
            self.forget()
            return
        assert bool(dut.error_o.value) == failed
        if failed:
            assert int(dut.error_addr_o.value) == self.starts[0]
        saw(DmaWriteSituation.SLAVE_ERROR, failed and resp == SLVERR)
        saw(DmaWriteSituation.DECODE_ERROR, failed and resp == DECERR)
        self._look(abort=abort)
        if abort:
            self._note_abort(answer=answer, failed=failed)
        self._follow(answer=answer, abort=abort)

    def _look(self, *, abort: bool) -> None:
        """Compare the outputs of this clock."""
        dut, saw = self.dut, self.situations.saw
        assert bool(dut.idle_o.value) == self.idle
        assert bool(dut.desc_ready_o.value) == (not abort and not self.rows and not self.next_bursts)
        wants_data = bool(self.rows) and self.rows[0].inputs > 0
        assert bool(dut.data_ready_o.value) == (wants_data and self.has_room)
        assert bool(dut.aw_valid_o.value) == (self.could_issue() and not abort)
        if dut.aw_valid_o.value:
            assert (int(dut.aw_addr_o.value), int(dut.aw_len_o.value) + 1) == self.bursts[0]
        assert bool(dut.w_valid_o.value) == bool(self.issued)
        if self.issued:
            beat, last = self.issued[0][0], len(self.issued[0]) == 1
            assert beat.matches(int(dut.w_data_o.value), int(dut.w_strb_o.value))
            assert bool(dut.w_last_o.value) == last
        saw(DmaWriteSituation.WAITS_FOR_DATA, self.bursts and 0 < self.uncommitted < self.bursts[0][1])
        saw(DmaWriteSituation.BUFFER_FULL, wants_data and not self.has_room and dut.data_valid_i.value)
        saw(DmaWriteSituation.ISSUED_FULL, self.bursts and len(self.issued) == ISSUED_AHEAD)
        saw(DmaWriteSituation.BURSTS_FULL, self.bursts and len(self.starts) == BURSTS)
        saw(DmaWriteSituation.OVERTAKEN, wants_data and self.next_bursts and dut.data_valid_i.value)
        saw(
            DmaWriteSituation.TRANSFER_WAITS,
            dut.desc_valid_i.value and not dut.desc_ready_o.value and not abort,
        )
        saw(DmaWriteSituation.ADDRESS_WAITS, dut.aw_valid_o.value and not dut.aw_ready_i.value)
        saw(DmaWriteSituation.BEAT_WAITS, self.issued and not dut.w_ready_i.value)
        saw(
            DmaWriteSituation.RESPONSE_MISSING,
            self.starts and not (self.rows or self.bursts or self.buffered),
        )

    def _note_abort(self, *, answer: bool, failed: bool) -> None:
        """Count what this clock of an abort meets."""
        dut, saw = self.dut, self.situations.saw
        taken = bool(self.issued) and bool(dut.w_ready_i.value)
        taking = bool(dut.data_ready_o.value) and bool(dut.data_valid_i.value)
        tail = bool(self.rows) and not self.rows[0].inputs
        saw(DmaWriteSituation.ABORT_IDLE, self.idle)
        saw(DmaWriteSituation.ABORT_OFFERED, dut.desc_valid_i.value)
        saw(DmaWriteSituation.ABORT_ADDRESS, self.could_issue())
        saw(DmaWriteSituation.ABORT_INPUT, taking)
        saw(DmaWriteSituation.ABORT_TAIL, tail and self.has_room)
        saw(DmaWriteSituation.ABORT_BEAT, taken and len(self.issued[0]) > 1)
        saw(DmaWriteSituation.ABORT_LAST, taken and len(self.issued[0]) == 1)
        saw(DmaWriteSituation.ABORT_BOTH, self.issued and self.uncommitted)
        saw(DmaWriteSituation.ABORT_DROPPED, self.uncommitted and not self.issued)
        saw(DmaWriteSituation.ABORT_RESPONSE, answer)
        saw(DmaWriteSituation.ABORT_ERROR, failed)

    def _follow(self, *, answer: bool, abort: bool) -> None:
        """Follow what this clock has done."""
        quiet = not self.issued
        if answer:
            self.complete -= 1
            self.starts.popleft()
        had_room, splitting = self.has_room, bool(self.bursts)
        if self.beats.took() is not None:
            self.buffered -= 1
            self.issued[0].pop(0)
            if not self.issued[0]:
                self.issued.popleft()
                self.complete += 1
        if self.addresses.took() is not None:
            start, count = self.bursts.popleft()
            self.issued.append([self.written.popleft() for _ in range(count)])
            self.starts.append(start)
            self.uncommitted -= count
        took = self.data.taken() is not None
        if abort:
            self.drop()
            self.buffered = 0 if quiet else self.buffered
            return
        if self.rows and had_room and (took or not self.rows[0].inputs):
            self.buffered += 1
            self.uncommitted += 1
            self.rows[0].inputs -= took
            self.rows[0].outputs -= 1
            if not self.rows[0].outputs:
                self.rows.popleft()
        if self.next_bursts and not splitting:
            self.bursts.extend(self.next_bursts)
            self.next_bursts = []
        if (taken := self.transfers.taken()) is not None:
            self._expect(Transfer.from_bits(taken), self.queued.popleft())

    def _expect(self, transfer: Transfer, rows: list[bytes]) -> None:
        """Plan the bursts and the beats of a transfer."""
        saw, before = self.situations.saw, None
        for start, row in zip(transfer.row_starts(), rows, strict=True):
            bursts, offset = bursts_of(start, len(row), BUS), start % BUS
            self.next_bursts += bursts
            placed = bytes_as_beats(bytes(offset) + row, BUS)
            end = start + len(row)
            for place, data in zip(range(start - offset, end, BUS), placed, strict=True):
                low, high = max(start - place, 0), min(end - place, BUS)
                strobes, mask = (1 << high) - (1 << low), (1 << 8 * high) - (1 << 8 * low)
                self.written.append(WrittenBeat(data, mask, strobes))
            inputs = -(-len(row) // BUS)
            self.rows.append(RowLeft(inputs, len(placed)))
            saw(DmaWriteSituation.UNALIGNED, offset and len(placed) > 1)
            saw(DmaWriteSituation.WITHIN, offset and offset + len(row) < BUS)
            saw(DmaWriteSituation.TAIL, len(placed) > inputs)
            saw(DmaWriteSituation.OTHER_OFFSET, before is not None and before % BUS != offset)
            saw(
                DmaWriteSituation.SHARED,
                before is not None and (before + len(row) - 1) // BUS == start // BUS,
            )
            before = start

    def _queue_data(self, rows: list[bytes]) -> None:
        """Queue rows with noise behind their ends."""
        for row in rows:
            self.data.values += bytes_as_beats(row + random.randbytes(-len(row) % BUS), BUS)

    def draw(self) -> None:
        """Queue transfers with their data, among them rows of single beats, which make many bursts."""
        while len(self.queued) < 4:
            transfer = draw_anywhere(BUS)
            if random.random() < 0.4:
                transfer = Transfer(
                    transfer.addr, random.choice((1, BUS, BUS)), random.randint(20, 60), 3 * BUS
                )
            rows = [random.randbytes(transfer.row_bytes) for _ in range(transfer.rows)]
            self.transfers.values.append(transfer.bits)
            self.queued.append(rows)
            self._queue_data(rows)

    async def end(self) -> None:
        """Let all transfers pass; the channel is then idle."""
        for side in (self.transfers, self.data, self.addresses, self.beats):
            side.chance = 1.0
        self.answering = 1.0
        await until(
            self.clock,
            lambda: self.idle and not self.transfers.values,
            lambda: (len(self.transfers.values), len(self.data.values), self.buffered, len(self.starts)),
            "it does not become idle",
        )

    async def abort(self) -> None:
        """Abort until the channel is idle, and possibly longer."""
        if random.random() < 0.5:
            self.transfers.withdraw()
            self.queued.clear()
        await self.clock(abort=True)
        while not self.idle:
            await self.clock(abort=True)
        for _ in range(random.choice((0, 0, 3))):
            await self.clock(abort=True)


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """Rows are written complete, in order, as soon as their data is there, and nothing beside them, whichever
    side waits."""
    await reset(dut)
    situations = Situations(DmaWriteSituation, least=10)
    testbench = DmaWriteTestbench(dut, situations)
    for _ in situations.rounds(700):
        vary(testbench.transfers, testbench.data, testbench.addresses, testbench.beats)
        testbench.answering = random.choice((*CHANCES, 0.02))
        testbench.failing = random.choice((0.0, 0.05, 0.3))
        testbench.draw()
        for _ in range(random.choice((3, 12, 40, 150))):
            await testbench.clock()
        end = random.random()
        if end < 0.15:
            await testbench.end()
        elif end < 0.7:
            await testbench.abort()
        elif end < 0.9:
            await reset_in_traffic(testbench)
    await testbench.end()
