"""element_packer, clock by clock: segments of any length, with starts, aborts and resets in mid stream."""

import random
from collections.abc import Iterator
from enum import Enum
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from tb.blocks import parameter
from tests.rtl.elements import DTYPES, as_number
from tests.rtl.handshakes import HandshakeSource, Ready, vary
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset
from tests.rtl.streams import set_stream

CONFIGURATIONS = [{"DataWidth": 64, "Lanes": 4}, {"DataWidth": 256, "Lanes": 16}]
BUS = parameter("DataWidth") // 8
LANES = parameter("Lanes")
ELEMENTS = BUS // 4
"""Elements that a clock takes at most."""
SIZES = (4, 2, 1)
AHEAD = 40
"""Beats that are at hand."""


class PackerSituation(Enum):
    """What the module meets, as it can be seen at the ports."""

    PART = "a clock that takes a part of a beat"
    WAITS = "a word that waits to be taken with its beat"
    ROW_IN_SEGMENT = "a row that ends within a segment"
    LONG = "a word of a row too long for any test"
    START_PART = "a start between the parts of a beat"
    START_HELD = "a start with elements inside"
    ABORT_HELD = "an abort with elements inside"
    ABORT_TAKEN = "an abort in the clock in which a word is taken"
    ABORT_BEAT = "an abort in the clock in which a beat is taken"
    RESET_PART = "a reset between the parts of a beat"
    RESET_HELD = "a reset with elements inside"


class PackerRest(Enum):
    """What happens only if a clock takes more than two elements: else no row ends across two words."""

    THERE = "a word that ends a segment, behind the word before in the same beat"
    WAITS = "such a word that waits to be taken"
    ABORT = "an abort with such a word inside"
    RESET = "a reset with such a word inside"


def across_words(seg_len: int, rows: int) -> bool:
    """Whether the last beat of such a segment ends a word and begins another."""
    last = (seg_len - 1) % ELEMENTS + 1
    return (seg_len * rows - last) % LANES + last > LANES


class PackerModel:
    """The stream and what is inside.

    Attributes: held (elements), rest (they are the rest of a segment), part (of the beat at the input), long.
    """

    def __init__(self) -> None:
        size = random.choice(SIZES)
        self.dtype, self.size = DTYPES[size], size
        self.seg_len = random.choice((1, 2, LANES, LANES + 1, random.randint(1, 8 * LANES)))
        rows = random.choice((1, random.randint(1, 6)))
        while ELEMENTS > 2 and random.random() < 0.9 and not across_words(self.seg_len, rows):
            self.seg_len, rows = random.randint(2, LANES), random.randint(2, 6)
        self.long = random.random() < 0.3
        if self.long and random.random() < 0.5:
            self.seg_len = (1 << random.randrange(8, 32)) + random.randint(1, 4 * LANES)
            rows = 1
        elif self.long:
            self.seg_len = random.randint(1, 2 * LANES)
            rows = (1 << random.randrange(8, 32)) // self.seg_len
        self.length = self.seg_len * rows
        self.members = {"seg_len": self.seg_len, "length": self.length, "size": SIZES.index(size)}
        self.held: list[int] = []
        self.rest = False
        self.part = 0
        self.row_left, self.segment_left = self.seg_len, self.length

    def beats(self) -> Iterator[int]:
        """Give the beats of random rows: each from its first byte, with zeros behind its last."""
        while True:
            left = self.seg_len * self.size
            while left:
                count = min(left, BUS)
                yield int.from_bytes(random.randbytes(count), "little")
                left -= count

    def clock(self, beat: int | None, *, room: bool) -> "Outputs":
        """Do one clock and return what it shows."""
        outputs = Outputs()
        if self.rest:
            outputs.show(self.held, last=True)
            if room:
                self.held, self.rest = [], False
            return outputs
        if beat is None:
            return outputs
        count = min(ELEMENTS, self.row_left)
        values = np.frombuffer(beat.to_bytes(BUS, "little"), self.dtype)[self.part * ELEMENTS :][:count]
        filled = [*self.held, *values.tolist()]
        row_ends, segment_ends = count == self.row_left, count == self.segment_left
        emit = len(filled) >= LANES or segment_ends
        if emit:
            outputs.show(filled[:LANES], last=segment_ends and len(filled) <= LANES)
        if emit and not room:
            return outputs
        outputs.row_taken = row_ends
        self.part += 1
        outputs.beat_taken = row_ends or self.part * ELEMENTS * self.size == BUS
        self.part = 0 if outputs.beat_taken else self.part
        self.row_left = self.seg_len if row_ends else self.row_left - count
        self.segment_left = self.length if segment_ends else self.segment_left - count
        self.held = filled[LANES:] if emit else filled
        self.rest = segment_ends and bool(self.held)
        return outputs


