"""What tables of limits are made of: tensors, changes of nodes, and a limit of what is supported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from echo_npu.server.protocol import GraphNode, GraphTensor, TensorFlag
from tests.runtime.server.honest_nodes import dense
from tests.runtime.server.server_client import node

ADDRESS = 64

f32, f16, bf16, i8, i16, i32, i64 = (
    partial(dense, ADDRESS, name) for name in ("f32", "f16", "bf16", "i8", "i16", "i32", "i64")
)
q8_0, q4_0, q4_1, q5_k = (partial(dense, ADDRESS, name) for name in ("q8_0", "q4_0", "q4_1", "q5_K"))

Change: TypeAlias = Mapping[int | str, GraphTensor | int | float | None]
"""By number: the destination (0) or a source (from 1 on). By name: a parameter word, "p0" for example."""


def steps(tensor: GraphTensor, *given: int) -> GraphTensor:
    """Return the tensor with other steps."""
    return replace(tensor, steps=given)


def gaps(tensor: GraphTensor) -> GraphTensor:
    """Return the tensor with a gap behind each element."""
    return replace(tensor, steps=tuple(2 * step for step in tensor.steps))


def apart(tensor: GraphTensor) -> GraphTensor:
    """Return the tensor with dense rows that are further apart."""
    return replace(tensor, steps=(tensor.steps[0], *(2 * step for step in tensor.steps[1:])))


def computed(tensor: GraphTensor) -> GraphTensor:
    """Return the tensor as one that a node of the graph writes."""
    return replace(tensor, flags=TensorFlag(0))


def changed(made: GraphNode, change: Change) -> GraphNode:
    """Return a node of which some tensors or parameters are others; a float is the word of a float32."""
    tensors: list[GraphTensor | None] = [made.destination, *made.sources]
    words = list(made.parameters)
    for key, value in change.items():
        if isinstance(key, int):
            tensors += [None] * (key + 1 - len(tensors))
            assert value is None or isinstance(value, GraphTensor)
            tensors[key] = value
        else:
            assert isinstance(value, int | float)
            index = int(key[1:])
            words[index] = node("NONE", made.destination, parameters={index: value}).parameters[index]
    destination, *sources = tensors
    assert destination is not None
    return replace(made, destination=destination, sources=tuple(sources), parameters=tuple(words))


@dataclass(frozen=True)
class Limit:
    """A limit of an operation.

    Attributes:
        reason: what the refusal says.
        made: a supported node.
        refused: changes that pass the limit, each alone.
        taken: changes that do not, up to the limit.
    """

    reason: str
    made: GraphNode
    refused: Sequence[Change]
    taken: Sequence[Change] = ()

    @property
    def title(self) -> str:
        """What a test of it is called."""
        return f"{self.made.op}: {self.reason}"
