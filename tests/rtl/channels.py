"""The memory controller's channels as an engine sees them, for testbenches."""

import random
from collections import deque
from dataclasses import dataclass
from typing import Any

from tests.rtl.stimulus import InputPort
from tests.rtl.transfers import Transfer, bytes_as_beats

DEPTH = 4
"""Transfers that a read channel accepts ahead of their data."""

LATENCIES = (0, 0, 3, 40)
"""Clocks."""


@dataclass
class _Beat:
    data: int
    row_last: bool
    last: bool  # of its transfer
    wait: int  # clocks before it may come


class _Channel:
    """The ports of a channel: those of its transfers, and those of its data, which `data` names.

    Attributes: accepting (the chance in a clock).
    """

    def __init__(self, dut: Any, prefix: str, data: tuple[str, ...]) -> None:
        self._desc_valid, self._desc_ready, self._desc = (
            getattr(dut, f"{prefix}desc_{name}") for name in ("valid_o", "ready_i", "o")
        )
        self._valid, self._ready, self._data, *flags = (getattr(dut, prefix + name) for name in data)
        self._inputs = [InputPort(self._desc_ready)]
        self._flag: Any = flags[0] if flags else None
        self._bus = len(self._data) // 8
        self._accept = False
        self.accepting = 1.0

    def wanted(self) -> Transfer | None:
        """The transfer that was asked for, or announced, at the clock edge just passed."""
        return Transfer.of(self._desc) if self._desc_valid.value else None

    @property
    def accepted(self) -> bool:
        """Whether that transfer was accepted."""
        return self._accept


class ReadChannel(_Channel):
    """A read channel. Its data stays until it is taken.

    Attributes: bringing (the chance in a clock), owners (of the transfers that are not complete, the oldest
    first), asked (how many transfers were accepted since the last abort).
    """

    def __init__(self, dut: Any, prefix: str, depth: int = DEPTH, *, flagged: bool = True) -> None:
        """Args: flagged (the last beat of a row is marked)."""
        names: tuple[str, ...] = ("valid_i", "ready_o", "data_i", "row_last_i")
        if not prefix:
            names = ("data_valid_i", "data_ready_o", "data_i", "data_row_last_i")
        if not flagged:
            names = names[:3]
        super().__init__(dut, prefix, names)
        self._inputs += map(InputPort, (self._valid, self._data, *([self._flag] if flagged else [])))
        self._depth = depth
        self.bringing = 1.0
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.owners: deque[object] = deque()
        self.asked = 0
        self._beats: deque[_Beat] = deque()
        self._accept = self._offering = False
        for port in self._inputs:
            port.forget()

    def drive(self, *, abort: bool = False) -> None:
        """Choose the inputs of the coming clock edge."""
        self._accept = len(self.owners) < self._depth and not abort and random.random() < self.accepting
        if self._beats and self._beats[0].wait:
            self._beats[0].wait -= 1
        elif self._beats and not self._offering:
            self._offering = random.random() < self.bringing
        data, last = random.getrandbits(8 * self._bus), random.getrandbits(1)
        if self._offering:
            data, last = self._beats[0].data, int(self._beats[0].row_last)
        for port, value in zip(
            self._inputs, (int(self._accept), int(self._offering), data, last), strict=False
        ):
            port.drive(value)

    def took(self) -> bool:
        """Whether a beat was taken at the clock edge just passed."""
        if not (self._offering and self._ready.value):
            return False
        self._offering = False
        if self._beats.popleft().last:
            self.owners.popleft()
        return True

    def bring(self, owner: object, rows: list[bytes]) -> None:
        """Bring an accepted transfer's rows: each from its first byte, with zeros behind its last."""
        self.owners.append(owner)
        self.asked += 1
        for row in rows:
            beats = bytes_as_beats(row, self._bus)
            self._beats += [_Beat(beat, place == len(beats), False, 0) for place, beat in enumerate(beats, 1)]
        self._beats[-1].last = True
        self._beats[-sum(-(-len(row) // self._bus) for row in rows)].wait = random.choice(LATENCIES)


class WriteChannel(_Channel):
    """A write channel: one transfer at a time, idle when all of it is in memory.

    Attributes: taking (the chance in a clock), idle (as the input of the last clock edge).
    """

    def __init__(self, dut: Any, prefix: str, *, early: bool = False) -> None:
        """Args: early (data may be offered before its transfer)."""
        super().__init__(dut, prefix, ("valid_o", "ready_i", "data_o", "idle_i"))
        self._inputs += map(InputPort, (self._ready, self._flag))
        self._early = early
        self.taking = 1.0
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self._parts: deque[tuple[int, int]] = deque()  # address and bytes of each beat to come
        self._accept = self._take = False
        for port in self._inputs:
            port.forget()
        self._until_idle = 0
        self.idle = True

    @property
    def active(self) -> bool:
        """Whether data of a transfer has yet to come."""
        return bool(self._parts)

    def drive(self, *, abort: bool = False) -> None:
        """Choose the inputs of the coming clock edge."""
        self._accept = not self._parts and not abort and random.random() < self.accepting
        self._take = bool(self._parts) and not abort and random.random() < self.taking
        self._until_idle = max(0, self._until_idle - 1)
        self.idle = not self._parts and not self._until_idle
        for port, value in zip(self._inputs, (self._accept, self._take, self.idle), strict=True):
            port.drive(int(value))

    def follow(self) -> tuple[int, bytes] | None:
        """What was written at the clock edge just passed: the address and the bytes."""
        if self._valid.value and not self._early:
            assert self._parts, "data before its transfer"
        if not (self._take and self._valid.value):
            return None
        addr, count = self._parts.popleft()
        if not self._parts:
            self._until_idle = random.choice(LATENCIES)
        return addr, int(self._data.value).to_bytes(self._bus, "little")[:count]

    def expect(self, transfer: Transfer) -> None:
        """Take the data of an accepted transfer."""
        for start in transfer.row_starts():
            for at in range(0, transfer.row_bytes, self._bus):
                self._parts.append((start + at, min(self._bus, transfer.row_bytes - at)))
