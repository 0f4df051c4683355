"""tile_memory: random reads and writes against a list."""

import random
from typing import Any

import cocotb

from tb.blocks import parameter
from tests.rtl.memories import EntryWrite, random_accesses
from tests.rtl.stimulus import start_clock

CONFIGURATIONS = [{"Width": 128, "Depth": 32}]
WIDTH, DEPTH = parameter("Width"), parameter("Depth")


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """A read gives the entry's content before the clock's write, and the output keeps it."""
    await start_clock(dut, "write_i")

    def whole(address: int) -> EntryWrite:
        return EntryWrite(address, random.randbytes(WIDTH // 8))

    def drive(writes: list[EntryWrite]) -> None:
        dut.write_i.value = len(writes)
        # Inputs mean nothing without a write.
        write = writes[0] if writes else whole(random.randrange(DEPTH))
        dut.write_addr_i.value, dut.write_data_i.value = write.address, int.from_bytes(write.data, "little")

    await random_accesses(dut, DEPTH, whole, lambda: [whole(random.randrange(DEPTH))], drive)
