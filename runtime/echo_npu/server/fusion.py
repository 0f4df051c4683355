"""Neighbouring nodes of a graph that are emitted together: fewer commands, or a better order of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from echo_npu.formats import FORMATS
from echo_npu.server.liveness import LaterReads, meet
from echo_npu.server.operations import emit
from echo_npu.server.operations.base import Emitter, contiguous
from echo_npu.server.operations.block_rows import block_rows, packed_rows
from echo_npu.server.operations.elementwise import GATES, emit_gated_apart
from echo_npu.server.operations.rotated_rows import emit_rotated_rows, rotates_into_rows
from echo_npu.server.protocol import GraphNode, GraphTensor, TensorFlag
from echo_npu.tensor import DeviceTensor


class FusedNodes(ABC):
    """Nodes that are emitted together."""

    @property
    @abstractmethod
    def written(self) -> tuple[GraphTensor, ...]:
        """The results in memory."""

    @abstractmethod
    def emit(self, emitter: Emitter) -> None:
        """Leave the commands that do the work of all nodes."""


@dataclass(frozen=True, slots=True)
class _WeightedNorm(FusedNodes):
    norm: GraphNode
    product: GraphNode
    weights: GraphTensor

    @property
    def written(self) -> tuple[GraphTensor, ...]:
        return (self.product.destination,)

    def emit(self, emitter: Emitter) -> None:
        source = _given(self.norm, 0)
        emitter.device.rms_norm(
            emitter.view(source),
            _vector(emitter, self.weights),
            self.norm.number(0),
            out=emitter.view(self.product.destination),
        )


@dataclass(frozen=True, slots=True)
class _BiasedProduct(FusedNodes):
    product: GraphNode
    sum: GraphNode
    bias: GraphTensor

    @property
    def written(self) -> tuple[GraphTensor, ...]:
        return (self.sum.destination,)

    def emit(self, emitter: Emitter) -> None:
        packed = packed_rows(emitter, block_rows(_given(self.product, 0))[0, 0])
        rows = emitter.view(_given(self.product, 1))[0, 0]
        out = emitter.view(self.sum.destination)[0, 0]
        emitter.device.matmul(rows, packed, bias=_vector(emitter, self.bias), out=out)


@dataclass(frozen=True, slots=True)
class _RotatedRows(FusedNodes):
    rope: GraphNode
    rows: GraphNode

    @property
    def written(self) -> tuple[GraphTensor, ...]:
        return (self.rows.destination,)

    def emit(self, emitter: Emitter) -> None:
        emit_rotated_rows(emitter, self.rope, self.rows)


@dataclass(frozen=True, slots=True)
class _GatedProducts(FusedNodes):
    """The product that the function takes comes first. The vector engine computes the function while the
    matrix engine has the other product, which costs less than one command that waits for both."""

    argument: GraphNode
    gate: GraphNode
    gated: GraphNode

    @property
    def written(self) -> tuple[GraphTensor, ...]:
        return self.argument.destination, self.gate.destination, self.gated.destination

    def emit(self, emitter: Emitter) -> None:
        emit(emitter, self.argument)
        emit(emitter, self.gate)
        emit_gated_apart(emitter, self.gated)


def fused(nodes: Sequence[GraphNode]) -> list[GraphNode | FusedNodes]:
    """Return the nodes, with FusedNodes in the place of neighbours that are emitted together.

    - RMS_NORM and the MUL with its weights are one command, and so are the MUL_MAT of a single row with
      weights in blocks and the ADD of another row.
    - ROPE and SET_ROWS are one command for each run of rows.
    - Of two MUL_MAT and the gated function of their results, the product that the function takes comes first.

    Results between two nodes of one command are not written: nobody may read them later, and they are no
    outputs. What such a command writes lies apart from all that it reads.
    """
    found: list[GraphNode | FusedNodes] = []
    later = LaterReads(nodes)
    index = 0
    while index < len(nodes):
        count, made = _together(nodes, index, later)
        found.append(made or nodes[index])
        index += count
    return found


def _together(nodes: Sequence[GraphNode], index: int, later: LaterReads) -> tuple[int, FusedNodes | None]:
    """Return how many nodes from an index on are emitted together, and these."""
    for ops, rule in _RULES:
        end = index + len(ops)
        part = nodes[index:end]
        if len(part) == len(ops) and all(node.op in some for node, some in zip(part, ops, strict=True)):
            made = rule(nodes, index, later)
            if made is not None:
                return len(ops), made
    return 1, None


# --- two nodes, one command ---------------------------------------------------------------------------------


def _weighted_norm(nodes: Sequence[GraphNode], index: int, later: LaterReads) -> FusedNodes | None:
    norm, product = nodes[index : index + 2]
    weights = _vector_of(norm, product, later, index)
    return _WeightedNorm(norm, product, weights) if weights else None


def _biased_product(nodes: Sequence[GraphNode], index: int, later: LaterReads) -> FusedNodes | None:
    product, total = nodes[index : index + 2]
    weights, rows = _given(product, 0), _given(product, 1)
    single = weights.type in FORMATS and weights.elements[2:] == rows.elements[2:] == (1, 1)
    if not (single and rows.elements[1] == 1 and rows.type == "f32" and contiguous(rows)):
        return None
    bias = _vector_of(product, total, later, index)
    return _BiasedProduct(product, total, bias) if bias else None


def _rotated_rows(nodes: Sequence[GraphNode], index: int, later: LaterReads) -> FusedNodes | None:
    rope, rows = nodes[index : index + 2]
    if not rotates_into_rows(rope, rows) or meet(rope.destination, rows.destination):
        return None
    fits = _only_read_by(rope, rows, [_given(rows, 1)], later, index)
    return _RotatedRows(rope, rows) if fits else None


def _vector_of(left: GraphNode, right: GraphNode, later: LaterReads, index: int) -> GraphTensor | None:
    """Return the vector that one command can combine with the first node's result; None if there is none."""
    made, target = left.destination, right.destination
    others = [each for each in right.sources if each is not None and not _same(each, made)]
    if len(right.sources) != 2 or len(others) != 1 or not _dense(made, target, *others):
        return None
    (other,) = others
    vector = other.elements == (made.elements[0], 1, 1, 1) and made.elements == target.elements
    return other if vector and _only_read_by(left, right, [other], later, index) else None


