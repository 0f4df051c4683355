"""The program memory of the vector engine."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.vector.isa import OUT, Form, Instruction, Kind, index_of, kind_of

ILLEGAL: Final = np.uint64(2**64 - 1)
"""The value of words that were never loaded: no opcode has these bits."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """An instruction that the engine executes, and facts about its operands.

    Attributes:
        single: it processes only element 0.
        streams: the input streams whose windows it reads.
        row_register: it reads or writes w0 or w1.
        writes_out: its destination is the output.
    """

    instruction: Instruction
    form: Form
    single: bool
    streams: tuple[int, ...]
    row_register: bool
    writes_out: bool


def decode(word: int) -> Decoded | None:
    """Decode a word; None for an unknown opcode or an illegal operand."""
    try:
        instruction = Instruction.decode(word)
    except ValueError:
        return None
    if instruction.illegal():
        return None
    sources = instruction.sources
    form = instruction.form
    data = form in (Form.ALU, Form.ASET, Form.FOLD)
    kinds = [kind_of(code) for code in (*sources, instruction.dst)] if data else []
    return Decoded(
        instruction,
        form,
        single=data and (instruction.one or kinds[-1] == Kind.SCALAR),
        streams=tuple(sorted({index_of(code) for code in sources if kind_of(code) == Kind.STREAM})),
        row_register=Kind.ROW_REGISTER in kinds,
        writes_out=data and instruction.dst == OUT,
    )


class ProgramMemory:
    """Words of 64 bits.

    A program may begin below the highest word that was ever loaded. Words below it that were not loaded are
    illegal.

    Attributes: size (words), loaded (words from 0 to the highest one that was ever loaded), version (another
    number after each change).
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.loaded = 0
        self.version = 0
        self._words = np.zeros(size, dtype=np.uint64)
        self._decoded: dict[int, Decoded | None] = {}

    @property
    def words(self) -> NDArray[np.uint64]:
        """The words from 0 to the highest one that was ever loaded."""
        return self._words[: self.loaded]

    def load(self, at: int, words: NDArray[np.uint64]) -> None:
        """Store words from number `at` on; they must fit."""
        self._words[self.loaded : at] = ILLEGAL
        self._words[at : at + words.size] = words
        self.loaded = max(self.loaded, at + words.size)
        self._decoded.clear()
        self.version += 1

    def give_up(self, at: int, count: int) -> None:
        """Make `count` words from number `at` on illegal, after a load of them has failed."""
        self._words[at : at + count] = ILLEGAL
        self._decoded.clear()
        self.version += 1

    def __getitem__(self, number: int) -> Decoded | None:
        """Return the instruction in a word; None if it is not loaded or not legal."""
        if number not in self._decoded:
            known = 0 <= number < self.loaded
            self._decoded[number] = decode(int(self._words[number])) if known else None
        return self._decoded[number]
