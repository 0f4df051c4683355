"""sync_fifo, in registers and in a memory: random pushes, pops and clears against a list."""

import random
from collections import deque
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tb.blocks import parameter
from tests.rtl.stimulus import reset

CONFIGURATIONS = [
    {"Width": 16, "Depth": 2},
    {"Width": 16, "Depth": 16},
    {"Width": 16, "Depth": 2, "InRam": 1},
    {"Width": 300, "Depth": 16},
]
WIDTH, DEPTH = parameter("Width"), parameter("Depth")


def check(dut: Any, held: deque[int]) -> None:
    """Compare the queue's status, and its oldest element, which shows without a pop."""
    assert int(dut.count_o.value) == len(held)
    assert bool(dut.empty_o.value) == (not held)
    assert bool(dut.full_o.value) == (len(held) == DEPTH)
    if held:
        assert int(dut.data_o.value) == held[0]


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """Runs fill it, empty it and keep it level; a clear also drops what is pushed in the same clock."""
    await reset(dut)
    held: deque[int] = deque()
    reached = set()
    for _ in range(200):
        filling, emptying = random.random(), random.random()
        for _ in range(random.randint(1, 4 * DEPTH)):
            push = len(held) < DEPTH and random.random() < filling
            pop = bool(held) and random.random() < emptying
            clear = random.random() < 0.02
            value = random.getrandbits(WIDTH)
            dut.push_i.value, dut.pop_i.value, dut.clear_i.value = int(push), int(pop), int(clear)
            dut.data_i.value = value
            await RisingEdge(dut.clk_i)
            check(dut, held)
            if pop:
                held.popleft()
            if push:
                held.append(value)
            if clear:
                held.clear()
            reached.add(len(held))
    assert reached == set(range(DEPTH + 1))
