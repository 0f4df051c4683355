"""Record the launches of a graph while it runs for the first time."""

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from echo_npu.torch.plan import Computed, Plan


@dataclass(frozen=True, slots=True)
class Reread:
    """Numbers of a launch that follow from tensors of the host, as `plan.Computed` has them.

    Attributes:
        function: makes the numbers of the values of the arguments.
        arguments: for each (-1, the number), or (the number of the tensor, 0.0).
    """

    function: Callable[..., Sequence[float]]
    arguments: tuple[tuple[int, float], ...]

    def values(self, hosts: Sequence[torch.Tensor]) -> Sequence[float]:
        """Return the numbers, from what the tensors of this run hold."""
        return self.function(
            *(number if place < 0 else hosts[place].item() for place, number in self.arguments)
        )


@dataclass(frozen=True, slots=True)
class Launch:
    """One operator of a graph.

    Attributes:
        name: of the operator.
        plan: its packets.
        operands: for each operand its block and the offset in it, in bytes.
        params: its numbers, or how to compute them.
    """

    name: str
    plan: Plan
    operands: tuple[tuple[int, int], ...]
    params: tuple[float, ...] | Reread


class GraphRecorder:
    """Takes the launches of one run, and which block of memory each operand lies in.

    Args:
        storages: those of the inputs, which become the first blocks.
        hosts: inputs on the CPU.

    Attributes:
        launches: what ran.
        sizes: bytes of each block.
        node: which runs now.
        obstacles: for each node that cannot be recorded the reason: how the host takes part.
    """

    def __init__(self, storages: Sequence[torch.UntypedStorage], hosts: Sequence[torch.Tensor] = ()) -> None:
        self.launches: list[Launch] = []
        self.sizes: list[int] = []
        self.node: Any = None
        self.obstacles: dict[Any, str] = {}
        self._hosts = hosts
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

    def take(
        self, name: str, plan: Plan, pointers: Sequence[int], params: Sequence[float] | Computed
    ) -> None:
        """Note a launch."""
        places = [self.place(pointer) for pointer in pointers]
        known = tuple(each for each in places if each is not None)
        if len(known) < len(places):
            self.obstacle(f"{name} of a tensor that is no input")
            return
        numbers = self._reread(params) if isinstance(params, Computed) else tuple(params)
        if numbers is None:
            self.obstacle(f"{name} with a number that nothing in the graph makes")
            return
        self.launches.append(Launch(name, plan, known, numbers))

    def _reread(self, params: Computed) -> tuple[float, ...] | Reread | None:
        places: list[tuple[int, float]] = []
        for each in params.arguments:
            if not isinstance(each, torch.Tensor):
                places.append((-1, each))
                continue
            place = next((i for i, host in enumerate(self._hosts) if host is each), None)
            if place is None:
                return None
            places.append((place, 0.0))
        if all(place < 0 for place, _ in places):
            return tuple(params.values())
        return Reread(params.function, tuple(places))

    def place(self, pointer: int) -> tuple[int, int] | None:
        """Return the block of an address and the offset in it; None for memory of others."""
        number = bisect.bisect(self._starts, pointer) - 1
        if number < 0 or pointer >= self._blocks[number][1]:
            return None
        return self._blocks[number][2], pointer - self._blocks[number][0]

    def obstacle(self, what: str) -> None:
        """Note that the host takes part in the node that runs; the first reason counts."""
        self.obstacles.setdefault(self.node, what)
