"""round_robin: random requests compared with its rule, and fairness."""

import random
from collections import Counter
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tests.rtl.stimulus import reset

CONFIGURATIONS = [{"Requests": 2}, {"Requests": 5}]


def winner(requests: int, first: int, count: int) -> int | None:
    """Return the first request at or after `first`, cyclically."""
    return next((i % count for i in range(first, first + count) if requests >> i % count & 1), None)


@cocotb.test()
async def random_requests(dut: Any) -> None:
    """The search starts after the last used grant; an unused grant changes nothing; a reset begins anew,
    even in the clock of a used grant."""
    await reset(dut, "request_i")
    count = len(dut.request_i)
    first = 0
    for _ in range(5000):
        requests = random.getrandbits(count) & random.getrandbits(count)
        in_reset = random.random() < 0.1
        dut.rst_ni.value = int(not in_reset)
        expected = winner(requests, first, count)
        used = expected is not None and random.random() < 0.7
        dut.request_i.value, dut.advance_i.value = requests, int(used)
        await RisingEdge(dut.clk_i)
        grant = int(dut.grant_o.value)
        if expected is None:
            assert grant == 0
        else:
            assert (grant, int(dut.index_o.value)) == (1 << expected, expected), f"{requests:b} from {first}"
        if in_reset:
            first = 0
        elif used and expected is not None:
            first = (expected + 1) % count
    dut.rst_ni.value = 1


@cocotb.test()
async def fairness(dut: Any) -> None:
    """Clients that always request are served equally often."""
    await reset(dut, "request_i")
    count = len(dut.request_i)
    for asking in (range(count), range(0, count, 2), [count - 1]):
        dut.request_i.value, dut.advance_i.value = sum(1 << i for i in asking), 1
        served: Counter[int] = Counter()
        await RisingEdge(dut.clk_i)
        for _ in range(10 * len(asking)):
            await RisingEdge(dut.clk_i)
            served[int(dut.index_o.value)] += 1
        assert served == dict.fromkeys(asking, 10)
