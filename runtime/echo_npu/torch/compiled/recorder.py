"""Record the launches of a graph while it runs for the first time."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from echo_npu.torch.plan import Plan


@dataclass(frozen=True, slots=True)
class Launch:
    """One operator of a graph.

    Attributes:
        name: of the operator.
        plan: its packets.
        operands: for each operand its block and the offset in it, in bytes.
        params: its numbers.
    """

    name: str
    plan: Plan
    operands: tuple[tuple[int, int], ...]
    params: tuple[float, ...]


class GraphRecorder:
    """Takes the launches of one run, and which block of memory each operand lies in.

    Args:
        storages: those of the inputs and constants, which become the first blocks.

    Attributes:
        launches: what ran.
        sizes: bytes of each block.
        obstacles: what cannot be recorded, because the host took part.
    """

    def __init__(self, storages: Sequence[torch.UntypedStorage]) -> None:
        self.launches: list[Launch] = []
        self.sizes: list[int] = []
        self.obstacles: list[str] = []
        self._starts: list[int] = []
        self._blocks: list[tuple[int, int, int]] = []  # (start, end, block), ascending
        for storage in storages:
            self.allocated(storage.data_ptr(), storage.nbytes())

    def allocated(self, address: int, nbytes: int) -> None:
        """Note a new block, in place of those that were there before."""
        end = address + nbytes
        self._blocks = [each for each in self._blocks if each[1] <= address or each[0] >= end]
        bisect.insort(self._blocks, (address, end, len(self.sizes)))
        self._starts = [each[0] for each in self._blocks]
        self.sizes.append(nbytes)

    def take(self, name: str, plan: Plan, pointers: Sequence[int], params: Sequence[float]) -> None:
        """Note a launch."""
        places = [self.place(pointer) for pointer in pointers]
        known = tuple(each for each in places if each is not None)
        if len(known) < len(places):
            self.obstacle(f"{name} of a tensor that is no input")
            return
        self.launches.append(Launch(name, plan, known, tuple(params)))

    def place(self, pointer: int) -> tuple[int, int] | None:
        """Return the block of an address and the offset in it; None for memory of others."""
        number = bisect.bisect(self._starts, pointer) - 1
        if number < 0 or pointer >= self._blocks[number][1]:
            return None
        return self._blocks[number][2], pointer - self._blocks[number][0]

    def obstacle(self, what: str) -> None:
        """Note that the host takes part in the graph."""
        if what not in self.obstacles:
            self.obstacles.append(what)
