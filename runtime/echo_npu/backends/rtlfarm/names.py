"""The names of the vector programs that the host loads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from echo_npu.vector.program import Program


class ProgramNames:
    """Passes the names of programs on; in place of a timeline, which the farm does not have.

    Args:
        describe: gets what one LOAD_PROGRAM loads, and the name of each program in it by its first word.
    """

    def __init__(self, describe: Callable[[bytes, Sequence[tuple[int, str]]], None]) -> None:
        self._describe = describe

    def describe(self, programs: Sequence[Program]) -> None:
        at, places = 0, []
        for program in programs:
            places.append((at, program.name))
            at += len(program)
        self._describe(b"".join(program.code for program in programs), places)

    def span(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()
