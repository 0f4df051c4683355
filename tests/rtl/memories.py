"""Random accesses to on-chip memories with one write port and one registered read port."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from cocotb.triggers import RisingEdge

from tests.rtl.situations import Situations

ALL_BYTES = 0xF


class Accesses(Enum):
    """Relations between two accesses."""

    SAME_CLOCK = "a read of an entry in the clock of its write, which gives what it held before"
    NEXT_CLOCK = "a read of an entry one clock after its write"
    HELD = "data that stays while nothing is read"
    ENDS = "a read of the last entry after one of the first"


@dataclass(frozen=True)
class EntryWrite:
    """One entry that a clock writes.

    Attributes: data (the bytes of the entry), enabled (a bit for each byte of a 32-bit word).
    """

    address: int
    data: bytes
    enabled: int = ALL_BYTES

    def over(self, old: bytes) -> bytes:
        """Return the entry after the write."""
        both = zip(old, self.data, strict=True)
        return bytes(new if self.enabled >> i % 4 & 1 else was for i, (was, new) in enumerate(both))


async def random_accesses(
    dut: Any,
    depth: int,
    fill: Callable[[int], EntryWrite],
    draw: Callable[[], list[EntryWrite]],
    drive: Callable[[list[EntryWrite]], None],
    cycles: int = 6000,
) -> None:
    """Write every entry, then read and write at random.

    Args:
        fill: the write of a whole entry.
        draw: draws the writes of a clock, at most as many as the ports take.
        drive: sets the inputs of the write port.

    Raises: AssertionError.
    """
    situations = Situations(Accesses)
    contents: dict[int, bytes] = {}
    dut.read_i.value = 0
    for address in range(depth):
        whole = fill(address)
        drive([whole])
        await RisingEdge(dut.clk_i)
        contents[address] = whole.data
    expected: bytes | None = None
    before: list[int] = []
    last_read = -1
    for _ in situations.rounds(cycles):
        writes = draw() if random.random() < 0.6 else []
        drive(writes)
        written = [write.address for write in writes]
        near = [*written, *before, last_read, random.randrange(depth), 0, depth - 1]
        address = random.choice([place for place in near if place >= 0])
        read = random.random() < 0.7
        dut.read_i.value, dut.read_addr_i.value = int(read), address
        await RisingEdge(dut.clk_i)
        if expected is not None:
            shown = int(dut.read_data_o.value).to_bytes(len(expected), "little")
            assert shown == expected, f"entry {last_read}"
        situations.saw(Accesses.SAME_CLOCK, read and address in written)
        situations.saw(Accesses.NEXT_CLOCK, read and address in before)
        situations.saw(Accesses.HELD, not read and last_read in written)
        situations.saw(Accesses.ENDS, read and address == depth - 1 and last_read == 0)
        if read:
            expected, last_read = contents[address], address
        for write in writes:
            contents[write.address] = write.over(contents[write.address])
        before = written
