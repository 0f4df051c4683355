"""masked_memory: random reads, and writes to some bytes of an entry's words, against a list."""

import random
from typing import Any

import cocotb

from tb.blocks import parameter
from tests.rtl.memories import ALL_BYTES, EntryWrite, random_accesses
from tests.rtl.stimulus import start_clock

CONFIGURATIONS = [{"Words": 4, "Depth": 16}]
WORDS, DEPTH = parameter("Words"), parameter("Depth")


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """A write changes the same bytes of every word and no others; a read gives the old content."""
    await start_clock(dut, "write_i")
    partial: set[int] = set()

    def write(address: int, enabled: int = ALL_BYTES) -> EntryWrite:
        return EntryWrite(address, random.randbytes(4 * WORDS), enabled)

    def draw() -> list[EntryWrite]:
        drawn = write(random.randrange(DEPTH), random.choice((ALL_BYTES, random.randrange(ALL_BYTES + 1))))
        partial.add(drawn.enabled)
        return [drawn]

    def drive(writes: list[EntryWrite]) -> None:
        dut.write_i.value = len(writes)
        # Inputs mean nothing without a write.
        ports = writes[0] if writes else write(random.randrange(DEPTH))
        dut.write_addr_i.value, dut.write_bytes_i.value = ports.address, ports.enabled
        dut.write_data_i.value = int.from_bytes(ports.data, "little")

    await random_accesses(dut, DEPTH, write, draw, drive)
    assert partial == set(range(ALL_BYTES + 1)), "some sets of bytes were never written"
