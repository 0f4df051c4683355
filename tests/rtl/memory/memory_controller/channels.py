"""The clients of the DMA channels, each with a model of its channel's bursts, data and responses."""

import random
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tests.rtl.memory.memory_controller.dram import Beat
from tests.rtl.transfers import PAGE, Transfer, bursts_of, bytes_as_beats, draw, rows_as_one

SPACE = 1 << 14
HIGHEST = (1 << 32) // PAGE - SPACE // PAGE


def transfer_anywhere(bus: int) -> Transfer:
    """Draw a transfer anywhere in memory."""
    near = draw(SPACE, bus)
    page = random.choice((0, HIGHEST, random.randint(0, HIGHEST)))
    return Transfer(near.addr + page * PAGE, near.row_bytes, near.rows, near.stride)


@dataclass
class Asked:
    """A burst under way. Attributes: dropped (its data is no longer needed)."""

    start: int
    left: int
    dropped: bool


@dataclass
class ReadRow:
    """A row of a read: its data so far, and the beats for the client."""

    offset: int
    row_bytes: int
    beats: int
    brought: bytearray = field(default_factory=bytearray)
    made: int = 0


class Client(ABC):
    """Base of both kinds of clients: it offers transfers.

    Attributes: asking (the chance that a transfer is offered in a clock), moving (the chance that data is
    taken, or given), offered (the offered transfer).
    """

    def __init__(self, dut: Any, index: int, bus: int, prefix: str) -> None:
        self.index, self.bus = index, bus
        self.asking = self.moving = 1.0
        self.offered: Transfer | None = None
        self._desc = getattr(dut, f"{prefix}_desc_i")[index]

    def offer(self) -> bool:
        """Choose whether a transfer is offered; it stays until it is taken."""
        if self.offered is None:
            if random.random() < self.asking:
                self.prepare(transfer_anywhere(self.bus))
            else:
                self._desc.value = random.getrandbits(128)
        return self.offered is not None

    def prepare(self, transfer: Transfer) -> None:
        """Offer a transfer."""
        self.offered = transfer
        self._desc.value = transfer.bits

    @abstractmethod
    def forget(self) -> None:
        """Begin as after a reset."""

    @abstractmethod
    def abort(self) -> None:
        """Drop what an abort drops."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether something that was accepted is unfinished."""

    @property
    @abstractmethod
    def waits(self) -> bool:
        """Whether work waits for the client to move data."""


