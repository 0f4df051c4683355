"""row_gatherer, clock by clock: gathers of any length, bad numbers, aborts and resets in any clock."""

import random
from dataclasses import dataclass
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tb.blocks import parameter
from tests.rtl.handshakes import HandshakeSource, Ready, vary
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset
from tests.rtl.transfers import Transfer

CONFIGURATIONS = [{"DataWidth": 64}, {"DataWidth": 256}]
PER_BEAT = parameter("DataWidth") // 32
WORD = (1 << 32) - 1
AHEAD = 40
"""Beats that are at hand."""


class GathererSituation(Enum):
    """What the module meets, as it can be seen at the ports."""

    THROUGH = "a row number taken in the clock in which a transfer is taken"
    WAITS = "a transfer that waits, with a row number behind it"
    LAST = "the last row number of a gather"
    LONG = "a transfer of a gather too long for any test"
    HIGH = "a row number of more than 24 bits"
    FAULT = "a bad row number"
    FAULT_TAKEN = "a bad row number in the clock in which a transfer is taken"
    ABORT_START = "an abort in the clock of a start"
    ABORT_WAITS = "an abort with a transfer that waits"
    ABORT_TAKEN = "an abort in the clock in which a transfer is taken"
    ABORT_NUMBER = "an abort in the clock in which a row number is taken"
    ABORT_FAULT = "an abort in the clock of a bad row number"
    RESET_START = "a reset in the clock of a start"
    RESET_WAITS = "a reset with a transfer that waits"
    RESET_NUMBER = "a reset in the clock in which a row number is taken"


@dataclass(frozen=True)
class GatherTable:
    """What a gather is started with."""

    table_address: int
    table_rows: int
    row_bytes: int
    index_address: int
    count: int

    @staticmethod
    def draw() -> "GatherTable":
        """Draw a table of any size, and a count that ends a gather or never does."""
        rows = random.choice((random.randint(1, 5000), random.randint(1, 1 << random.randint(1, 31))))
        few = random.choice((1, PER_BEAT, random.randint(1, 4 * PER_BEAT)))
        count = (1 << random.randrange(8, 25)) + few if random.random() < 0.2 else few
        index = random.choice((random.getrandbits(32), -4 * random.randrange(20) << random.randrange(24)))
        row_bytes = random.choice((random.randint(1, 5000), random.getrandbits(32)))
        return GatherTable(random.getrandbits(32), rows, row_bytes, index & WORD, count)

    def number(self, bad: float) -> int:
        """Draw a row number, bad ones with this chance."""
        if random.random() < bad:
            return random.choice((self.table_rows, WORD, 1 << 31, random.randint(self.table_rows, WORD)))
        return random.choice((0, self.table_rows - 1, random.randrange(self.table_rows)))

    def drive(self, dut: Any) -> None:
        """Give the fields to the ports."""
        for name, value in vars(self).items():
            getattr(dut, f"{name}_i").value = value


