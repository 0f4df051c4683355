"""ram_1r1w: random reads, and writes of some lanes of an entry or of all, against a list."""

import random
from typing import Any

import cocotb

from tb.blocks import parameter
from tests.rtl.memories import Beside, EntryWrite, random_accesses
from tests.rtl.stimulus import start_clock

CONFIGURATIONS = [
    {"Width": 128, "Depth": 32, "Lanes": 1, "PieceWidth": 128, "ReadFirst": 0, "WriteFirst": 0},
    {"Width": 32, "Depth": 16, "Lanes": 4, "PieceWidth": 8, "ReadFirst": 0, "WriteFirst": 0},
    {"Width": 15, "Depth": 13, "Lanes": 5, "PieceWidth": 3, "ReadFirst": 1, "WriteFirst": 0},
    {"Width": 48, "Depth": 16, "Lanes": 3, "PieceWidth": 4, "ReadFirst": 0, "WriteFirst": 0},
    {"Width": 16, "Depth": 8, "Lanes": 1, "PieceWidth": 16, "ReadFirst": 1, "WriteFirst": 0},
    {"Width": 24, "Depth": 8, "Lanes": 1, "PieceWidth": 24, "ReadFirst": 0, "WriteFirst": 1},
]
WIDTH, DEPTH, LANES = parameter("Width"), parameter("Depth"), parameter("Lanes")
PIECE = parameter("PieceWidth")
ALL_LANES = (1 << LANES) - 1
SHOWN = Beside.OLD if parameter("ReadFirst") else Beside.NEW if parameter("WriteFirst") else Beside.NEVER


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """A write changes its lanes and no others; a read shows the entry, and the output keeps it."""
    await start_clock(dut, "write_i")
    dut.rst_ni.value = 1
    some: set[int] = set()
    pieces = [((1 << PIECE) - 1) << place for place in range(0, WIDTH, PIECE)]
    masks = [sum(pieces[lane::LANES]) for lane in range(LANES)]

    def write(address: int, lanes: int = ALL_LANES) -> EntryWrite:
        mask = sum(masks[lane] for lane in range(LANES) if lanes >> lane & 1)
        return EntryWrite(address, random.getrandbits(WIDTH), mask)

    def draw() -> list[EntryWrite]:
        lanes = random.choice((ALL_LANES, random.randint(1, ALL_LANES)))
        some.add(lanes)
        return [write(random.randrange(DEPTH), lanes)]

    def drive(writes: list[EntryWrite]) -> None:
        # Inputs mean nothing without a write.
        shown = writes[0] if writes else write(random.randrange(DEPTH))
        lanes = sum(1 << lane for lane in range(LANES) if shown.mask & masks[lane])
        dut.write_i.value = lanes if writes else 0
        dut.write_addr_i.value, dut.write_data_i.value = shown.address, shown.data

    await random_accesses(dut, DEPTH, write, draw, drive, beside=SHOWN)
    assert some == set(range(1, ALL_LANES + 1)), "some sets of lanes were never written"