class Outputs:
    """What a clock shows.

    Attributes: word (with the mark of the last one; None if there is none), beat_taken, row_taken.
    """

    def __init__(self) -> None:
        self.word: tuple[int, bool] | None = None
        self.beat_taken = self.row_taken = False

    def show(self, elements: list[int], *, last: bool) -> None:
        """Show a word of these elements, with zeros behind them."""
        self.word = as_number(np.array(elements + [0] * (LANES - len(elements)), np.int32)), last


class PackerTestbench:
    """The ports and the model."""

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.source = HandshakeSource(dut, "beat_valid_i", "beat_ready_o", "beat_i")
        self.sink = Ready(dut, "word_valid_o", "word_ready_i", ["word_o", "word_last_o"])
        self.model = PackerModel()
        self.waits = False  # a word waited in the clock before

    async def start(self) -> None:
        """Start on another stream, in mid stream or not."""
        saw, dut = self.situations.saw, self.dut
        assert not self.waits, "a word that waits must stay"
        saw(PackerSituation.START_PART, self.model.part)
        saw(PackerSituation.START_HELD, self.model.held)
        self.source.withdraw()
        self.source.drive()
        self.model = PackerModel()
        set_stream(dut, **self.model.members)
        dut.start_i.value, dut.word_ready_i.value = 1, random.getrandbits(1)
        await RisingEdge(dut.clk_i)
        dut.start_i.value = 0
        beats = self.model.beats()
        self.source.values.extend(next(beats) for _ in range(AHEAD))

    async def clock(self, *, abort: bool = False, in_reset: bool = False) -> None:
        """Do one clock and compare all outputs."""
        dut, model = self.dut, self.model
        dut.abort_i.value, dut.rst_ni.value = int(abort), int(not in_reset)
        self.source.drive()
        self.sink.drive()
        offered = self.source.values[0] if self.source.offering else None
        held, part, rest = bool(model.held), bool(model.part), model.rest
        await RisingEdge(dut.clk_i)
        room = bool(dut.word_ready_i.value)
        outputs = model.clock(offered, room=room)
        assert bool(dut.word_valid_o.value) == (outputs.word is not None)
        if outputs.word is not None:
            assert (int(dut.word_o.value), bool(dut.word_last_o.value)) == outputs.word
        assert bool(dut.beat_ready_o.value) == outputs.beat_taken
        assert bool(dut.row_taken_o.value) == outputs.row_taken
        assert (self.source.taken() is not None) == outputs.beat_taken
        shown = outputs.word is not None
        self.waits = shown and not room
        saw = self.situations.saw
        saw(PackerSituation.PART, not part and model.part)
        saw(PackerRest.THERE, rest)
        saw(PackerRest.WAITS, rest and self.waits)
        saw(PackerSituation.WAITS, not rest and self.waits)
        saw(PackerSituation.ROW_IN_SEGMENT, outputs.row_taken and model.segment_left != model.length)
        saw(PackerSituation.LONG, shown and model.long)
        saw(PackerRest.ABORT, abort and rest and self.waits)
        saw(PackerSituation.ABORT_HELD, abort and held and not rest)
        saw(PackerSituation.ABORT_TAKEN, abort and shown and room)
        saw(PackerSituation.ABORT_BEAT, abort and outputs.beat_taken)
        saw(PackerRest.RESET, in_reset and rest and self.waits)
        saw(PackerSituation.RESET_PART, in_reset and part)
        saw(PackerSituation.RESET_HELD, in_reset and held and not rest)

    async def cut_off(self) -> None:
        """Abort or reset, then offer nothing for some clocks: nothing is left."""
        in_reset = random.random() < 0.4
        await self.clock(abort=not in_reset, in_reset=in_reset)
        self.source.withdraw()
        self.model = PackerModel()
        self.waits = False
        for _ in range(random.choice((0, 1, 3))):
            await self.clock()
        self.dut.abort_i.value, self.dut.rst_ni.value = 0, 1


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """Words come as soon as their elements are there; nothing of a stream outlives a start, an abort or a
    reset."""
    await reset(dut)
    situations = Situations(PackerSituation, *([PackerRest] if ELEMENTS > 2 else []), least=10)
    testbench = PackerTestbench(dut, situations)
    for _ in situations.rounds(2500):
        if testbench.waits or random.random() < 0.5:
            await testbench.cut_off()
        await testbench.start()
        vary(testbench.source, testbench.sink)
        for _ in range(random.choice((2, 6, 25, 60))):
            await testbench.clock()
            if testbench.model.rest and random.random() < 0.3:
                break
