"""The operations of graphs, by ggml's names, as commands of the device."""

from echo_npu.device import Device
from echo_npu.server.operations import (
    attention,
    elementwise,
    experts,
    matrix,
    moving,
    rotary,
    rows,
    training,
    windows,
)
from echo_npu.server.operations.base import Emitter, UnsupportedError, check_tensors
from echo_npu.server.operations.table import GraphOperation
from echo_npu.server.protocol import GraphNode

OPERATIONS: dict[str, GraphOperation] = {
    **matrix.OPERATIONS,
    **elementwise.OPERATIONS,
    **rows.OPERATIONS,
    **rotary.OPERATIONS,
    **moving.OPERATIONS,
    **attention.OPERATIONS,
    **experts.OPERATIONS,
    **windows.OPERATIONS,
    **training.OPERATIONS,
}

WITHOUT_COMMANDS = frozenset(("NONE", "VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"))
"""They only look at memory in another way."""


def check(device: Device, node: GraphNode) -> None:
    """Raise UnsupportedError, with the reason, unless the device computes the node."""
    if node.op in WITHOUT_COMMANDS:
        return
    operation = OPERATIONS.get(node.op)
    if operation is None:
        raise UnsupportedError(f"the operation {node.op}")
    check_tensors(node)
    if all(node.destination.elements):
        operation.check(device, node)


def emit(emitter: Emitter, node: GraphNode) -> None:
    """Leave the commands of a node that `check` passes and whose result is not empty."""
    if node.op not in WITHOUT_COMMANDS:
        OPERATIONS[node.op].emit(emitter, node)


__all__ = ["OPERATIONS", "UnsupportedError", "check", "emit"]
