"""element_unpacker, clock by clock: segments of any length, with starts, aborts and resets in mid stream."""

import random
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tb.blocks import parameter
from tests.rtl.handshakes import HandshakeSource, Ready, vary
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset
from tests.rtl.streams import set_stream

CONFIGURATIONS = [{"DataWidth": 64, "Lanes": 4}, {"DataWidth": 256, "Lanes": 16}]
BUS = parameter("DataWidth") // 8
LANES = parameter("Lanes")
ELEMENTS = BUS // 4
"""Elements that a clock takes at most."""
COUNT_BITS = LANES.bit_length()
SIZES = (4, 2, 1)
AHEAD = 60
"""Words that are at hand."""


class UnpackerSituation(Enum):
    """What the module meets, as it can be seen at the ports."""

    PART = "a clock that takes a part of a word"
    ROW_ENDS = "a row that ends within a word and within a beat"
    BEAT_ENDS = "a beat that is full before its word is used up"
    BEAT_WAITS = "a beat that waits to be taken, with a word behind it"
    THROUGH = "a beat that is taken in the clock in which the next one begins"
    LONG = "a beat of a row too long for any test"
    START_PART = "a start between the parts of a word"
    START_BEGUN = "a start with a beat that has begun"
    START_WAITS = "a start with a beat that waits"
    ABORT_BEGUN = "an abort with a beat that has begun"
    ABORT_WAITS = "an abort with a beat that waits"
    ABORT_TAKEN = "an abort in the clock in which a beat is taken"
    ABORT_WORD = "an abort in the clock in which a word is taken"
    RESET_PART = "a reset between the parts of a word"
    RESET_BEGUN = "a reset with a beat that has begun"
    RESET_WAITS = "a reset with a beat that waits"


class UnpackerModel:
    """The stream and what is inside.

    Attributes: begun (bytes of the beat that has begun), full (the beat at the output), done (elements of the
    word at the input), long.
    """

    def __init__(self) -> None:
        self.size = random.choice(SIZES)
        self.seg_len = random.choice((1, 2, LANES, LANES + 1, random.randint(1, 8 * LANES)))
        self.long = random.random() < 0.2
        if self.long:
            self.seg_len = (1 << random.randrange(8, 32)) + random.randint(1, 4 * LANES)
        self.members = {"seg_len": self.seg_len, "size": SIZES.index(self.size)}
        self.begun = b""
        self.full: int | None = None
        self.done = 0
        self.row_left = self.seg_len

    def clock(self, word: tuple[int, int] | None, *, room: bool) -> bool:
        """Do one clock; return whether it takes the word, which comes with the number of its elements."""
        waits = self.full is not None and not room
        if room:
            self.full = None
        if word is None or waits:
            return False
        bits, count = word
        free = (BUS - len(self.begun)) // self.size
        moved = min(count - self.done, ELEMENTS, self.row_left, free)
        for place in range(self.done, self.done + moved):
            self.begun += (bits >> 32 * place & (1 << 8 * self.size) - 1).to_bytes(self.size, "little")
        self.done += moved
        self.row_left -= moved
        if not self.row_left or len(self.begun) == BUS:
            self.full, self.begun = int.from_bytes(self.begun, "little"), b""
        self.row_left = self.row_left or self.seg_len
        taken = self.done == count
        self.done = 0 if taken else self.done
        return taken


def draw_word(full: float) -> int:
    """Draw a word and the number of its elements as one number."""
    count = LANES if random.random() < full else random.randint(1, LANES)
    return random.getrandbits(32 * LANES) << COUNT_BITS | count


class UnpackerTestbench:
    """The ports and the model."""

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.source = HandshakeSource(dut, "word_valid_i", "word_ready_o", "word_i", "count_i")
        self.sink = Ready(dut, "beat_valid_o", "beat_ready_i", ["beat_o"])
        self.model = UnpackerModel()

    async def start(self) -> None:
        """Start on another stream, in mid stream or not."""
        saw, dut, model = self.situations.saw, self.dut, self.model
        saw(UnpackerSituation.START_PART, model.done)
        saw(UnpackerSituation.START_BEGUN, model.begun)
        saw(UnpackerSituation.START_WAITS, model.full is not None)
        self.source.withdraw()
        self.source.drive()
        self.model = UnpackerModel()
        set_stream(dut, **self.model.members)
        dut.start_i.value, dut.beat_ready_i.value = 1, random.getrandbits(1)
        await RisingEdge(dut.clk_i)
        dut.start_i.value = 0
        full = random.choice((0.0, 0.5, 1.0))
        self.source.values.extend(draw_word(full) for _ in range(AHEAD))

    async def clock(self, *, abort: bool = False, in_reset: bool = False) -> None:
        """Do one clock and compare all outputs."""
        dut, model, saw = self.dut, self.model, self.situations.saw
        dut.abort_i.value, dut.rst_ni.value = int(abort), int(not in_reset)
        self.source.drive()
        self.sink.drive()
        offered = None
        if self.source.offering:
            value = self.source.values[0]
            offered = value >> COUNT_BITS, value & (1 << COUNT_BITS) - 1
        await RisingEdge(dut.clk_i)
        room = bool(dut.beat_ready_i.value)
        begun, full, done = model.begun, model.full, model.done
        assert bool(dut.beat_valid_o.value) == (full is not None)
        assert full is None or int(dut.beat_o.value) == full
        assert bool(dut.idle_o.value) == (full is None and not begun)
        taken = model.clock(offered, room=room)
        assert bool(dut.word_ready_o.value) == taken
        assert (self.source.taken() is not None) == taken

        ends = model.full is not None and (full is None or room)
        saw(UnpackerSituation.PART, model.done > done)
        saw(UnpackerSituation.ROW_ENDS, ends and model.done and model.row_left == model.seg_len)
        saw(UnpackerSituation.BEAT_ENDS, ends and model.done and model.row_left != model.seg_len)
        saw(UnpackerSituation.BEAT_WAITS, full is not None and not room and offered)
        saw(UnpackerSituation.THROUGH, full is not None and room and model.begun)
        saw(UnpackerSituation.LONG, ends and model.long)
        if abort:
            saw(UnpackerSituation.ABORT_BEGUN, begun)
            saw(UnpackerSituation.ABORT_WAITS, full is not None and not room)
            saw(UnpackerSituation.ABORT_TAKEN, full is not None and room)
            saw(UnpackerSituation.ABORT_WORD, taken)
        if in_reset:
            saw(UnpackerSituation.RESET_PART, done)
            saw(UnpackerSituation.RESET_BEGUN, begun)
            saw(UnpackerSituation.RESET_WAITS, full is not None and not room)

    async def cut_off(self) -> None:
        """Abort or reset, then offer nothing for some clocks: it is idle."""
        in_reset = random.random() < 0.4
        await self.clock(abort=not in_reset, in_reset=in_reset)
        self.source.withdraw()
        self.model = UnpackerModel()
        for _ in range(random.choice((0, 1, 3))):
            await self.clock()
        self.dut.abort_i.value, self.dut.rst_ni.value = 0, 1


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """Beats come as soon as they are full; nothing of a stream outlives a start, an abort or a reset."""
    await reset(dut)
    situations = Situations(UnpackerSituation, least=10)
    testbench = UnpackerTestbench(dut, situations)
    for _ in situations.rounds(1500):
        if random.random() < 0.5:
            await testbench.cut_off()
        await testbench.start()
        vary(testbench.source, testbench.sink)
        for _ in range(random.choice((2, 6, 25, 60))):
            await testbench.clock()
