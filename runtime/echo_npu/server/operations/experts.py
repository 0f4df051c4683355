"""MUL_MAT_ID and ADD_ID: weights of the experts that a list picks, which the graph may compute."""

from typing import Final

import numpy as np

from echo_npu.device import Device
from echo_npu.formats import FORMATS, named_format
from echo_npu.ops.packed import PackedTensor
from echo_npu.server.operations.base import (
    FLOATS,
    NAMES,
    TYPES,
    Emitter,
    contiguous,
    dense_rows,
    first,
    require,
    whole_elements,
)
from echo_npu.server.operations.block_rows import MOST_BLOCK_ROWS, block_rows, packed_matrices
from echo_npu.server.operations.matrix import left_type
from echo_npu.server.operations.table import GraphOperation
from echo_npu.server.protocol import GraphNode, GraphTensor
from echo_npu.tensor import DeviceTensor

MOST_TOKENS: Final = 1 << 14
"""A token takes a command or two of its own."""


def _matrix_bytes(weights: GraphTensor) -> int:
    depth, columns = weights.elements[:2]
    if weights.type in FORMATS:
        return named_format(weights.type).packed_bytes(columns, depth)
    return depth * columns * TYPES[weights.type].itemsize


def _fills_tiles(weights: GraphTensor) -> bool:
    """Return whether a tensor in blocks is a whole one, with its dimensions in order."""
    row = named_format(weights.type).row_bytes(weights.elements[0])
    dense = weights.steps[1:3] == (row, row * weights.elements[1])
    return dense and whole_elements(weights) == weights.elements


def check_mul_mat_id(device: Device, node: GraphNode) -> None:
    """Take weights [K, N, experts], rows [K, used or 1, tokens], int32 numbers [used, tokens]."""
    weights, rows, numbers, target = first(node), first(node, 1), first(node, 2), node.destination
    require(all((*weights.elements, *rows.elements, *numbers.elements)), "an empty operand")
    require(rows.type in FLOATS and target.type == "f32" and numbers.type == "i32", "another type")
    require(weights.type in FLOATS or weights.type in FORMATS, f"weights in {weights.type}")
    depth, columns, _, one = weights.elements
    used, tokens = numbers.elements[:2]
    require(one == 1 and numbers.elements[2:] == (1, 1) and dense_rows(numbers), "lists with gaps")
    require(rows.elements[0] == depth and rows.elements[1] in (1, used), "rows of another shape")
    require(rows.elements[2:] == (tokens, 1) and dense_rows(rows), "rows of another shape")
    require(target.elements == (columns, used, tokens, 1) and dense_rows(target), "a result of another shape")
    require(tokens <= MOST_TOKENS, "many tokens")
    room = device.capabilities.memory.activation.size // 2
    require(used * _matrix_bytes(weights) < room, "many large experts")
    if weights.type in FORMATS and not _fills_tiles(weights):
        require(weights.elements[1] * weights.elements[2] <= MOST_BLOCK_ROWS, "many rows of parts of experts")
        require(weights.elements[2] * _matrix_bytes(weights) < room, "large parts of experts")


def emit_mul_mat_id(emitter: Emitter, node: GraphNode) -> None:
    """Gather the matrices of each token's experts and multiply by them."""
    device, weights, rows, target = emitter.device, first(node), first(node, 1), node.destination
    depth, columns, experts, _ = weights.elements
    used, tokens = target.elements[1:3]
    size = _matrix_bytes(weights)
    if weights.type in FORMATS:
        table = packed_matrices(emitter, block_rows(weights)[0])
    else:
        dense = emitter.view(weights).contiguous()  # its memory is kept until the commands below are emitted
        table = DeviceTensor.borrow(device, dense.ptr, (experts, size), (size, 1), np.dtype(np.uint8))
    numbers, out = emitter.view(first(node, 2))[0, 0], emitter.view(target)[0]
    blocks = weights.type in FORMATS
    wanted = "f32" if blocks else left_type(rows.type, weights.type)
    left = emitter.view(rows)
    if rows.type != wanted:
        left = device.cast(left, NAMES[wanted])
    left = left[0].broadcast_to(tokens, used, depth)
    for token in range(tokens):
        emitter.check_size()
        picked = device.embedding(table, numbers[token])
        if not blocks:
            kind = TYPES[weights.type]
            item = kind.itemsize
            matrices = DeviceTensor.borrow(
                device, picked.ptr, (used, columns, depth), (size, depth * item, item), kind
            )
            device.matmul(left[token][:, None], matrices, trans_b=True, out=out[token][:, None])
            continue
        form = named_format(weights.type)
        for index in range(used):
            emitter.check_size()
            tiles = picked[index].reshape(*form.tiles(columns, depth), form.tile_bytes)
            packed = PackedTensor(tiles, form, (columns, depth))
            device.matmul(left[token, index : index + 1], packed, out=out[token, index : index + 1])


def check_add_id(device: Device, node: GraphNode) -> None:
    """Take float32 [N, used, tokens], a table [N, experts] and int32 numbers [used, tokens]."""
    rows, table, numbers = first(node), first(node, 1), first(node, 2)
    require(rows.type == table.type == node.destination.type == "f32", "a type that is not float32")
    require(numbers.type == "i32" and rows.elements == node.destination.elements, "another type or shape")
    require(all((*rows.elements, *table.elements)) and contiguous(table), "a table with gaps")
    require(table.elements[0] == rows.elements[0] and table.elements[2:] == (1, 1), "another table")
    require(rows.elements[3] == 1, "more than tokens")
    require(numbers.elements == (*rows.elements[1:3], 1, 1) and dense_rows(numbers), "lists of another shape")


def emit_add_id(emitter: Emitter, node: GraphNode) -> None:
    """Gather the rows of the table and add them."""
    device = emitter.device
    table, numbers = emitter.view(first(node, 1))[0, 0], emitter.view(first(node, 2))[0, 0]
    picked = device.embedding(table, numbers.contiguous())
    device.add(emitter.view(first(node)), picked[None], out=emitter.view(node.destination))


OPERATIONS = {
    "MUL_MAT_ID": GraphOperation(check_mul_mat_id, emit_mul_mat_id),
    "ADD_ID": GraphOperation(check_add_id, emit_add_id),
}
