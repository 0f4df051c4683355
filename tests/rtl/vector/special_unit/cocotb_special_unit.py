"""special_unit: random words of all three functions at any pace, clock by clock.

The functional model gives the expected bits. The comparison of special_function_pkg has many more operands;
here it is the clocks, and the lanes.
"""

import random
from collections import deque
from enum import Enum
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from echo_npu.model.vector_alu import ALU
from tb.blocks import parameter
from tests.rtl.elements import as_number
from tests.rtl.situations import Situations
from tests.rtl.stimulus import start_clock
from tests.rtl.vector.special import SPECIAL

CONFIGURATIONS = [{"Lanes": 2, "Pipeline": 0}, {"Lanes": 16, "Pipeline": 1}]
LANES = parameter("Lanes")
CLOCKS = 2 + parameter("Pipeline")
EDGES = [
    0, 1, 0x7F_FFFF, 0x80_0000, 0x3F80_0000, 0x42B0_0000, 0x7F7F_FFFF, 0x7F80_0000, 0x7FC0_0000, 0x8000_0000,
    0xBF80_0000, 0xC2B0_0000, 0xFF80_0000, 0xFFFF_FFFF,
]  # fmt: skip


class SpecialUnitSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    EXP = "e^a"
    RCP = "1/a"
    RSQRT = "1/sqrt(a)"
    EACH_CLOCK = "a word of another function in each clock of one"
    PAUSED = "a word after a pause as long as a word takes"
    HELD = "a result that stays until the next word ends"
    NOISE = "operands that nobody begins with"
    PASSED = "a word of another unit right behind the last clock of one"
    PASSED_AGAIN = "words of another unit that pass in two clocks"


def draw_lane() -> int:
    """Draw a float32, as its bits: an edge, any bits, or a value near 1."""
    chance = random.random()
    if chance < 0.2:
        return random.choice(EDGES)
    if chance < 0.5:
        return random.getrandbits(32)
    return int(np.float32(random.uniform(-20.0, 20.0)).view(np.uint32))


@cocotb.test()
async def random_words(dut: Any) -> None:
    """Every result is that of the functional model, in the clock that the header names, and then stays."""
    situations = Situations(SpecialUnitSituation)
    saw = situations.saw
    await start_clock(dut)
    dut.begin_i.value = dut.pass_i.value = 0
    for _ in range(CLOCKS + 1):
        await RisingEdge(dut.clk_i)

    under_way: deque[tuple[int, int] | None] = deque([None] * (CLOCKS - 1))  # number of the function, result
    shown: int | None = None
    pause = 0.0
    passed = late = False  # in the clock before
    for number in situations.rounds(3000):
        if number % 40 == 0:
            pause = random.choice((0.0, 0.3, 0.9))
        kind, begin = random.randrange(len(SPECIAL)), random.random() >= pause
        lanes = [draw_lane() for _ in range(LANES)]
        dut.begin_i.value, dut.kind_i.value = int(begin), kind
        dut.a_i.value = as_number(np.array(lanes, np.uint32))
        ending, other = under_way[-1], random.getrandbits(32 * LANES)
        passes = ending is None and random.random() < 0.5
        dut.pass_i.value, dut.passing_i.value = int(passes), other
        await RisingEdge(dut.clk_i)
        assert bool(dut.late_o.value) == (ending is not None)
        if shown is not None:
            assert int(dut.result_o.value) == shown
        kinds = [each[0] for each in under_way if each is not None]
        saw(SpecialUnitSituation.EACH_CLOCK, begin and len(kinds) == CLOCKS - 1 and len({kind, *kinds}) > 1)
        saw(SpecialUnitSituation.PAUSED, begin and not kinds and shown is not None)
        saw(SpecialUnitSituation.HELD, shown is not None and not kinds and not passed and not late)
        saw(SpecialUnitSituation.NOISE, not begin)
        saw(SpecialUnitSituation.PASSED, passes and late)
        saw(SpecialUnitSituation.PASSED_AGAIN, passes and passed)
        passed, late = passes, ending is not None
        if ending is not None:
            shown = ending[1]
        elif passes:
            shown = other
        under_way.pop()
        under_way.appendleft(None)
        if begin:
            saw(SpecialUnitSituation[SPECIAL[kind].name])
            with np.errstate(all="ignore"):
                result = ALU[SPECIAL[kind]](np.array(lanes, np.uint32))
            under_way[0] = kind, as_number(np.asarray(result, np.uint32))
