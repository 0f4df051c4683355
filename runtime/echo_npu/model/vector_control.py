"""The control flow of a program: the instructions that a row executes, with their elements and places.

It does not depend on data. So every row executes the same instructions, and a program that breaks a rule
breaks it in the first row.
"""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Final

from echo_npu.commands.vector_command import VectorCommand
from echo_npu.model.program_memory import Decoded, ProgramMemory
from echo_npu.vector.isa import CHUNK_MULTIPLE, Form, Kind, Op, kind_of

WHOLE_ROW: Final = 1 << 40
"""A value of `widest` that is larger than any row."""


class ProgramFault(Exception):  # noqa: N818  (the program is at fault)
    """A program broke a rule at instruction `number` of program memory."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"instruction {number}")


class ProgramOverdue(Exception):  # noqa: N818  (the program is at fault)
    """A program takes more clocks than its command may."""


class Window:
    """The place of a program in the row of an input stream. `turn` counts the passes that are complete."""

    __slots__ = ("length", "offset", "segment", "segments", "turn")

    def __init__(self, length: int, segments: int) -> None:
        self.length = length
        self.segments = segments
        self.segment = self.offset = self.turn = 0

    def advance(self, elements: int) -> None:
        """Advance by a multiple of 16 elements."""
        self.offset += elements
        if self.offset >= self.length:
            self.offset = 0
            self.segment += 1
            if self.segment == self.segments:
                self.segment = 0
                self.turn += 1


class OutputPlace:
    """The place of the next write to the output."""

    __slots__ = ("length", "offset", "segment", "segments")

    def __init__(self, length: int, segments: int) -> None:
        self.length = length
        self.segments = segments
        self.segment = self.offset = 0

    @property
    def complete(self) -> bool:
        return self.segment == self.segments

    def takes(self, elements: int) -> bool:
        """Return whether a write of so many elements is legal."""
        return (
            not self.complete and self.offset % CHUNK_MULTIPLE == 0 and self.offset + elements <= self.length
        )

    def advance(self, elements: int) -> None:
        self.offset += elements
        if self.offset == self.length:
            self.offset = 0
            self.segment += 1


@dataclass(slots=True)
class _Loop:
    op: Op
    body: int  # number of its first instruction


@dataclass
class Sequencer:
    """Goes through the program of a command once, as each row does.

    Args:
        programs: program memory.
        command: the command that runs the program.
        vector_length: elements of a chunk.
        row_elements: elements of a row register.
        widest: the most elements of a chunk in loops with independent iterations, a multiple of
            `vector_length`. Wider chunks give the same results in fewer steps.
        limit: clocks that the command may take; 0: any number.

    Attributes, valid at each step: windows (by stream, None where there is none), place (of the output), base
    (first element of the chunk), rep, wide (the chunk is wider than a vector register). Valid at the end:
    clocks (the least that a row takes).
    """

    programs: ProgramMemory
    command: VectorCommand
    vector_length: int
    row_elements: int
    _: KW_ONLY
    widest: int = 0
    limit: int = 0

    def __post_init__(self) -> None:
        command = self.command
        self.windows = [Window(each.length, each.segments) if each else None for each in command.inputs]
        self.place = OutputPlace(command.output.length, command.output.segments)
        self.base = self.rep = 0
        self.wide = False
        self.clocks = 0

    def __iter__(self) -> Iterator[tuple[Decoded, int]]:
        """Yield each instruction with a destination, and the number of elements that it processes.

        Raises:
            ProgramFault: the program broke a rule.
            ProgramOverdue: it surely takes more clocks than `limit`, since an instruction takes at least one
                clock each time in each row.
        """
        clocks = 0
        command, vector_length = self.command, self.vector_length
        loops: list[_Loop] = []
        step = vector_length
        vl = min(command.cols, step)
        number = command.entry
        while True:
            decoded = self.programs[number]
            if decoded is None:
                raise ProgramFault(number)
            clocks += 1
            if 0 < self.limit < clocks:
                raise ProgramOverdue
            op = decoded.instruction.op
            if decoded.form == Form.LOOP:
                if any(loop.op == op for loop in loops):
                    raise ProgramFault(number)
                loops.append(_Loop(op, number + 1))
                if op == Op.CHUNKS:
                    step = self._chunk(number)
                    self.wide = step > vector_length
                    vl = min(command.cols, step)
            elif decoded.form == Form.STEP:
                if op == Op.NEXT and not loops:
                    raise ProgramFault(number)
                self._advance(decoded, vl)
                if op == Op.NEXT and loops[-1].op == Op.CHUNKS:
                    self.base += step
                    if self.base < command.cols:
                        vl = min(step, command.cols - self.base)
                        number = loops[-1].body
                        continue
                    loops.pop()
                    self.base, self.wide, step = 0, False, vector_length
                    vl = min(command.cols, step)
                elif op == Op.NEXT:
                    self.rep += 1
                    if self.rep < command.repeats:
                        number = loops[-1].body
                        continue
                    loops.pop()
                    self.rep = 0
            elif decoded.form == Form.END:
                if loops or not self.place.complete:
                    raise ProgramFault(number)
                if 0 < self.limit < clocks * command.rows * command.batch[0] * command.batch[1]:
                    raise ProgramOverdue
                self.clocks = clocks
                return
            else:
                elements = 1 if decoded.single else vl
                self._check(number, decoded, elements)
                yield decoded, elements
                if decoded.writes_out:
                    self.place.advance(elements)
            number += 1

    def _check(self, number: int, decoded: Decoded, elements: int) -> None:
        for stream in decoded.streams:
            window, descriptor = self.windows[stream], self.command.inputs[stream]
            if window is None or descriptor is None:
                raise ProgramFault(number)
            if window.turn >= descriptor.passes:
                raise ProgramFault(number)
        if decoded.row_register and self.base + elements > self.row_elements:
            raise ProgramFault(number)
        if decoded.writes_out and not self.place.takes(elements):
            raise ProgramFault(number)

    def _advance(self, decoded: Decoded, vl: int) -> None:
        elements = -(-vl // CHUNK_MULTIPLE) * CHUNK_MULTIPLE
        for stream in decoded.instruction.streams:
            window, descriptor = self.windows[stream], self.command.inputs[stream]
            if window is None or descriptor is None or descriptor.bcast:
                continue
            if window.turn < descriptor.passes:
                window.advance(elements)

    def _chunk(self, number: int) -> int:
        """Return the elements of a chunk in the loop that begins at `number`."""
        if self.widest <= self.vector_length or self.command.cols <= self.vector_length:
            return self.vector_length
        body = _independent(self.programs, number)
        if body is None:
            return self.vector_length
        for stream in range(len(self.windows)):
            window, descriptor = self.windows[stream], self.command.inputs[stream]
            if window is None or descriptor is None or descriptor.bcast:
                continue
            if stream in body.advanced:
                end = window.offset + self.command.cols
                if end > -(-window.length // CHUNK_MULTIPLE) * CHUNK_MULTIPLE:
                    return self.vector_length
            elif stream in body.read:
                return self.vector_length
        if body.writes_out and not self.place.takes(self.command.cols):
            return self.vector_length
        return self.widest


@dataclass(frozen=True, slots=True)
class _Body:
    """A chunk loop whose iterations can be grouped in any way: the streams that it reads and advances."""

    read: frozenset[int]
    advanced: frozenset[int]
    writes_out: bool


def _independent(programs: ProgramMemory, number: int) -> _Body | None:
    """Return the body of the chunk loop at `number`, if its iterations are independent; else None.

    They are if vector registers are written before they are read, no scalar is written, only one instruction
    adds to an accumulator, and at most one writes the output.
    """
    written: set[int] = set()
    accumulated: set[int] = set()
    read: set[int] = set()
    outputs = 0
    while True:
        number += 1
        decoded = programs[number]
        if decoded is None or decoded.form in (Form.LOOP, Form.END):
            return None
        instruction = decoded.instruction
        if decoded.form == Form.STEP:
            if instruction.op == Op.ADVANCE:
                return None
            return _Body(frozenset(read), frozenset(instruction.streams), outputs == 1)
        if decoded.single or decoded.form != Form.ALU:
            return None
        for code in instruction.sources:
            if kind_of(code) == Kind.VECTOR and code not in written:
                return None
        read.update(decoded.streams)
        outputs += decoded.writes_out
        if kind_of(instruction.dst) == Kind.ACCUMULATOR:
            if instruction.dst in accumulated:
                return None
            accumulated.add(instruction.dst)
        written.add(instruction.dst)
        if outputs > 1:
            return None
