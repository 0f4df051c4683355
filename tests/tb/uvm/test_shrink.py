"""Shrinking keeps what the failure needs, in few rounds."""

from collections.abc import Sequence

import pytest

from tb.stimulus.steps import RegisterRead, StepProgram
from tb.testbench import DEFAULT_TIMING
from tb.uvm.shrink import shrink


def program(length: int) -> StepProgram:
    steps = tuple(RegisterRead(4 * number) for number in range(length))
    return StepProgram(steps, {0: b"needed", 64: b"spare"}, {**DEFAULT_TIMING, "stall_w": 0.5})


@pytest.mark.parametrize("needed", [(0,), (59,), (3, 4), (0, 59), (7, 30, 31, 50)])
def test_only_the_needed_steps_stay(needed: tuple[int, ...]) -> None:
    """The needed steps stay in order, with the default timing and only the needed image."""
    wanted = tuple(RegisterRead(4 * number) for number in needed)
    rounds = 0

    def fails(candidates: Sequence[StepProgram]) -> list[bool]:
        nonlocal rounds
        rounds += 1
        return [{*wanted} <= {*each.steps} and 0 in each.images for each in candidates]

    short = shrink(program(60), fails)
    assert short.steps == wanted
    assert short.images == {0: b"needed"}
    assert short.timing == DEFAULT_TIMING
    assert rounds < 40


def test_timing_stays_where_it_matters() -> None:
    short = shrink(program(5), lambda many: [each.timing["stall_w"] == 0.5 for each in many])
    assert short.timing["stall_w"] == 0.5
    assert short.steps == ()
    assert short.images == {}


def test_what_cannot_be_cut_stays() -> None:
    whole = program(6)
    assert shrink(whole, lambda many: [each == whole for each in many]) == whole
