"""Vector programs given word by word."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.builders import load_program_packets
from echo_npu.spec.status import State
from echo_npu.vector.isa import Instruction
from tb.testbench import NpuTestbench


def encoded(instructions: Sequence[Instruction | int]) -> NDArray[np.uint64]:
    """Encode instructions; an int is taken as a word that is no instruction."""
    return np.array([each if isinstance(each, int) else each.encode() for each in instructions], np.uint64)


async def load(tb: NpuTestbench, code: NDArray[np.uint64]) -> None:
    """Load a program to word 0."""
    assert await tb.run(load_program_packets(tb.place(code), code.size, 0)) == State.DONE


def random_words(tb: NpuTestbench, count: int) -> int:
    """Store random int32 in weight memory; return their address."""
    return tb.place(tb.rng.integers(-(1 << 31), 1 << 31, count).astype(np.int32), "weight")
