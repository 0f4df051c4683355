"""Random accesses to on-chip memories with one write port and one registered read port."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from cocotb.triggers import RisingEdge

from tests.rtl.situations import Situations


class Accesses(Enum):
    """Relations between two accesses."""

    SAME_ENTRY = "a read of an entry in the clock of its write, where that is allowed"
    SAME_CLOCK = "a read of one entry in the clock of a write of another one"
    NEXT_CLOCK = "a read of an entry one clock after its write"
    HELD = "data that stays while nothing is read"
    ENDS = "a read of the last entry after one of the first"


class Beside(Enum):
    """What a read shows of an entry that is written in its clock."""

    NEVER = "nobody reads such an entry"
    OLD = "what it held before"
    NEW = "what is written"


@dataclass(frozen=True)
class EntryWrite:
    """One entry that a clock writes.

    Attributes: data (the whole entry), mask (its bits that are written).
    """

    address: int
    data: int
    mask: int

    def over(self, old: int) -> int:
        """Return the entry after the write."""
        return old & ~self.mask | self.data & self.mask


async def random_accesses(
    dut: Any,
    depth: int,
    fill: Callable[[int], EntryWrite],
    draw: Callable[[], list[EntryWrite]],
    drive: Callable[[list[EntryWrite]], None],
    *,
    beside: Beside = Beside.NEVER,
    cycles: int = 6000,
) -> None:
    """Write every entry, then read and write at random.

    Args:
        fill: the write of a whole entry.
        draw: draws the writes of a clock, at most as many as the ports take.
        drive: sets the inputs of the write port.
        beside: what a read shows of an entry that is written in its clock.

    Raises: AssertionError.
    """
    situations = Situations(Accesses)
    contents: dict[int, int] = {}
    dut.read_i.value = 0
    for address in range(depth):
        whole = fill(address)
        drive([whole])
        await RisingEdge(dut.clk_i)
        contents[address] = whole.data
    expected: int | None = None
    before: list[int] = []
    last_read = -1
    for _ in situations.rounds(cycles):
        writes = draw() if random.random() < 0.6 else []
        drive(writes)
        written = [write.address for write in writes]
        near = [*written, *before, last_read, random.randrange(depth), 0, depth - 1]
        address = random.choice([place for place in near if place >= 0])
        read = random.random() < 0.7 and (beside != Beside.NEVER or address not in written)
        dut.read_i.value, dut.read_addr_i.value = int(read), address
        await RisingEdge(dut.clk_i)
        if expected is not None:
            assert int(dut.read_data_o.value) == expected, f"entry {last_read}"
        situations.saw(Accesses.SAME_ENTRY, beside == Beside.NEVER or (read and address in written))
        situations.saw(Accesses.SAME_CLOCK, read and written and address not in written)
        situations.saw(Accesses.NEXT_CLOCK, read and address in before)
        situations.saw(Accesses.HELD, not read and last_read in written)
        situations.saw(Accesses.ENDS, read and address == depth - 1 and last_read == 0)
        old = contents[address]
        for write in writes:
            contents[write.address] = write.over(contents[write.address])
        if read:
            expected, last_read = contents[address] if beside == Beside.NEW else old, address
        before = written
