"""clock_gate: enables that change at any time, compared with the pulses that the clock must have."""

import random
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import Timer

from tests.rtl.situations import Situations

STEP_NS = 1

CONFIGURATIONS: list[dict[str, int]] = [{}]


class ClockGateSituation(Enum):
    """Situations that the header of clock_gate names."""

    PULSE = "a pulse"
    REST = "a clock without a pulse"
    TEST = "a pulse for test_enable_i alone"
    LATE_RISE = "an enable that comes while the clock is high"
    LATE_FALL = "an enable that goes while the clock is high"


@cocotb.test()
async def random_enables(dut: Any) -> None:
    """clk_o has a whole pulse or none, according to the enables when clk_i rose."""
    situations = Situations(ClockGateSituation)
    dut.clk_i.value = dut.enable_i.value = dut.test_enable_i.value = 0
    await Timer(STEP_NS, "ns")
    for _ in situations.rounds(3000):
        enable = test = False
        for _ in range(random.randint(1, 3)):
            enable, test = random.random() < 0.5, random.random() < 0.2
            dut.enable_i.value, dut.test_enable_i.value = int(enable), int(test)
            await Timer(STEP_NS, "ns")
            assert not dut.clk_o.value, "a pulse while clk_i is low"
        pulse = enable or test
        dut.clk_i.value = 1
        await Timer(STEP_NS, "ns")
        assert bool(dut.clk_o.value) == pulse
        situations.saw(ClockGateSituation.PULSE, pulse)
        situations.saw(ClockGateSituation.REST, not pulse)
        situations.saw(ClockGateSituation.TEST, test and not enable)
        for _ in range(random.randrange(3)):
            late = random.random() < 0.5
            dut.enable_i.value = int(late)
            dut.test_enable_i.value = int(random.random() < 0.2)
            await Timer(STEP_NS, "ns")
            assert bool(dut.clk_o.value) == pulse, "a pulse that is cut or comes late"
            situations.saw(ClockGateSituation.LATE_RISE, late and not enable)
            situations.saw(ClockGateSituation.LATE_FALL, enable and not late)
        dut.clk_i.value = 0
        await Timer(STEP_NS, "ns")
        assert not dut.clk_o.value
