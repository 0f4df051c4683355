"""Neighbouring nodes of a graph that one command computes."""

from collections.abc import Sequence

from echo_npu.formats import FORMATS
from echo_npu.server.operations.base import Emitter, contiguous, extent, start_of
from echo_npu.server.operations.block_rows import block_rows, packed_rows
from echo_npu.server.protocol import GraphNode, GraphTensor, TensorFlag


class FusedNodes:
    """Two nodes of which the second one takes the first one's result, which nobody else reads."""

    def __init__(self, first: GraphNode, second: GraphNode, other: GraphTensor) -> None:
        self.first = first
        self.second = second
        self.other = other

    def emit(self, emitter: Emitter) -> None:
        """Leave the command that does the work of both."""
        source = self.first.sources[0]
        assert source is not None
        other = emitter.strided(self.other, self.other.elements[:1], self.other.steps[:1])
        out = emitter.view(self.second.destination)
        if self.first.op == "RMS_NORM":
            emitter.device.rms_norm(emitter.view(source), other, self.first.number(0), out=out)
            return
        rows = self.first.sources[1]
        assert rows is not None
        packed = packed_rows(emitter, block_rows(source)[0, 0])
        emitter.device.matmul(emitter.view(rows)[0, 0], packed, bias=other, out=out[0, 0])


def fused(nodes: Sequence[GraphNode]) -> list[GraphNode | FusedNodes]:
    """Return the nodes with pairs in their place where a pair is one command.

    A norm is fused with the product with its weights, and the product of a single row and weights in blocks
    with a sum. The first one's result is then not written: nobody may read it later, and it is no output. The
    second one's result lies apart from all operands.
    """
    found: list[GraphNode | FusedNodes] = []
    index = 0
    while index < len(nodes):
        pair = _pair(nodes, index)
        found.append(pair or nodes[index])
        index += 2 if pair else 1
    return found


def _pair(nodes: Sequence[GraphNode], index: int) -> FusedNodes | None:
    if index + 1 == len(nodes):
        return None
    left, right = nodes[index : index + 2]
    if (left.op, right.op) not in (("RMS_NORM", "MUL"), ("MUL_MAT", "ADD")):
        return None
    made, target = left.destination, right.destination
    others = [each for each in right.sources if each is not None and not _same(each, made)]
    if len(right.sources) != 2 or len(others) != 1 or not _dense(made, target, *others):
        return None
    (other,) = others
    if (
        made.flags & TensorFlag.OUTPUT
        or made.elements != target.elements
        or _read(made, target, nodes[index + 2 :])
    ):
        return None
    # The second result may lie where the first node's operands were, which are read meanwhile.
    if any(each is not None and _meet(each, target) for each in (*left.sources, other)):
        return None
    vector = other.elements == (made.elements[0], 1, 1, 1)
    if left.op == "RMS_NORM":
        return FusedNodes(left, right, other) if vector else None
    weights, rows = left.sources[:2]
    assert weights is not None
    assert rows is not None
    single = weights.type in FORMATS and weights.elements[2:] == rows.elements[2:] == (1, 1)
    fits = single and rows.elements[1] == 1 and vector and rows.type == "f32" and contiguous(rows)
    return FusedNodes(left, right, other) if fits else None


def _same(one: GraphTensor, other: GraphTensor) -> bool:
    return (one.type, one.address, one.elements, one.steps) == (
        other.type, other.address, other.elements, other.steps,
    )  # fmt: skip


def _dense(*tensors: GraphTensor) -> bool:
    return all(each.type == "f32" and all(each.elements) and contiguous(each) for each in tensors)


def _read(made: GraphTensor, target: GraphTensor, later: Sequence[GraphNode]) -> bool:
    """Return whether a later node may read a result before another one is written in its place."""
    if _same(made, target):
        return False
    for node in later:
        if any(each is not None and all(each.elements) and _meet(each, made) for each in node.sources):
            return True
        if _same(node.destination, made):
            return False
    return False


def _meet(one: GraphTensor, other: GraphTensor) -> bool:
    a, b = start_of(one), start_of(other)
    return a < b + extent(other) and b < a + extent(one)
