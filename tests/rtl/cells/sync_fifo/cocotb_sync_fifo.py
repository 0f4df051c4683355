"""sync_fifo, in registers and in a memory: random pushes, pops, clears and resets against a list."""

import random
from collections import deque
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tb.blocks import parameter
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset

CONFIGURATIONS = [
    {"Width": 16, "Depth": 2},
    {"Width": 16, "Depth": 16},
    {"Width": 16, "Depth": 2, "InRam": 1},
    {"Width": 300, "Depth": 16},
]
WIDTH, DEPTH = parameter("Width"), parameter("Depth")


class FifoSituation(Enum):
    """What the queue meets in a clock."""

    FULL = "a full queue"
    BOTH_FULL = "a pop beside which a full queue takes nothing"
    BOTH = "a push beside a pop"
    CLEAR = "a clear beside a push and a pop"
    RESET = "a reset beside a push and a pop"
    RESET_FULL = "a reset of a full queue"


def check(dut: Any, held: deque[int]) -> None:
    """Compare the queue's status, and its oldest element, which shows without a pop."""
    assert int(dut.count_o.value) == len(held)
    assert bool(dut.empty_o.value) == (not held)
    assert bool(dut.full_o.value) == (len(held) == DEPTH)
    if held:
        assert int(dut.data_o.value) == held[0]


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """Runs fill it, empty it and keep it level; a clear or a reset drops what is pushed in its clock too."""
    await reset(dut)
    situations = Situations(FifoSituation, least=10)
    saw = situations.saw
    held: deque[int] = deque()
    reached = set()
    for _ in situations.rounds(1200):
        filling, emptying = (random.choice((1.0, random.random())) for _ in range(2))
        dropping, dropping_full = random.choice((0.0, 0.02, 0.2)), random.choice((0.0, 0.2))
        for _ in range(random.randint(1, 4 * DEPTH)):
            push = len(held) < DEPTH and random.random() < filling
            pop = bool(held) and random.random() < emptying
            chance = max(dropping, dropping_full) if len(held) == DEPTH else dropping
            clear, in_reset = (random.random() < chance for _ in range(2))
            value = random.getrandbits(WIDTH)
            dut.push_i.value, dut.pop_i.value, dut.clear_i.value = int(push), int(pop), int(clear)
            dut.data_i.value, dut.rst_ni.value = value, int(not in_reset)
            await RisingEdge(dut.clk_i)
            check(dut, held)
            full = len(held) == DEPTH
            saw(FifoSituation.FULL, full)
            saw(FifoSituation.BOTH_FULL, full and pop)
            saw(FifoSituation.BOTH, push and pop)
            saw(FifoSituation.CLEAR, push and pop and clear and not in_reset)
            saw(FifoSituation.RESET, push and pop and in_reset and not clear)
            saw(FifoSituation.RESET_FULL, full and in_reset and not clear)
            if pop:
                held.popleft()
            if push:
                held.append(value)
            if clear or in_reset:
                held.clear()
            reached.add(len(held))
    assert reached == set(range(DEPTH + 1))
