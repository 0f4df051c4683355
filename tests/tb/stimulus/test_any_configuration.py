"""Random programs on any configuration: whatever its sizes are, they can be drawn."""

import random

import pytest

from echo_sim.parameters import LEGAL
from echo_sim.random_config import random_config
from tb.stimulus.hazards import HazardMaker, Meeting
from tb.stimulus.vector_programs import generate

SLOW = Meeting("matmul", "dst", "memcpy", "src1")


def test_pairs_that_begin_with_a_slow_product() -> None:
    """Small blocks make products that take few clocks; they are drawn all the same."""
    found = {}
    for seed in range(1, 401):
        config = random_config(seed)
        found[config.array_rows, config.block_m, config.block_k_tiles, config.block_n_tiles] = config
    assert (4, 8, 1, 4) in found
    assert (4, 16, 1, 2) in found
    for config in found.values():
        maker = HazardMaker(random.Random(3), config)
        for _ in range(3):
            assert maker.pair(SLOW)
            maker.forget()


SIZES = [
    (vector_length, row_elements)
    for vector_length in (LEGAL["vector_length"][0], LEGAL["vector_length"][-1])
    for row_elements in (LEGAL["row_elements"][0], LEGAL["row_elements"][-1])
    if vector_length <= row_elements
]


@pytest.mark.parametrize(("vector_length", "row_elements"), SIZES)
def test_programs_that_break_each_rule(vector_length: int, row_elements: int) -> None:
    rules = {
        generate(seed, vector_length=vector_length, row_elements=row_elements, base=0, broken=True).rule
        for seed in range(60)
    }
    assert "a row register beyond its end" in rules
    assert len(rules) > 8
