"""Pairs of commands in which one writes what the other uses: every pair of operands, in every place."""

import itertools

from echo_npu.commands.packets import Packet
from echo_npu.spec.status import State
from tb.drivers.commands import Path
from tb.stimulus.hazards import MEETINGS, PLACES, HazardMaker
from tb.testbench import DEFAULT_TIMING, NpuTestbench, npu_test, random_timing, stalled
from tests.commands.cycles import timed
from tests.rtl.stimulus import clocks

SAME_MEMORY = 3
"""Number of pairs that run one after another."""
TIMEOUT_CYCLES = 8_000_000
ENOUGH_CYCLES = 7_000_000
"""After so many no more pairs are played: an array may be large for its memory, or a memory slow."""


@npu_test(first=list(dict.fromkeys(each.first for each in MEETINGS)))
async def test_pairs(tb: NpuTestbench, first: str) -> None:
    """Each operand of `first` may meet each operand of any command, in its first, last or other bytes."""
    maker = HazardMaker(tb.random, tb.config)
    places = list(itertools.product(PLACES, PLACES))
    # Products take long, and so does a memory that stalls.
    count = 1 if stalled() else 3 if first == "matmul" else len(places)
    drawn = [
        (meeting, *place)
        for meeting in MEETINGS
        if meeting.first == first
        for place in (("last", "first"), *tb.random.sample(places, count))
    ]
    tb.random.shuffle(drawn)
    if stalled() and first == "matmul":
        # A memory that takes one write at a time needs a million cycles for a few products.
        drawn = drawn[: len(drawn) // 4]
    begun = clocks()
    for at in range(0, len(drawn), SAME_MEMORY):
        if clocks() - begun > ENOUGH_CYCLES:
            assert 2 * at > len(drawn) or not timed(tb.config.name), f"{at} of {len(drawn)} pairs"
            break
        if not stalled() and tb.random.random() < 0.3:
            tb.dram.configure({**random_timing(tb.random), "reorder": tb.random.choice((0, 1))})
        slots: list[Packet] = maker.loads()
        for each in drawn[at : at + SAME_MEMORY]:
            slots += maker.pair(*each)
        for address, data in maker.images.items():
            tb.memory.write(address, data)
        maker.forget()
        way: Path = tb.random.choice(("ring", "ring", "window"))
        assert await tb.run(slots, way, timeout_cycles=TIMEOUT_CYCLES) == State.DONE
        if not stalled():
            tb.dram.configure(DEFAULT_TIMING)
