"""row_scatterer, clock by clock: lists of any length in batches, bad indices, an end in any clock."""

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
from tests.rtl.streams import stream_bits
from tests.rtl.transfers import Transfer

CONFIGURATIONS = [{"DataWidth": 64}, {"DataWidth": 256}]
WIDTH = parameter("DataWidth")
WORD = (1 << 32) - 1
LONG = 200
"""Rows of a list that count as many."""
AHEAD = 40
"""Beats that are at hand."""


class ScattererSituation(Enum):
    """What the module meets, as it can be seen at the ports."""

    THROUGH = "an index taken in the clock in which a transfer is taken"
    WAITS = "a transfer that waits, with an index behind it"
    LAST = "the last index of a list"
    ROWS = "a row behind another one in its batch"
    INNER = "the first row of another inner batch"
    OUTER = "the first row of another outer batch"
    LONG = "a row behind the two hundredth"
    WIDE = "an index of 64 bits"
    HIGH = "an index of more than 24 bits"
    TOP = "the last row of the largest table"
    FAULT = "a bad index"
    FAULT_BESIDE = "a bad index in the clock in which a transfer is taken"
    FAULT_FIRST = "a bad first index"
    FAULT_HIGH = "an index that is bad by its upper half alone"
    FAULT_WAITS = "a bad index that waits for the program's first row"
    FAULT_BEHIND = "a bad index that waits behind a transfer"
    ABORT_START = "an abort in the clock of a start"
    ABORT_WAITS = "an abort with a transfer that waits"
    ABORT_TAKEN = "an abort in the clock in which a transfer is taken"
    ABORT_INDEX = "an abort in the clock in which an index is taken"
    ABORT_FAULT = "an abort in the clock of a bad index"
    RESET_START = "a reset in the clock of a start"
    RESET_WAITS = "a reset with a transfer that waits"
    RESET_INDEX = "a reset in the clock in which an index is taken"


@dataclass(frozen=True)
class ScatterList:
    """What a scatter is started with. Strides are those of (row, inner batch, outer batch)."""

    table: int
    row_bytes: int
    table_strides: tuple[int, int, int]
    list: int
    list_strides: tuple[int, int, int]
    words: int
    table_rows: int
    counts: tuple[int, int, int]

    @staticmethod
    def draw() -> "ScatterList":
        """Draw a list of any shape, for a table of any size."""
        few = random.randint(1, 4)
        counts = random.choice(
            (
                (few, 1, 1),
                (random.randint(1, 20), 1, 1),
                (few, random.randint(1, 4), random.randint(1, 3)),
                (1, random.randint(1, 6), 1),
                (1, 1, random.randint(1, 6)),
                (random.randint(250, 1 << 24), random.randint(1, 65535), random.randint(1, 65535)),
            )
        )
        rows = random.choice(
            (1, random.randint(1, 5000), random.randint(1, 1 << random.randint(1, 31)), 1 << 31)
        )
        strides = [tuple(random.getrandbits(random.choice((8, 32))) for _ in range(3)) for _ in range(2)]
        return ScatterList(
            random.getrandbits(32),
            random.choice((random.randint(1, 5000), random.getrandbits(32))),
            (strides[0][0], strides[0][1], strides[0][2]),
            random.getrandbits(30) * 4,
            (strides[1][0], strides[1][1], strides[1][2]),
            random.choice((1, 2)),
            rows,
            counts,
        )

    def index(self, bad: float) -> int:
        """Draw the bits of an index, bad ones with this chance."""
        if random.random() < bad:
            low = random.choice((self.table_rows, WORD, 1 << 31, random.randint(self.table_rows, WORD)))
            if self.words == 1:
                return low
            return random.choice((0, WORD, random.getrandbits(32))) << 32 | low
        low = random.choice((0, self.table_rows - 1, random.randrange(self.table_rows)))
        if self.words == 2 and random.random() < bad:
            return random.choice((1, 1 << 31, random.randint(1, WORD))) << 32 | low
        return low

    def is_bad(self, beat: int) -> bool:
        """Return whether the index in a beat is outside of the table."""
        return (beat & (1 << 32 * self.words) - 1) >= self.table_rows

    def drive(self, dut: Any) -> None:
        """Give the fields to the ports; members that do not matter are noise."""
        row, inner, outer = self.table_strides
        noise = {
            "segs": random.getrandbits(25),
            "passes": random.getrandbits(4),
            "seg_stride": random.getrandbits(32),
        }
        dut.table_i.value = stream_bits(
            **{**noise, "seg_len": random.getrandbits(32)},
            addr=self.table,
            seg_bytes=self.row_bytes,
            row_stride=row,
            batch0_stride=inner,
            batch1_stride=outer,
        )
        row, inner, outer = self.list_strides
        dut.indices_i.value = stream_bits(
            **noise,
            addr=self.list,
            seg_bytes=4 * self.words,
            seg_len=self.words,
            row_stride=row,
            batch0_stride=inner,
            batch1_stride=outer,
        )
        dut.table_rows_i.value = self.table_rows
        dut.rows_i.value, dut.batch0_i.value, dut.batch1_i.value = self.counts


