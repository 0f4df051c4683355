"""Where the bytes of tensors are, and which nodes of a graph read them."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from echo_npu.formats import FORMATS
from echo_npu.server.operations.base import contiguous, extent, start_of
from echo_npu.server.protocol import GraphNode, GraphTensor


def meet(one: GraphTensor, other: GraphTensor) -> bool:
    """Return whether the ranges of two tensors, from the first to the last byte, overlap."""
    a, b = start_of(one), start_of(other)
    return a < b + extent(other) and b < a + extent(one)


class WrittenBytes:
    """Ranges of memory, those that the nodes so far have written."""

    def __init__(self) -> None:
        self._ranges = np.empty((64, 2), np.int64)
        self._count = 0

    def add(self, tensors: Iterable[GraphTensor]) -> None:
        """Add the ranges of tensors that are not empty."""
        for each in tensors:
            if self._count == len(self._ranges):
                self._ranges = np.concatenate([self._ranges, np.empty_like(self._ranges)])
            self._ranges[self._count] = start_of(each), start_of(each) + extent(each)
            self._count += 1

    def meet(self, tensor: GraphTensor) -> bool:
        """Return whether the range of a tensor overlaps one of them."""
        start, end = self._ranges[: self._count].T
        return bool(((start < start_of(tensor) + extent(tensor)) & (end > start_of(tensor))).any())


class LaterReads:
    """Which later nodes of a graph read a range of memory before another node writes all of it anew.

    Args:
        nodes: of the graph, in their order.
    """

    def __init__(self, nodes: Sequence[GraphNode]) -> None:
        read = [
            (index, start_of(each), start_of(each) + extent(each))
            for index, node in enumerate(nodes)
            for each in node.sources
            if each is not None and all(each.elements)
        ]
        written = [
            (index, start_of(each), start_of(each) + extent(each))
            for index, each in enumerate(node.destination for node in nodes)
            if each.type not in FORMATS and all(each.elements) and contiguous(each)
        ]
        self._read, self._written = (np.array(each, np.int64).reshape(-1, 3).T for each in (read, written))
        self._end = len(nodes)

    def any(self, tensor: GraphTensor, after: int) -> bool:
        """Return whether a node behind the index `after` reads bytes that the tensor has now.

        SET_ROWS, and whatever else writes only a part of its result, also has that among its sources.
        """
        start, end = start_of(tensor), start_of(tensor) + extent(tensor)
        nodes, first, last = self._read
        reader = self._next(nodes, (first < end) & (last > start) & (nodes > after))
        nodes, first, last = self._written
        return reader < self._end and reader <= self._next(
            nodes, (first <= start) & (last >= end) & (nodes > after)
        )

    def _next(self, nodes: NDArray[np.int64], which: NDArray[np.bool_]) -> int:
        """Return the first of the chosen nodes; the number of all nodes if there is none."""
        place = int(which.argmax()) if which.size else 0
        return int(nodes[place]) if which.size and which[place] else self._end