class GathererTestbench:
    """The ports, and a model that follows them.

    Attributes: left (row numbers to be taken), place (of the next one in its beat), address (of that one),
    transfer (that is offered).
    """

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.source = HandshakeSource(dut, "beat_valid_i", "beat_ready_o", "beat_i")
        self.sink = Ready(dut, "desc_valid_o", "desc_ready_i", ["desc_o"])
        self.table = GatherTable.draw()
        self.place = self.address = 0
        self.forget()

    def forget(self) -> None:
        """Be idle."""
        self.left = 0
        self.transfer: Transfer | None = None

    @property
    def busy(self) -> bool:
        return bool(self.left) or self.transfer is not None

    @property
    def near_fault(self) -> bool:
        """Whether the next row number is a bad one."""
        if not (self.left and self.source.values):
            return False
        return (self.source.values[0] >> 32 * self.place & WORD) >= self.table.table_rows

    def restock(self) -> None:
        """Put the row numbers of another gather at hand."""
        bad = random.choice((0.0, 0.02, 0.2))
        self.source.withdraw()
        for _ in range(AHEAD):
            numbers = [self.table.number(bad) for _ in range(PER_BEAT)]
            self.source.values.append(sum(number << 32 * place for place, number in enumerate(numbers)))

    async def clock(self, *, start: bool = False, abort: bool = False, in_reset: bool = False) -> None:
        """Do one clock: choose inputs, compare all outputs, follow."""
        dut, table, saw = self.dut, self.table, self.situations.saw
        dut.start_i.value, dut.abort_i.value, dut.rst_ni.value = int(start), int(abort), int(not in_reset)
        self.source.drive()
        self.sink.drive()
        await RisingEdge(dut.clk_i)
        room, offered, left = bool(dut.desc_ready_i.value), self.transfer is not None, self.left
        assert bool(dut.busy_o.value) == self.busy
        assert bool(dut.desc_valid_o.value) == offered
        if offered:
            desc = Transfer.of(dut.desc_o)
            assert (desc.addr, desc.row_bytes, desc.rows) == (
                self.transfer.addr,
                self.transfer.row_bytes,
                1,
            )
        step = bool(left) and self.source.offering and (not offered or room)
        number = self.source.values[0] >> 32 * self.place & WORD if step else 0
        fault = step and number >= table.table_rows
        assert bool(dut.fault_o.value) == fault
        if fault:
            assert int(dut.fault_address_o.value) == self.address
        taken = step and (left == 1 or self.place == PER_BEAT - 1)
        assert bool(dut.beat_ready_o.value) == taken
        assert (self.source.taken() is not None) == taken

        if room:
            self.transfer = None
        if step:
            self.left -= 1
            self.place = 0 if taken else self.place + 1
            self.address = (self.address + 4) & WORD
            address = (table.table_address + number * table.row_bytes) & WORD
            self.transfer = Transfer(address, table.row_bytes, 1, 0)
        if start:
            self.left, self.place, self.address = table.count, 0, table.index_address
        if fault or abort or in_reset:
            self.forget()

        waits = offered and not room
        saw(GathererSituation.THROUGH, step and offered)
        saw(GathererSituation.WAITS, waits and left and self.source.offering)
        saw(GathererSituation.LAST, step and left == 1 and not fault)
        saw(GathererSituation.LONG, step and left > 1 << 20)
        saw(GathererSituation.HIGH, step and not fault and number >> 24)
        saw(GathererSituation.FAULT, fault)
        saw(GathererSituation.FAULT_TAKEN, fault and offered)
        if abort:
            saw(GathererSituation.ABORT_START, start)
            saw(GathererSituation.ABORT_WAITS, waits)
            saw(GathererSituation.ABORT_TAKEN, offered and room)
            saw(GathererSituation.ABORT_NUMBER, step and not fault)
            saw(GathererSituation.ABORT_FAULT, fault)
        if in_reset:
            saw(GathererSituation.RESET_START, start)
            saw(GathererSituation.RESET_WAITS, waits)
            saw(GathererSituation.RESET_NUMBER, step and not fault)


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """A row number a clock while transfers are taken; each output in each clock, whatever ends a gather."""
    await reset(dut)
    situations = Situations(GathererSituation, least=10)
    testbench = GathererTestbench(dut, situations)
    for _ in situations.rounds(2500):
        vary(testbench.source, testbench.sink)
        ending = random.choice((0.0, 0.05, 0.2))
        if not testbench.busy:
            testbench.table = GatherTable.draw()
            testbench.table.drive(dut)
            testbench.source.withdraw()
            abort, in_reset = (random.random() < 0.1 for _ in range(2))
            await testbench.clock(start=True, abort=abort, in_reset=in_reset)
            testbench.restock()
        for _ in range(random.choice((5, 20, 50))):
            chance = 0.3 if testbench.near_fault else ending
            await testbench.clock(abort=random.random() < chance, in_reset=random.random() < ending / 2)