class ReadClient(Client):
    """A client of a read channel. Attributes: next (whether its errors are the younger command's)."""

    def __init__(self, dut: Any, index: int, bus: int) -> None:
        super().__init__(dut, index, bus, "rd")
        self.next = self.ready = False
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.offered = None
        self.to_ask: deque[tuple[int, int]] = deque()
        self.under_way: deque[Asked] = deque()
        self.rows: deque[ReadRow] = deque()
        # Beats that the client may be given: data, last of a row.
        self.owed: deque[tuple[int, bool]] = deque()
        self.aborted = False

    @property
    def busy(self) -> bool:
        """Whether something that was accepted is unfinished."""
        return bool(self.to_ask or self.under_way or self.rows or self.owed)

    @property
    def waits(self) -> bool:
        """Whether there is data that the client does not take."""
        return bool(self.owed)

    @property
    def held(self) -> int:
        """Return the requested beats that the client will still get."""
        return sum(burst.left for burst in self.under_way if not burst.dropped) + len(self.owed)

    def accept(self) -> bool:
        """Accept the offered transfer; return whether its rows are read as one."""
        transfer = self.offered
        assert transfer is not None
        self.offered = None
        one = rows_as_one(transfer, self.bus)
        for start in one.row_starts():
            self.to_ask += bursts_of(start, one.row_bytes, self.bus)
        for start in transfer.row_starts():
            offset = start % self.bus
            beats = -(-(offset + transfer.row_bytes) // self.bus)
            self.rows.append(ReadRow(offset, transfer.row_bytes, beats))
        return one.rows < transfer.rows

    def asked(self, start: int, beats: int) -> None:
        """Judge the burst that the channel requests."""
        assert self.to_ask, f"read channel {self.index} asks for 0x{start:x} and has nothing to read"
        assert (start, beats) == self.to_ask.popleft(), f"read channel {self.index}: not the next burst"
        self.under_way.append(Asked(start, beats, self.aborted))

    def settle_abort(self, aborting: bool) -> None:
        """End an abort: the request in its clock was the last one."""
        if self.aborted:
            self.to_ask.clear()
        self.aborted = aborting

    def shown(self, data: int, last: bool) -> bool:
        """Judge the beat that the channel offers; return whether the client takes it."""
        assert self.owed, f"read channel {self.index} gives data that memory has not brought"
        assert (data, last) == self.owed[0], f"read channel {self.index}: not the next beat"
        if self.ready:
            self.owed.popleft()
        return self.ready

    def bring(self, beat: Beat) -> int:
        """Memory has answered: return the start of the burst."""
        burst = self.under_way[0]
        burst.left -= 1
        assert beat.last == (burst.left == 0)
        if beat.last:
            self.under_way.popleft()
        if not burst.dropped:
            self._fill(beat.data)
        return burst.start

    def _fill(self, data: int) -> None:
        row, bus = self.rows[0], self.bus
        row.brought += data.to_bytes(bus, "little")
        there = len(row.brought) - row.offset
        while row.made * bus < row.row_bytes and min(row.row_bytes, (row.made + 1) * bus) <= there:
            first = row.made * bus
            end = min(row.row_bytes, first + bus)
            made = row.brought[row.offset + first : row.offset + end]
            self.owed.append((int.from_bytes(made, "little"), end == row.row_bytes))
            row.made += 1
        if len(row.brought) == row.beats * bus:
            self.rows.popleft()

    def abort(self) -> None:
        """Drop everything except data that memory has yet to bring."""
        self.offered = None
        self.rows.clear()
        self.owed.clear()
        for burst in self.under_way:
            burst.dropped = True


@dataclass(frozen=True)
class WriteBurst:
    """A burst to be written.

    Attributes: beats (strobes and data of each), needs (beats of the client's data,
    counted from the reset on, that must be there before it is issued).
    """

    start: int
    beats: tuple[tuple[int, int], ...]
    needs: int


class WriteClient(Client):
    """A client of a write channel."""

    def __init__(self, dut: Any, index: int, bus: int) -> None:
        super().__init__(dut, index, bus, "wr")
        self._data = dut.wr_data_i[index]
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.offered = None
        self.valid = False
        self.given = 0  # beats that the channel has taken
        self._prepared = 0  # all beats that there have been to take
        self._bursts: list[WriteBurst] = []  # of the offered transfer
        self._beats: deque[int] = deque()  # to be given
        self.to_issue: deque[WriteBurst] = deque()
        self.under_way: deque[int] = deque()  # starts of bursts without a response

    @property
    def busy(self) -> bool:
        """Whether something that was accepted is not in memory."""
        return bool(self.to_issue or self.under_way)

    @property
    def waits(self) -> bool:
        """Return whether a burst cannot be issued because its data does not come."""
        return bool(self.to_issue) and self.given < self.to_issue[0].needs

    def prepare(self, transfer: Transfer) -> None:
        """Offer a transfer; draw its data and derive the expected bursts."""
        super().prepare(transfer)
        bus = self.bus
        self._bursts = []
        for start in transfer.row_starts():
            row = random.randbytes(transfer.row_bytes)
            padded = row + random.randbytes(-len(row) % bus)
            self._beats += bytes_as_beats(padded, bus)
            for first, beats in bursts_of(start, len(row), bus):
                within = min(len(row), first + beats * bus - start)
                expected = [beat_of(row, start, first + i * bus, bus) for i in range(beats)]
                self._bursts.append(WriteBurst(first, tuple(expected), self._prepared + -(-within // bus)))
            self._prepared += len(padded) // bus

    def offer_data(self) -> bool:
        """Choose whether data is offered; it stays until it is taken."""
        if not self.valid:
            self.valid = bool(self._beats) and random.random() < self.moving
            self._data.value = self._beats[0] if self.valid else random.getrandbits(8 * self.bus)
        return self.valid

    def accept(self) -> None:
        """Accept the offered transfer."""
        self.offered = None
        self.to_issue += self._bursts
        self._bursts = []

    def give(self) -> None:
        """The channel has taken a beat."""
        self._beats.popleft()
        self.given += 1
        self.valid = False

    def issue(self, start: int, beats: int) -> WriteBurst:
        """The channel has issued a burst: return its expected data."""
        assert self.to_issue, f"write channel {self.index} writes at 0x{start:x} and has nothing to write"
        burst = self.to_issue.popleft()
        assert (start, beats) == (burst.start, len(burst.beats)), (
            f"write channel {self.index}: not the next burst"
        )
        assert self.given >= burst.needs, f"write channel {self.index} issues a burst without all its data"
        self.under_way.append(start)
        return burst

    def answered(self) -> int:
        """Memory has answered: return the start of the burst."""
        return self.under_way.popleft()

    def abort(self) -> None:
        """Drop everything for which no burst has been issued."""
        self.offered = None
        self.valid = False
        self._beats.clear()
        self._prepared = self.given
        self.to_issue.clear()


def beat_of(row: bytes, start: int, place: int, bus: int) -> tuple[int, int]:
    """Return strobes and data of the beat at `place` of a row that begins at `start`."""
    first, end = max(start, place), min(start + len(row), place + bus)
    strobes = (1 << end - place) - (1 << first - place)
    return strobes, int.from_bytes(row[first - start : end - start], "little") << 8 * (first - place)
