"""Plans that are kept: for each command, what its program does without them, whatever ran before."""

from collections.abc import Callable, Iterable
from dataclasses import astuple, replace
from typing import Any

import numpy as np

from echo_npu.commands.vector_command import Descriptor, VectorCommand
from echo_npu.model import vector_plan
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.model.vector_control import ProgramFault
from echo_npu.model.vector_plan import PlanCache, PlannedStep
from echo_npu.vector.isa import Instruction, Op
from tests.runtime.model.test_vector_engine import (
    ROW_ELEMENTS,
    SEEDS,
    VECTOR_LENGTH,
    case_of,
    programs_of,
)

WIDEST = 4 * VECTOR_LENGTH


def other_input(change: Callable[[Descriptor], Descriptor]) -> Callable[[VectorCommand], VectorCommand]:
    def changed(command: VectorCommand) -> VectorCommand:
        return replace(command, inputs=tuple(each and change(each) for each in command.inputs))

    return changed


def other_output(change: Callable[[Descriptor], Descriptor]) -> Callable[[VectorCommand], VectorCommand]:
    return lambda command: replace(command, output=change(command.output))


CHANGES: dict[str, Callable[[VectorCommand], VectorCommand]] = {
    "entry": lambda command: replace(command, entry=command.entry + 1),
    "cols": lambda command: replace(command, cols=command.cols + 1),
    "repeats": lambda command: replace(command, repeats=command.repeats + 1),
    "elements of an input's segment": other_input(lambda each: replace(each, seg_len=each.seg_len + 1)),
    "segments of an input": other_input(lambda each: replace(each, segs=each.segs + 1)),
    "pack of an input": other_input(lambda each: replace(each, pack=not each.pack)),
    "broadcast": other_input(lambda each: replace(each, bcast=not each.bcast)),
    "passes": other_input(lambda each: replace(each, passes=max(1, each.passes - 1))),
    "elements of the output's segment": other_output(lambda each: replace(each, seg_len=each.seg_len + 1)),
    "segments of the output": other_output(lambda each: replace(each, segs=each.segs + 1)),
    "pack of the output": other_output(lambda each: replace(each, pack=not each.pack)),
}
"""Changes of a command, each of a field that its path depends on."""


def shown(steps: Iterable[PlannedStep]) -> list[Any]:
    """Return steps as something that can be compared."""
    return [
        tuple(each.tolist() if isinstance(each, np.ndarray) else each for each in flat(astuple(step)))
        for step in steps
    ]


def flat(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for each in values:
        found += flat(each) if isinstance(each, tuple) else [each]
    return found


def done(cache: PlanCache, command: VectorCommand) -> Any:
    """Return what a cache says of a command: the clocks and the steps, or the instruction that breaks a
    rule."""
    try:
        return cache.least_clocks(command, WIDEST, 0), shown(cache.steps(command, WIDEST))
    except ProgramFault as fault:
        return fault.number


def cache_of(programs: ProgramMemory) -> PlanCache:
    return PlanCache(programs, VECTOR_LENGTH, ROW_ELEMENTS)


def test_a_command_that_differs_in_one_field_has_its_own_plan() -> None:
    told_apart: set[str] = set()
    for seed in range(SEEDS):
        case = case_of(seed)
        programs = programs_of(case)
        kept = cache_of(programs)
        before = done(kept, case.command)
        assert done(kept, case.command) == before
        for name, change in CHANGES.items():
            command = change(case.command)
            wanted = done(cache_of(programs), command)
            assert done(kept, command) == wanted, name
            if wanted != before:
                told_apart.add(name)
    assert told_apart == set(CHANGES)


def test_another_program_at_the_same_place_has_its_own_plan() -> None:
    for seed in range(20):
        case = case_of(seed)
        programs = programs_of(case)
        kept = cache_of(programs)
        before = done(kept, case.command)
        programs.load(case.command.entry, np.array([Instruction(Op.END).encode()], np.uint64))
        assert done(kept, case.command) == done(cache_of(programs), case.command) != before
        programs.load(case.command.entry, case.words)
        assert done(kept, case.command) == before
        programs.give_up(case.command.entry, len(case.words))
        assert done(kept, case.command) == case.command.entry


def test_a_path_that_is_too_long_is_not_kept(monkeypatch: Any) -> None:
    case = next(case for case in map(case_of, range(SEEDS)) if len(done_steps(case)) > 4)
    monkeypatch.setattr(vector_plan, "_MOST_STEPS", 3)
    kept = cache_of(programs_of(case))
    assert shown(kept.steps(case.command, WIDEST)) == done_steps(case)
    assert not kept._plans


def done_steps(case: Any) -> list[Any]:
    return shown(cache_of(programs_of(case)).steps(case.command, WIDEST))
