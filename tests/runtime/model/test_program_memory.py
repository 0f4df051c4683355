"""Program memory: executable words after loads anywhere, some of which fail."""

import numpy as np

from echo_npu.model.program_memory import ProgramMemory
from echo_npu.vector.isa import Instruction, Op

END = np.full(2, Instruction(Op.END).encode(), dtype=np.uint64)


def executable(memory: ProgramMemory) -> set[int]:
    """Return the numbers of the executable words."""
    return {number for number in range(-1, memory.size + 2) if memory[number] is not None}


def test_words_between_loads() -> None:
    memory = ProgramMemory(16)
    assert executable(memory) == set()
    memory.load(9, END)
    assert executable(memory) == {9, 10}
    memory.load(2, END)
    assert executable(memory) == {2, 3, 9, 10}
    memory.load(14, END)
    assert executable(memory) == {2, 3, 9, 10, 14, 15}
    assert memory.loaded == 16


def test_what_was_there_before_a_reset() -> None:
    memory = ProgramMemory(16)
    memory.load(0, np.full(16, END[0]))
    memory.loaded = 0
    memory.load(5, END)
    assert executable(memory) == {5, 6}


def test_a_load_that_failed() -> None:
    memory = ProgramMemory(16)
    memory.load(0, np.full(8, END[0]))
    memory.give_up(6, 4)
    assert executable(memory) == set(range(6))
    assert memory.loaded == 8
    memory.load(10, END)
    assert executable(memory) == {*range(6), 10, 11}
