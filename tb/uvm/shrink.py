"""Shrink a failing program: delta debugging over its steps, then over timing and images."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from tb.stimulus.steps import Step, StepProgram
from tb.testbench import DEFAULT_TIMING

Fails = Callable[[Sequence[StepProgram]], Sequence[bool]]
"""Whether each of these programs still fails in the same way."""


def shrink(program: StepProgram, fails: Fails) -> StepProgram:
    """Return a part of `program` that still fails, and no longer does without any one of its steps.

    All candidates of a round are tried at once, so that one simulator plays them. Then timing is reset to the
    default and memory images are removed where that preserves the failure.
    """
    program = dataclasses.replace(program, steps=_fewest(program, fails))
    simpler = [dataclasses.replace(program, timing=dict(DEFAULT_TIMING))]
    for left in program.images:
        images = {address: data for address, data in program.images.items() if address != left}
        simpler.append(dataclasses.replace(program, images=images))
    usual, *spare = fails(simpler)
    images = {a: d for (a, d), still in zip(program.images.items(), spare, strict=True) if not still}
    timing = DEFAULT_TIMING if usual else program.timing
    bare = dataclasses.replace(program, timing=dict(timing), images=images)
    return bare if fails([bare])[0] else program


def _fewest(program: StepProgram, fails: Fails) -> tuple[Step, ...]:
    steps = program.steps
    size = max(1, len(steps) // 2)
    while steps:
        cuts = list(range(0, len(steps), size))
        shorter = [steps[:cut] + steps[cut + size :] for cut in cuts]
        still = fails([dataclasses.replace(program, steps=each) for each in shorter])
        good = [number for number, failed in enumerate(still) if failed]
        if not good:
            if size == 1:
                break
            size //= 2
            continue
        for candidate in _together(steps, [cuts[number] for number in good], size):
            if fails([dataclasses.replace(program, steps=candidate)])[0]:
                steps = candidate
                break
        else:
            steps = shorter[good[0]]
        size = max(1, min(size, len(steps) // 2))
    return steps


def _together(steps: tuple[Step, ...], cuts: Sequence[int], size: int) -> Iterator[tuple[Step, ...]]:
    """Yield all cuts at once, then the first half of them, and so on; single cuts are known to work."""
    while len(cuts) > 1:
        gone = {at for cut in cuts for at in range(cut, cut + size)}
        yield tuple(step for at, step in enumerate(steps) if at not in gone)
        cuts = cuts[: len(cuts) // 2]
