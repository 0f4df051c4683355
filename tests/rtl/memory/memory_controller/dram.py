"""The memory behind the controller: it answers each ID in order and different IDs in any order, at any
pace."""

import random
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Any

OKAY, SLVERR, DECERR = 0, 2, 3


class AnswerOrder(Enum):
    """The order in which bursts are answered."""

    OLDEST_FIRST = "as they came"
    ANY_BURST = "bursts of different IDs in any order"
    ANY_BEAT = "likewise, and the beats of their data in turn"


@dataclass
class Read:
    """A burst whose data has yet to come."""

    axi_id: int
    left: int


@dataclass(frozen=True)
class Beat:
    """A beat of read data.

    Attributes: late (an older burst of another ID waits), cut (so does the rest of another burst that
    has begun).
    """

    axi_id: int
    data: int
    response: int
    last: bool
    late: bool
    cut: bool


@dataclass(frozen=True)
class WriteResponse:
    """A write response. Attributes: late (an older write of another ID waits)."""

    axi_id: int
    response: int
    late: bool


class BurstMemory:
    """Both directions of m_axi. Read data is random, so data of one client in another's place is noticed.

    Attributes: accept_ar, give_r, accept_aw, accept_w, give_b (chances in a clock), failing (the chance of an
    error response), order, beat and answer (given in the clock just passed).
    """

    def __init__(self, dut: Any, bus: int) -> None:
        self._dut, self._bus = dut, bus
        self.accept_ar = self.give_r = self.accept_aw = self.accept_w = self.give_b = 1.0
        self.failing = 0.0
        self.order = AnswerOrder.OLDEST_FIRST
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.beat: Beat | None = None
        self.answer: WriteResponse | None = None
        self._reads: list[Read] = []
        self._begun: list[Read] = []  # of these, whose first beat has come
        self._writes: list[int] = []  # IDs of the bursts that wait for their response
        self._addresses: deque[int] = deque()  # IDs of the bursts whose data is not complete
        self._ends = 0  # last beats of bursts whose address has not been taken

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return bool(self._reads or self._writes or self._addresses or self._ends)

    @property
    def early(self) -> bool:
        """Return whether a whole burst of data is here before its address."""
        return self._ends > 0

    def drive(self) -> None:
        """Choose the inputs of the coming clock edge."""
        dut = self._dut
        dut.m_axi_arready.value = int(random.random() < self.accept_ar)
        dut.m_axi_awready.value = int(random.random() < self.accept_aw)
        dut.m_axi_wready.value = int(random.random() < self.accept_w)
        self.beat = self._next_beat() if self._reads and random.random() < self.give_r else None
        self.answer = self._next_answer() if self._writes and random.random() < self.give_b else None
        dut.m_axi_rvalid.value, dut.m_axi_bvalid.value = self.beat is not None, self.answer is not None
        noise = random.getrandbits(8 * self._bus + 11)
        dut.m_axi_r.value = as_r(self.beat, self._bus) if self.beat else noise
        dut.m_axi_b.value = as_b(self.answer) if self.answer else random.getrandbits(10)

    def follow(self, read: int | None, write: int | None, last: bool) -> None:
        """Take what the device transferred at the last clock edge.

        Args:
            read, write: an address channel's value.
            last: whether a last beat of write data was taken.
        """
        if read is not None:
            self._reads.append(Read(read >> 48, (read >> 8 & 0xFF) + 1))
        if write is not None:
            self._addresses.append(write >> 48)
        self._ends += last
        while self._ends and self._addresses:
            self._ends -= 1
            self._writes.append(self._addresses.popleft())

    def _response(self) -> int:
        return random.choice((SLVERR, DECERR)) if random.random() < self.failing else OKAY

    def _first_of_each(self) -> list[Read]:
        firsts: dict[int, Read] = {}
        for read in self._reads:
            firsts.setdefault(read.axi_id, read)
        return list(firsts.values())

    def _next_beat(self) -> Beat:
        if self.order == AnswerOrder.OLDEST_FIRST:
            read = self._reads[0]
        elif self.order == AnswerOrder.ANY_BURST and self._begun:
            read = self._begun[0]
        else:
            read = random.choice(self._first_of_each())
        late = any(older.axi_id != read.axi_id for older in self._reads[: self._reads.index(read)])
        cut = any(other is not read for other in self._begun)
        read.left -= 1
        if not read.left:
            self._reads = [other for other in self._reads if other is not read]
        self._begun = [other for other in self._begun if other is not read] + [read] * bool(read.left)
        data = random.getrandbits(8 * self._bus)
        return Beat(read.axi_id, data, self._response(), not read.left, late, cut)

    def _next_answer(self) -> WriteResponse:
        axi_id = self._writes[0] if self.order == AnswerOrder.OLDEST_FIRST else random.choice(self._writes)
        place = self._writes.index(axi_id)
        late = place > 0
        del self._writes[place]
        return WriteResponse(axi_id, self._response(), late)


def as_r(beat: Beat, bus: int) -> int:
    """Return the value of the read data channel."""
    return ((beat.axi_id << 8 * bus | beat.data) << 2 | beat.response) << 1 | beat.last


def as_b(answer: WriteResponse) -> int:
    """Return the value of the response channel."""
    return answer.axi_id << 2 | answer.response