def _only_read_by(
    left: GraphNode, right: GraphNode, others: Sequence[GraphTensor], later: LaterReads, index: int
) -> bool:
    """Return whether one command may do the work of both nodes, without the first one's result in memory.

    Nobody else reads that, and what the second node writes lies apart from all that the command reads
    meanwhile.

    Args:
        others: what the second node reads beside the first one's result.
        index: of the first node in the graph; the second one is next.
    """
    made, target = left.destination, right.destination
    return (
        not made.flags & TensorFlag.OUTPUT
        and not any(meet(each, made) for each in others)
        and not any(each is not None and meet(each, target) for each in (*left.sources, *others))
        and (_same(made, target) or not later.any(made, after=index + 1))
    )


# --- an order -----------------------------------------------------------------------------------------------


def _gated_products(nodes: Sequence[GraphNode], index: int, later: LaterReads) -> FusedNodes | None:
    left, right, gated = nodes[index : index + 3]
    x, gate = gated.source(0), gated.source(1)
    if x is None or gate is None:
        return None
    if _same(left.destination, x) and _same(right.destination, gate):
        return _GatedProducts(left, right, gated)
    turned = _same(right.destination, x) and _same(left.destination, gate)
    return _GatedProducts(right, left, gated) if turned and _independent(left, right) else None


def _independent(left: GraphNode, right: GraphNode) -> bool:
    """Return whether two nodes give the same results in either order."""
    return not any(
        each is not None and meet(each, one.destination)
        for one, other in ((left, right), (right, left))
        for each in (*other.sources, other.destination)
    )


_Ops: TypeAlias = tuple[Collection[str], ...]
_Rule: TypeAlias = Callable[[Sequence[GraphNode], int, LaterReads], FusedNodes | None]

_RULES: Final[tuple[tuple[_Ops, _Rule], ...]] = (
    (({"RMS_NORM"}, {"MUL"}), _weighted_norm),
    (({"MUL_MAT"}, {"ADD"}), _biased_product),
    (({"ROPE"}, {"SET_ROWS"}), _rotated_rows),
    (({"MUL_MAT"}, {"MUL_MAT"}, GATES), _gated_products),
)
"""Operations of neighbours, and what decides whether such neighbours belong together."""


# --- tensors ------------------------------------------------------------------------------------------------


def _given(node: GraphNode, index: int) -> GraphTensor:
    source = node.sources[index]
    assert source is not None  # the node is a supported one
    return source


def _vector(emitter: Emitter, tensor: GraphTensor) -> DeviceTensor:
    return emitter.strided(tensor, tensor.elements[:1], tensor.steps[:1])


def _same(one: GraphTensor, other: GraphTensor) -> bool:
    return (one.type, one.address, one.elements, one.steps) == (
        other.type, other.address, other.elements, other.steps,
    )  # fmt: skip


def _dense(*tensors: GraphTensor) -> bool:
    return all(each.type == "f32" and all(each.elements) and contiguous(each) for each in tensors)
