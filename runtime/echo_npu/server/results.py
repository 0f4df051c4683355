"""Which results of a graph are left when it has run, and whether they hold a NaN."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.backends.base import Backend
from echo_npu.server.operations.base import FLOATS, TYPES, extent, start_of
from echo_npu.server.protocol import GraphNode, GraphTensor

_GREATEST: Final = {"f32": 0x7F800000, "f16": 0x7C00, "bf16": 0x7F80}
"""The bits of infinity; those of a NaN are greater, without the sign."""


class NotANumberError(Exception):
    """A graph left a NaN behind."""


def left_by(nodes: Sequence[GraphNode]) -> list[GraphNode]:
    """Return the nodes with results in floats that no later node reads or writes over."""
    found = []
    ranges = np.empty((sum(1 + len(node.sources) for node in nodes), 2), np.int64)
    known = 0
    for node in reversed(nodes):
        target = node.destination
        if not all(target.elements):
            continue
        later = ranges[:known]
        start = start_of(target)
        overlaps = (later[:, 0] < start + extent(target)) & (later[:, 1] > start)
        if target.type in FLOATS and not overlaps.any():
            found.append(node)
        for tensor in (target, *node.sources):
            if tensor is not None and all(tensor.elements):
                ranges[known] = start_of(tensor), start_of(tensor) + extent(tensor)
                known += 1
    return found[::-1]


def check_results(backend: Backend, nodes: Sequence[GraphNode]) -> None:
    """Raise NotANumberError, naming the operation, if the result of one of the nodes holds a NaN."""
    for node in nodes:
        if _has_nan(backend, node.destination):
            raise NotANumberError(f"{node.op} made a NaN")


def _has_nan(backend: Backend, tensor: GraphTensor) -> bool:
    size = TYPES[tensor.type].itemsize
    data = backend.read_mem(tensor.address, extent(tensor))
    shape, strides = tensor.elements[::-1], tensor.steps[::-1]
    bits: NDArray[np.unsignedinteger] = np.ndarray(shape, np.dtype(f"<u{size}"), data, strides=strides)
    return bool(((bits & ((1 << 8 * size - 1) - 1)) > _GREATEST[tensor.type]).any())