class ScattererTestbench:
    """The ports, and a model that follows them.

    Attributes: place ((row, inner, outer) of the next index, or None), transfer (that is offered),
    began (the first row has had its transfer), proven (the program has completed a row).
    """

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.source = HandshakeSource(dut, "beat_valid_i", "beat_ready_o", "beat_i")
        self.sink = Ready(dut, "desc_valid_o", "desc_ready_i", ["desc_o"])
        self.scatter = ScatterList.draw()
        self.place: tuple[int, int, int] | None = None
        self.transfer: Transfer | None = None
        self.began = self.proven = False
        self.number = 0
        self.bad = 0.0  # the chance of a bad index

    @property
    def busy(self) -> bool:
        return self.place is not None or self.transfer is not None

    @property
    def near_fault(self) -> bool:
        """Whether the next index is a bad one."""
        return (
            self.place is not None and bool(self.source.values) and self.scatter.is_bad(self.source.values[0])
        )

    def restock(self) -> None:
        """Put the indices of another list at hand."""
        self.source.withdraw()
        for _ in range(AHEAD):
            index = self.scatter.index(self.bad)
            noise = random.getrandbits(WIDTH) >> 32 * self.scatter.words << 32 * self.scatter.words
            self.source.values.append(noise | index)

    def _next(self) -> tuple[int, int, int] | None:
        """Return the place behind the present one."""
        assert self.place is not None
        place = list(self.place)
        for axis in range(3):
            place[axis] += 1
            if place[axis] < self.scatter.counts[axis]:
                return (place[0], place[1], place[2])
            place[axis] = 0
        return None

    async def clock(self, *, start: bool = False, abort: bool = False, in_reset: bool = False) -> None:
        """Do one clock: choose inputs, compare all outputs, follow."""
        dut, scatter, place = self.dut, self.scatter, self.place
        dut.start_i.value, dut.abort_i.value, dut.rst_ni.value = int(start), int(abort), int(not in_reset)
        self.proven = (self.proven and not start) or (place is not None and random.random() < 0.1)
        dut.proven_i.value = int(self.proven)
        self.source.drive()
        self.sink.drive()
        await RisingEdge(dut.clk_i)
        ready, offered = bool(dut.desc_ready_i.value), self.transfer is not None
        room = ready or not offered
        there = place is not None and self.source.offering
        beat = self.source.values[0] if there else 0
        bad = there and scatter.is_bad(beat)
        step, fault = there and room and not bad, bad and room and self.proven
        assert bool(dut.busy_o.value) == self.busy
        assert bool(dut.desc_valid_o.value) == offered
        if self.transfer is not None:
            assert Transfer.of(dut.desc_o) == self.transfer
        assert bool(dut.began_o.value) == self.began
        assert bool(dut.discard_o.value) == (bad and not self.began)
        assert bool(dut.fault_o.value) == fault
        if fault:
            assert place is not None
            steps = zip(place, scatter.list_strides, strict=True)
            address = scatter.list + sum(count * stride for count, stride in steps)
            assert int(dut.fault_address_o.value) == address & WORD
        assert bool(dut.beat_ready_o.value) == step
        assert (self.source.taken() is not None) == step
        self.note(step=step, bad=bad, fault=fault, beat=beat, start=start, abort=abort, in_reset=in_reset)

        if ready:
            self.transfer = None
        if step:
            assert place is not None
            _, inner, outer = place
            address = scatter.table + inner * scatter.table_strides[1] + outer * scatter.table_strides[2]
            address += (beat & WORD) * scatter.table_strides[0]
            self.transfer = Transfer(address & WORD, scatter.row_bytes, 1, 0)
            self.place, self.began = self._next(), True
            self.number += 1
        if fault:
            self.place = self.transfer = None
        if start:
            self.place, self.began, self.number = (0, 0, 0), False, 0
        if abort or in_reset:
            self.place, self.transfer, self.began = None, None, False

    def note(
        self, *, step: bool, bad: bool, fault: bool, beat: int, start: bool, abort: bool, in_reset: bool
    ) -> None:
        """Count what this clock shows."""
        saw, scatter, place = self.situations.saw, self.scatter, self.place
        ready, offered = bool(self.dut.desc_ready_i.value), self.transfer is not None
        waits, index = offered and not ready, beat & WORD
        row, inner, outer = place or (0, 0, 0)
        saw(ScattererSituation.THROUGH, step and offered)
        saw(ScattererSituation.WAITS, waits and place and self.source.offering)
        saw(ScattererSituation.LAST, step and self._next() is None)
        saw(ScattererSituation.ROWS, step and row)
        saw(ScattererSituation.INNER, step and inner and not row)
        saw(ScattererSituation.OUTER, step and outer and not inner and not row)
        saw(ScattererSituation.LONG, step and self.number > LONG)
        saw(ScattererSituation.WIDE, step and scatter.words == 2)
        saw(ScattererSituation.HIGH, step and index >> 24)
        saw(ScattererSituation.TOP, step and index == (1 << 31) - 1)
        saw(ScattererSituation.FAULT, fault)
        saw(ScattererSituation.FAULT_BESIDE, fault and offered)
        saw(ScattererSituation.FAULT_FIRST, fault and not self.began)
        saw(ScattererSituation.FAULT_HIGH, fault and index < scatter.table_rows)
        saw(ScattererSituation.FAULT_WAITS, bad and not self.proven)
        saw(ScattererSituation.FAULT_BEHIND, bad and self.proven and waits)
        if abort:
            saw(ScattererSituation.ABORT_START, start)
            saw(ScattererSituation.ABORT_WAITS, waits)
            saw(ScattererSituation.ABORT_TAKEN, offered and ready)
            saw(ScattererSituation.ABORT_INDEX, step)
            saw(ScattererSituation.ABORT_FAULT, fault)
        if in_reset:
            saw(ScattererSituation.RESET_START, start)
            saw(ScattererSituation.RESET_WAITS, waits)
            saw(ScattererSituation.RESET_INDEX, step)


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """An index a clock while transfers are taken; each output in each clock, whatever ends a list."""
    await reset(dut)
    situations = Situations(ScattererSituation, least=10)
    ending = 0.0
    testbench = ScattererTestbench(dut, situations)
    for _ in situations.rounds(2000):
        vary(testbench.source, testbench.sink)
        if not testbench.busy:
            testbench.scatter = ScatterList.draw()
            testbench.bad, ending = random.choice((0.0, 0.02, 0.2)), random.choice((0.0, 0.05, 0.2))
            testbench.scatter.drive(dut)
            testbench.source.withdraw()
            abort, in_reset = (random.random() < 0.1 for _ in range(2))
            await testbench.clock(start=True, abort=abort, in_reset=in_reset)
            testbench.restock()
        for _ in range(random.choice((5, 20, 50, 300))):
            if not testbench.source.values:
                testbench.restock()
            chance = 0.3 if testbench.near_fault or testbench.number > LONG + 50 else ending
            await testbench.clock(abort=random.random() < chance, in_reset=random.random() < ending / 2)
