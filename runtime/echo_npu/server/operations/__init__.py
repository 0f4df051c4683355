"""The operations of graphs, by ggml's names, as commands of the device."""

from echo_npu.device import Device
from echo_npu.formats import FORMATS
from echo_npu.server.operations import (
    attention,
    elementwise,
    experts,
    matrix,
    moving,
    numbered_rows,
    rotary,
    rows,
    training,
    windows,
)
from echo_npu.server.operations.base import Emitter, UnsupportedError, check_tensors, require
from echo_npu.server.operations.block_rows import check_block_rows
from echo_npu.server.operations.table import GraphOperation
from echo_npu.server.protocol import GraphNode

OPERATIONS: dict[str, GraphOperation] = {
    **matrix.OPERATIONS,
    **elementwise.OPERATIONS,
    **rows.OPERATIONS,
    **rotary.OPERATIONS,
    **moving.OPERATIONS,
    **numbered_rows.OPERATIONS,
    **attention.OPERATIONS,
    **experts.OPERATIONS,
    **windows.OPERATIONS,
    **training.OPERATIONS,
}

TAKE_BLOCKS = frozenset(("MUL_MAT", "MUL_MAT_ID", "GET_ROWS", "SET_ROWS", "CPY", "CONT", "DUP", "CONCAT"))
MAKE_BLOCKS = frozenset(("SET_ROWS", "CPY", "CONT", "DUP", "CONCAT"))
"""Operations with sources, or a result, in blocks. The last source of SET_ROWS and CPY is the result."""

MOVE = frozenset(("CPY", "CONT", "DUP", "CONCAT", "REPEAT", "GET_ROWS", "SET_ROWS"))
"""Operations that take types as a file has them, whole elements or blocks."""

WITHOUT_COMMANDS = frozenset(("NONE", "VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"))
"""They only look at memory in another way."""


def check(device: Device, node: GraphNode) -> None:
    """Raise UnsupportedError, with the reason, unless the device computes the node."""
    if node.op in WITHOUT_COMMANDS:
        return
    operation = OPERATIONS.get(node.op)
    if operation is None:
        raise UnsupportedError(f"the operation {node.op}")
    check_tensors(device, node)
    for tensor in (node.destination, *node.sources):
        if tensor is None or not all(tensor.elements):
            continue
        if tensor.type in FORMATS:
            check_block_rows(device, tensor)
            blocks = node.op in TAKE_BLOCKS if tensor is not node.destination else node.op in MAKE_BLOCKS
            require(blocks, "a tensor in blocks")
            require(tensor.type in device.capabilities.block_formats, f"the device has no {tensor.type}")
        else:
            require(not tensor.item or node.op in MOVE, f"the type {tensor.type}")
    if all(node.destination.elements):
        operation.check(device, node)


def emit(emitter: Emitter, node: GraphNode) -> None:
    """Leave the commands of a node that `check` passes and whose result is not empty."""
    if node.op not in WITHOUT_COMMANDS:
        OPERATIONS[node.op].emit(emitter, node)


__all__ = ["OPERATIONS", "WITHOUT_COMMANDS", "UnsupportedError", "check", "emit"]
