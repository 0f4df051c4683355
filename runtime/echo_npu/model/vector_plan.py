"""The steps of a vector program, worked out once for all commands that take the same path.

The path depends on the program and on the shape of rows, not on addresses or data: the commands of all layers
of a model share a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.vector_command import VectorCommand
from echo_npu.model.program_memory import Decoded, ProgramMemory
from echo_npu.model.vector_alu import ALU
from echo_npu.model.vector_control import Sequencer
from echo_npu.vector.isa import Form, Kind, Op, index_of, kind_of

_MOST_STEPS: Final = 2048
"""A longer path is not kept."""

_MOST_PLANS: Final = 512

PathKey: TypeAlias = tuple[Any, ...]


class OperandSource(NamedTuple):
    """An operand that a step reads.

    Attributes:
        kind, code: of the operand.
        number: in its bank.
        segment, offset: of a stream, its place.
        values: of an immediate or a counter of elements, uint32 [1, 1 or elements]; else None.
    """

    kind: Kind | None
    code: int
    number: int
    segment: int
    offset: int
    values: NDArray[np.uint32] | None


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """An instruction with a destination, with its elements and places.

    Attributes:
        op, form: of the instruction.
        function: computes it, if it is elementwise.
        elements: how many it processes.
        sources: what it reads.
        kind, dst: its destination.
        wide: the chunk is wider than a vector register.
        base: first element of the chunk.
        rep: number of the repetition.
        segment, offset: the place in the output.
    """

    op: Op
    form: Form
    function: Callable[..., NDArray[np.uint32]] | None
    elements: int
    sources: tuple[OperandSource, ...]
    kind: Kind | None
    dst: int
    wide: bool
    base: int
    rep: int
    segment: int
    offset: int


def planned_steps(sequencer: Sequencer) -> Iterator[PlannedStep]:
    """Yield the steps of a sequencer's command; ProgramFault and ProgramOverdue as it raises them."""
    for decoded, elements in sequencer:
        yield _step(sequencer, decoded, elements)


def _step(sequencer: Sequencer, decoded: Decoded, elements: int) -> PlannedStep:
    instruction = decoded.instruction
    return PlannedStep(
        op=instruction.op,
        form=decoded.form,
        function=ALU.get(instruction.op),
        elements=elements,
        sources=tuple(
            _source(sequencer, code, instruction.imm, elements)
            for code in (instruction.sources if decoded.form != Form.ASET else (instruction.a,))
        ),
        kind=kind_of(instruction.dst),
        dst=instruction.dst,
        wide=sequencer.wide,
        base=sequencer.base,
        rep=sequencer.rep,
        segment=sequencer.place.segment,
        offset=sequencer.place.offset,
    )


def _source(sequencer: Sequencer, code: int, immediate: int, elements: int) -> OperandSource:
    kind, index = kind_of(code), index_of(code)
    segment = offset = 0
    values: NDArray[np.uint32] | None = None
    if kind == Kind.STREAM:
        window = sequencer.windows[index]
        assert window is not None
        segment, offset = window.segment, window.offset
    elif kind == Kind.IMMEDIATE:
        values = np.array([[immediate & 0xFFFF_FFFF]], dtype=np.uint32)
    elif kind == Kind.IOTA:
        steps = np.arange(sequencer.base, sequencer.base + elements, dtype=np.int64)
        values = steps.astype(np.uint32)[None, :]
    return OperandSource(kind, code, index, segment, offset, values)


@dataclass(slots=True)
class PlanCache:
    """The plans of the commands of one engine.

    Args:
        programs: program memory; when it changes, all plans go.
        vector_length, row_elements: of the engine.
    """

    programs: ProgramMemory
    vector_length: int
    row_elements: int
    _plans: dict[PathKey, tuple[PlannedStep, ...]] = field(default_factory=dict)
    _clocks: dict[PathKey, int] = field(default_factory=dict)
    _version: int = -1

    def least_clocks(self, command: VectorCommand, widest: int, limit: int) -> int:
        """Check the whole program; return the least clocks of a row.

        Raises: as `Sequencer`.
        """
        path = self._path(command, widest)
        found = self._clocks.get(path)
        if found is None:
            sequencer = self.sequencer(command, widest, limit)
            for _ in sequencer:
                pass
            found = sequencer.clocks
            if len(self._clocks) >= _MOST_PLANS:
                self._clocks.clear()
            self._clocks[path] = found
        return found

    def steps(self, command: VectorCommand, widest: int) -> Iterator[PlannedStep]:
        """Yield the steps of a command that was checked."""
        path = self._path(command, widest)
        found = self._plans.get(path)
        if found is not None:
            yield from found
            return
        made: list[PlannedStep] = []
        for step in planned_steps(self.sequencer(command, widest)):
            if len(made) <= _MOST_STEPS:
                made.append(step)
            yield step
        if len(made) <= _MOST_STEPS:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[path] = tuple(made)

    def sequencer(self, command: VectorCommand, widest: int, limit: int = 0) -> Sequencer:
        """Return what goes through a command's program once."""
        return Sequencer(
            self.programs, command, self.vector_length, self.row_elements, widest=widest, limit=limit
        )

    def _path(self, command: VectorCommand, widest: int) -> PathKey:
        """Return everything that a path through program memory depends on."""
        if self._version != self.programs.version:
            self._version = self.programs.version
            self._plans.clear()
            self._clocks.clear()
        inputs = [
            None if each is None else (each.seg_len, each.segs, each.pack, each.bcast, each.passes)
            for each in command.inputs
        ]
        output = command.output
        rows = (command.entry, command.cols, command.repeats, widest)
        return (*rows, *inputs, output.seg_len, output.segs, output.pack)
