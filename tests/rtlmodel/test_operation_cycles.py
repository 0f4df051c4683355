"""Operations take exactly the committed cycles on the RTL: short ones here, all by `make bench-ops`."""

import pytest

import echo_npu
from benchmarks.operations import CONFIG, OPERATIONS, TimedOperation, committed, measure

pytestmark = pytest.mark.sim

MOST_CYCLES = 12_000
"""Of the operations that are measured here."""


def short() -> list[TimedOperation]:
    figures = committed()
    return [each for each in OPERATIONS if figures[each.key].cycles <= MOST_CYCLES]


def test_cycles_are_as_committed() -> None:
    chosen = short()
    assert len(chosen) >= 8
    with echo_npu.open("rtlmodel", config=CONFIG) as npu:
        measured = {each.key: measure(npu, each) for each in chosen}
    figures = committed()
    assert measured == {key: figures[key] for key in measured}
