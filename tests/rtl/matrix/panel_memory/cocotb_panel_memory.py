"""panel_memory: random reads, and writes of one entry or two neighbours, compared with a list."""

import random
from enum import Enum
from typing import Any

import cocotb

from tb.blocks import parameter
from tests.rtl.memories import EntryWrite, random_accesses
from tests.rtl.situations import Situations
from tests.rtl.stimulus import start_clock

CONFIGURATIONS = [{"Tile": 4, "AddrBits": 6}]
TILE, ADDRESS_BITS = parameter("Tile"), parameter("AddrBits")
DEPTH = 1 << ADDRESS_BITS
ALL_BYTES = 0xF


class PanelMemorySituation(Enum):
    """The writes that the module's header promises."""

    EVEN = "an entry of an even tile alone"
    ODD = "an entry of an odd tile alone"
    BOTH = "an entry of an even tile and its neighbour"
    SOME_BYTES = "some bytes of both"


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """A write changes its entries and no others, in both banks."""
    situations = Situations(PanelMemorySituation)
    await start_clock(dut, "write_i")
    dut.rst_ni.value = 1

    def write(address: int, enabled: int = ALL_BYTES) -> EntryWrite:
        word = sum(0xFF << 8 * byte for byte in range(4) if enabled >> byte & 1)
        return EntryWrite(address, random.getrandbits(32 * TILE), sum(word << 32 * i for i in range(TILE)))

    def draw() -> list[EntryWrite]:
        enabled = random.choice((ALL_BYTES, random.randrange(ALL_BYTES + 1)))
        first = write(random.randrange(DEPTH), enabled)
        odd = first.address // TILE % 2
        situations.saw(PanelMemorySituation.ODD, odd)
        if odd or random.random() < 0.5:
            situations.saw(PanelMemorySituation.EVEN, not odd)
            return [first]
        situations.saw(PanelMemorySituation.BOTH)
        situations.saw(PanelMemorySituation.SOME_BYTES, enabled != ALL_BYTES)
        return [first, write(first.address + TILE, enabled)]

    def drive(writes: list[EntryWrite]) -> None:
        dut.write_i.value = (1 << len(writes)) - 1
        # Inputs mean nothing without a write.
        shown = [*writes, *(write(random.randrange(DEPTH)) for _ in range(2 - len(writes)))]
        dut.write_addr_i.value = shown[0].address
        dut.write_bytes_i.value = sum(1 << byte for byte in range(4) if shown[0].mask >> 8 * byte & 1)
        for place, each in enumerate(shown):
            dut.write_data_i[place].value = each.data

    await random_accesses(dut, DEPTH, write, draw, drive)
    situations.check()
