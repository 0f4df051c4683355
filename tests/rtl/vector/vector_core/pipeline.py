"""The words that the instructions of a row issue, and their dependences."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from echo_npu.vector.isa import CHUNK_MULTIPLE, OUT, Form, Kind, index_of, kind_of
from tb.blocks import parameter
from tests.rtl.elements import as_number
from tests.rtl.vector.special import SPECIAL
from tests.rtl.vector.vector_core.commands import LANES, ReachedInstruction

PIPELINE = bool(parameter("Pipeline"))

Place = tuple[int, int]
"""A word of a register: operand code, number of the word. A scalar or an accumulator is one word."""


@dataclass(frozen=True)
class IssuedWord:
    """The part of an instruction that is issued in one clock.

    Attributes: beat (its number), last (of the instruction), count (elements), reads (words of registers, by
    operand), streams (whose windows it reads), writes (word of a register), partials (word of the
    accumulators that it sets or adds to), adds (to that word, or to the step of a fold before), ready (its
    result is there when it leaves the lanes: of a fold the last sum only, of an accumulator nothing), special
    (it takes the lanes a clock more), out (it goes to the output), expected (its bits there; None if they do
    not matter).
    """

    step: ReachedInstruction
    beat: int
    last: bool
    count: int
    reads: tuple[Place | None, ...]
    streams: tuple[int, ...]
    writes: Place | None
    partials: Place | None
    adds: bool
    ready: bool
    special: bool
    out: bool
    expected: int | None


def _place(code: int, step: ReachedInstruction, beat: int) -> Place | None:
    kind = kind_of(code)
    if kind in (Kind.SCALAR, Kind.ACCUMULATOR):
        return code, 0
    if kind == Kind.VECTOR:
        return code, beat
    return (code, step.base // LANES + beat) if kind == Kind.ROW_REGISTER else None


def words_of(step: ReachedInstruction, output: NDArray[np.uint32] | None) -> list[IssuedWord]:
    """Return the words of an instruction with a destination.

    Args:
        output: the elements that its row must write; None if they do not matter.
    """
    assert step.decoded is not None
    instruction, form = step.decoded.instruction, step.decoded.form
    elements = 1 if step.decoded.single else step.elements
    if form == Form.FOLD:
        counts = [1] * CHUNK_MULTIPLE  # a partial result each
    elif form == Form.ASET:
        counts = [LANES] * (CHUNK_MULTIPLE // LANES)
    else:
        counts = [min(LANES, elements - first) for first in range(0, elements, LANES)]
    accumulates, out = kind_of(instruction.dst) == Kind.ACCUMULATOR, instruction.dst == OUT
    listed = []
    for beat, count in enumerate(counts):
        last = beat == len(counts) - 1
        first = step.done + beat * LANES
        listed.append(
            IssuedWord(
                step,
                beat,
                last,
                count,
                tuple(_place(code, step, beat) for code in instruction.sources),
                tuple(index_of(code) for code in instruction.sources if kind_of(code) == Kind.STREAM),
                _place(instruction.dst, step, beat),
                (instruction.dst, beat * LANES % CHUNK_MULTIPLE) if accumulates else None,
                (accumulates and form != Form.ASET) or (form == Form.FOLD and beat > 0),
                not accumulates and (form != Form.FOLD or last),
                instruction.op in SPECIAL,
                out,
                as_number(output[first : first + count]) if out and output is not None else None,
            )
        )
    return listed


@dataclass
class Pipeline:
    """The stages after issue: which of their words a word at issue waits for, or gets forwarded.

    `finish` stays empty without the parameter Pipeline. `late` takes special functions, and words right
    behind one that is there.
    """

    execute: IssuedWord | None = None
    finish: IssuedWord | None = None
    late: IssuedWord | None = None
    write: IssuedWord | None = None

    @property
    def empty(self) -> bool:
        return not any((self.execute, self.finish, self.late, self.write))

    @property
    def goes_out(self) -> bool:
        """Whether a word is on its way to the output."""
        stages = self.execute, self.finish, self.late, self.write
        return any(each is not None and each.out for each in stages)

    def waits(self, word: IssuedWord) -> list[Place]:
        """Return the words that this one reads and that are still being computed."""
        coming = {each.writes for each in (self.execute, self.finish, self.late) if each}
        if self.write and not self.write.ready:
            coming.add(self.write.writes)
        return [place for place in word.reads if place is not None and place in coming]

    def adds_on(self, word: IssuedWord) -> bool:
        """Return whether a word adds to what the word at execute computes, which takes two clocks."""
        before = self.execute
        if not PIPELINE or before is None or not word.adds:
            return False
        return word.partials is None or word.partials == before.partials

    @property
    def before(self) -> IssuedWord | None:
        """The word that the one at issue may add to at the earliest."""
        return self.finish if PIPELINE else self.execute

    def forwarded(self, word: IssuedWord) -> list[bool]:
        """Return for each operand whether it is being written in this clock."""
        done = self.write.writes if self.write and self.write.ready else None
        return [place is not None and place == done for place in word.reads]

    def others(self, word: IssuedWord) -> bool:
        """Return whether another word of a register that this one reads is being computed."""
        return self.execute is not None and self._near(word.reads, self.execute.writes)

    @staticmethod
    def _near(reads: Iterable[Place | None], written: Place | None) -> bool:
        return any(
            place is not None and written is not None and place[0] == written[0] and place[1] != written[1]
            for place in reads
        )

    def step(self, issued: IssuedWord | None) -> None:
        """Advance by a clock."""
        leaving = self.execute
        if PIPELINE:
            leaving, self.finish = self.finish, self.execute
        if leaving and (leaving.special or self.late):
            self.write, self.late = self.late, leaving
        else:
            self.write, self.late = self.late or leaving, None
        self.execute = issued

    def clear(self) -> None:
        """Forget everything."""
        self.execute = self.finish = self.late = self.write = None
