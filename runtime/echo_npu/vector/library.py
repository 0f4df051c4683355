"""Place programs in program memory on first use; evict the least recently used ones."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from echo_npu.errors import NpuProgramMemoryError
from echo_npu.vector.program import Program

Run: TypeAlias = tuple[int, list[Program]]
"""A word of program memory and the programs that lie from there on, one after another."""


@dataclass(frozen=True, slots=True)
class _Place:
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


class ProgramLibrary:
    """Places programs, first fit from word 0.

    A program that was asked for since the last submission stays, since a command that names its entry may not
    have been submitted.

    Args:
        size: words of program memory.
        load: writes the programs of a run into program memory, after all commands submitted before.
    """

    def __init__(self, size: int, load: Callable[[Run], None]) -> None:
        self._size = size
        self._load = load
        self._places: OrderedDict[bytes, _Place] = OrderedDict()  # least recently used first
        self._wanted: set[bytes] = set()

    def forget(self) -> None:
        """Regard the content of program memory as unknown."""
        self._places.clear()
        self._wanted.clear()

    def submitted(self) -> None:
        """Note that every entry that was returned has been submitted."""
        self._wanted.clear()

    def entries(self, programs: Sequence[Program]) -> list[int]:
        """Return the entries of programs, all of which are then loaded at the same time.

        Raises:
            NpuProgramMemoryError: they do not fit, together with those asked for since the last submission.
        """
        before = set(self._wanted)
        self._wanted.update(program.code for program in programs)
        missing = {program.code: program for program in programs if program.code not in self._places}
        placed: list[tuple[_Place, Program]] = []
        try:
            for program in missing.values():
                placed.append((self._place(program), program))
            wanted = set(self._wanted)
            for run in _runs(placed):
                self._load(run)
            self._wanted = wanted  # only the loads were submitted meanwhile
        except BaseException:
            for program in missing.values():
                self._places.pop(program.code, None)
            self._wanted = before
            raise
        for program in programs:
            self._places.move_to_end(program.code)
        return [self._places[program.code].start for program in programs]

    def _place(self, program: Program) -> _Place:
        while (start := self._hole(len(program))) is None:
            victim = next((code for code in self._places if code not in self._wanted), None)
            if victim is None:
                words = len(program) + sum(place.length for place in self._places.values())
                raise NpuProgramMemoryError([program.name], words, self._size)
            del self._places[victim]
        place = self._places[program.code] = _Place(start, len(program))
        return place

    def _hole(self, length: int) -> int | None:
        """Return the first word of the lowest hole that is long enough; None if there is none."""
        start = 0
        for place in sorted(self._places.values(), key=lambda each: each.start):
            if place.start - start >= length:
                return start
            start = place.end
        return start if self._size - start >= length else None


def _runs(placed: Sequence[tuple[_Place, Program]]) -> list[Run]:
    """Group adjacent programs, in ascending order."""
    runs: list[Run] = []
    end = -1
    for place, program in sorted(placed, key=lambda each: each[0].start):
        if place.start == end:
            runs[-1][1].append(program)
        else:
            runs.append((place.start, [program]))
        end = place.end
    return runs
