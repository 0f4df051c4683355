"""burst_splitter: the beats of random transfers, each once and in order, in legal bursts."""

import random
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout

from tb.blocks import parameter
from tests.rtl.stimulus import CHANCES, pulse, reset
from tests.rtl.transfers import Transfer, beats_of, check_burst, draw, submit

CONFIGURATIONS = [{"DataWidth": 64}, {"DataWidth": 256}]
BUS = parameter("DataWidth") // 8
SPACE = 1 << 15


async def collect(dut: Any, count: int, chance: float) -> list[int]:
    """Take bursts until they hold `count` beats; return the addresses of the beats."""
    beats: list[int] = []
    while len(beats) < count:
        dut.burst_ready_i.value = int(random.random() < chance)
        await RisingEdge(dut.clk_i)
        if dut.burst_ready_i.value and dut.burst_valid_o.value:
            addr, length = int(dut.burst_addr_o.value), int(dut.burst_len_o.value) + 1
            check_burst(addr, length, BUS)
            beats += [addr + i * BUS for i in range(length)]
    dut.burst_ready_i.value = 0
    return beats


async def check(dut: Any, transfer: Transfer) -> None:
    """Submit a transfer; its beats must come, and nothing after them."""
    await submit(dut, transfer)
    expected = beats_of(transfer, BUS)
    taken = await with_timeout(
        cocotb.start_soon(collect(dut, len(expected), random.choice(CHANCES))), 1, "ms"
    )
    assert taken == expected, transfer
    await RisingEdge(dut.clk_i)
    assert not dut.burst_valid_o.value, transfer


@cocotb.test()
async def random_transfers(dut: Any) -> None:
    """Rows of every alignment, with and without gaps, across pages."""
    await reset(dut)
    for _ in range(300):
        await check(dut, draw(SPACE, BUS))


@cocotb.test()
async def abort(dut: Any) -> None:
    """An abort ends a transfer at once; the next one works."""
    await reset(dut)
    for _ in range(30):
        await submit(dut, Transfer(random.randrange(100), 1000, 4, 1024))
        dut.burst_ready_i.value = 1
        await ClockCycles(dut.clk_i, random.randrange(4))
        dut.burst_ready_i.value = 0
        await pulse(dut, "abort_i")
        await RisingEdge(dut.clk_i)
        assert not dut.burst_valid_o.value
        await check(dut, draw(SPACE, BUS))
