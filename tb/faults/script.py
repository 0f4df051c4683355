"""Cases for the native player (board/cases.cpp): operations, and what the record of a case must hold."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from echo_sim.contract import CHANNELS, KNOBS, STATISTICS, CaseOperation
from tb.scoreboards.commands import STATE_REGISTERS

MAGIC: Final = 0x5341434E

CYCLE: Final = 255
"""Number of the statistic "cycle", the clock."""

WITHHELD: Final = ("write data", "responses", "read data")
"""What a hostile host may withhold or not accept, in the order of the bits of `Script.host`."""

STATE_NAMES: Final = ("STATUS", "ERROR_CODE", "ERROR_INDEX", "ERROR_ADDR", "ERROR_ADDR + 4", "RETIRED")
WAIT_CYCLES: Final = 300_000
"""Clocks after which a busy device hangs. Waiting for a missing extension takes 65536."""

EXACT: Final = 0xFFFF_FFFF
LARGEST: Final = (1 << 24) - 1
"""Words of the arguments of one operation: their count has 24 bits."""


def _bodies(places: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """Yield the arguments of as few operations as hold all places: an address, a count and bytes of each."""
    most = 4 * LARGEST - 8
    body = bytearray()
    for address, data in places:
        for first in range(0, max(len(data), 1), most):
            part = data[first : first + most]
            padding = b"\0" * (-len(part) % 4)
            if len(body) + len(part) + len(padding) > most:
                yield bytes(body)
                body.clear()
            body += struct.pack("<2I", address + first, len(part)) + part + padding
    yield bytes(body)


class Script:
    """Operations of a case or routine, with the expected values of the words that they record.

    Attributes:
        words: encoded operations for the runner.
        wanted: expected value, mask and name of each recorded word.
    """

    def __init__(self) -> None:
        self.words = bytearray()
        self.wanted: list[tuple[int, int, str]] = []

    def _put(self, operation: CaseOperation, *arguments: int) -> None:
        count = len(arguments)
        self.words += struct.pack(f"<{count + 1}I", operation | count << 8, *arguments)

    # --- the device ---

    def reset(self, cycles: int) -> None:
        """Hold rst_n low for `cycles` clocks (1 or more)."""
        self._put(CaseOperation.RESET, cycles)

    def power(self, seed: int) -> None:
        """Replace the device by one with random registers and memories, in reset."""
        self._put(CaseOperation.POWER, seed & EXACT)

    def run(self, cycles: int) -> None:
        """Run for `cycles` clocks."""
        self._put(CaseOperation.RUN, cycles)

    def wait(self, cycles: int = WAIT_CYCLES, *, poll: int = 256) -> None:
        """Wait until STATUS.state is not BUSY; after `cycles` clocks the case ends as a hang.

        The register is read at the interrupt, or every `poll` clocks.
        """
        self._put(CaseOperation.WAIT, cycles, poll)

    def write(self, *writes: tuple[int, int], late: int = 0) -> None:
        """Write registers back to back, each an (offset, value); two of the writes may be in flight.

        `late` is the clocks without an address before each one but the first.
        """
        words: list[int] = []
        for offset, value in writes:
            words += (offset | (late << 16 if words else 0), value)
        self._put(CaseOperation.WRITE, *words)

    def read(self, offsets: Sequence[int], wanted: Sequence[tuple[int, int, str]]) -> None:
        """Read registers back to back; `wanted` has (value, mask, name) of each. All must answer OKAY."""
        self._put(CaseOperation.READ, *offsets)
        for value, mask, name in wanted:
            self.wanted += [(value, mask, name), (0, EXACT, f"response of {name}")]

    def access(
        self,
        offset: int,
        value: int,
        strobes: int,
        response: int,
        *,
        skew: int = 0,
        read: int | None = None,
        data: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        """Write a register with byte strobes, and read one at the same time.

        Args:
            offset: register to write.
            strobes: one bit per byte.
            response: expected AXI response of the write.
            skew: clocks by which AWVALID, WVALID, BREADY and ARVALID are late, one byte each, lowest first.
            read: offset of the register to read; None for no read.
            data: expected (value, mask, response) of the read.
        """
        beside = EXACT if read is None else read
        self._put(CaseOperation.BOTH, offset, value, strobes, skew, beside)
        name = f"write of 0x{offset:04x}"
        at = "no read" if read is None else f"read of 0x{read:04x}"
        mask = 0 if read is None else EXACT
        self.wanted += [
            (response, EXACT, name),
            (data[0], data[1] & mask, at),
            (data[2], mask, f"response of the {at}"),
        ]

    def packet(self, slot: bytes) -> None:
        """Write 64 bytes to the command window and ring the doorbell."""
        self.words += struct.pack("<I", CaseOperation.PACKET | 16 << 8) + slot

    def sync_window(self) -> None:
        """Reread the command window, which something other than `packet` changed."""
        self._put(CaseOperation.SYNC_WINDOW)

    def state(self, values: Sequence[int], masks: Sequence[int] = (3, *[EXACT] * 5)) -> None:
        """Read STATE_REGISTERS and expect `values`; by default, queue level and fullness are ignored."""
        self.read(STATE_REGISTERS, list(zip(values, masks, STATE_NAMES, strict=True)))

    # --- the host's port ---

    def host(self, seed: int, withheld: Iterable[str]) -> None:
        """Start a host that randomly reads and writes its own area through s_axi until a reset.

        Args:
            withheld: names in WITHHELD that it stops doing after a while.
        """
        self._put(CaseOperation.HOST, seed & EXACT, sum(1 << WITHHELD.index(each) for each in withheld))

    def host_end(self) -> None:
        """Let the host finish its bursts; every answer and byte must be right."""
        self._put(CaseOperation.HOST_END)
        self.wanted.append((0, EXACT, "answers and bytes of the host that are wrong"))

    # --- memory ---

    def memory(self, address: int, data: bytes) -> None:
        """Write `data` to device memory; undone after the case."""
        for body in _bodies([(address, data)]):
            self.words += struct.pack("<I", CaseOperation.MEMORY | len(body) // 4 << 8) + body

    def allow(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Additionally permit the device to write to these [start, end)."""
        self._put(CaseOperation.ALLOW, *(word for pair in ranges for word in pair))

    def forbid(self) -> None:
        """Forbid all writes of the device."""
        self._put(CaseOperation.FORBID)

    def check(self, places: Iterable[tuple[int, bytes]], name: str, *, required: bool = True) -> None:
        """Compare memory. Records the number of differing bytes and the first one; with `required`, none may
        differ. What does not fit into one operation is recorded in several."""
        mask = EXACT if required else 0
        for body in _bodies(places):
            self.words += struct.pack("<I", CaseOperation.CHECK | len(body) // 4 << 8) + body
            self.wanted += [
                (0, mask, f"bytes that differ in {name}"),
                (0, mask, f"the first byte that differs in {name}"),
            ]

    # --- the memory model ---

    def knob(self, name: str, value: int) -> None:
        """Set a knob to its native value: probabilities in 1/65536, bandwidths in bytes * 65536."""
        self._put(CaseOperation.KNOB, tuple(KNOBS).index(name), value)

    def fail_burst(self, *, write: bool, burst: int, beat: int = 0, decode: bool = False) -> None:
        """Answer burst number `burst`, counted from now, with SLVERR or DECERR; for a read, at one beat."""
        self._put(CaseOperation.FAIL_BURST, int(write), burst, beat, 3 if decode else 2)

    def failed(self) -> None:
        """Record whether that burst has come, its start address and its ID."""
        self._put(CaseOperation.FAILED)
        self.wanted += [(0, 0, "burst has failed"), (0, 0, "its address"), (0, 0, "its ID")]

    def hold(self, channel: str, cycles: int) -> None:
        """Stall a channel for `cycles` clocks of traffic."""
        self._put(CaseOperation.HOLD, CHANNELS.index(channel), cycles)

    def clear_faults(self) -> None:
        """End all injected errors and stalls."""
        self._put(CaseOperation.CLEAR_FAULTS)

    def statistic(self, name: str) -> None:
        """Record one of STATISTICS, or the clock under the name "cycle"."""
        self._put(CaseOperation.STATISTIC, CYCLE if name == "cycle" else STATISTICS.index(name))
        self.wanted.append((0, 0, name))

    # --- control ---

    def call(self, number: int, routine: Script) -> None:
        """Execute `routine`, whose number is `number`."""
        self._put(CaseOperation.CALL, number)
        self.wanted += routine.wanted

    def insert(self, part: Script) -> None:
        """Append the operations of another script."""
        self.words += part.words
        self.wanted += part.wanted


def save(path: Path, routines: Sequence[Script], cases: Sequence[Script]) -> None:
    """Write the file that the runner reads."""
    parts = [bytes(each.words) for each in (*routines, *cases)]
    head = 3 + len(parts) + 1
    begins = np.cumsum([head, *(len(part) // 4 for part in parts)], dtype=np.uint32)
    with open(path, "wb") as file:
        file.write(struct.pack("<3I", MAGIC, len(routines), len(cases)))
        file.write(begins.astype("<u4").tobytes())
        file.writelines(parts)
