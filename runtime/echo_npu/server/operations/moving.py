"""Copies: CPY, CONT, DUP, CONCAT, REPEAT, FILL."""

import math

import numpy as np

from echo_npu.device import Device
from echo_npu.formats import FORMATS, TILE_DEPTH, named_format
from echo_npu.ops.rows import overlap
from echo_npu.ops.shape import fill_commands
from echo_npu.server.operations.base import (
    FLOATS,
    NAMES,
    Emitter,
    contiguous,
    dtype_of,
    first,
    require,
    same_shape,
)
from echo_npu.server.operations.block_rows import (
    MOST_BLOCK_ROWS,
    BlockRows,
    block_rows,
    copy_rows,
    fresh_rows,
    identity_of,
    quantised,
    values_of,
    write_rows,
)
from echo_npu.server.operations.elementwise import repeated, repeats
from echo_npu.server.operations.file_blocks.formats import FILE_FORMATS
from echo_npu.server.operations.file_blocks.tensors import (
    changes_blocks,
    check_file_copy,
    quantised_blocks,
    raw_blocks,
    write_values,
)
from echo_npu.server.operations.table import GraphOperation
from echo_npu.server.protocol import GraphNode, GraphTensor
from echo_npu.tensor import DeviceTensor


def move(emitter: Emitter, source: DeviceTensor, target: DeviceTensor, types: tuple[str, str]) -> None:
    """Copy between tensors of one shape, converting where the types differ; they may overlap."""
    if types[0] == types[1]:
        if (source.ptr, source.strides) != (target.ptr, target.strides):
            apart = emitter.device.copy(source) if overlap(source, target) else source
            emitter.device.copy(apart, out=target)
    else:
        emitter.device.cast(source, NAMES[types[1]], out=target)


def converts(source: str, target: str) -> bool:
    """Return whether a copy may change one type into the other."""
    return source == target or (source in NAMES and target in NAMES)


# --- copies -------------------------------------------------------------------------------------------------


def check_copy(device: Device, node: GraphNode) -> None:
    """Take any strides on both sides, and as many elements."""
    source, target = first(node), node.destination
    if source.type in FORMATS or target.type in FORMATS:
        _check_block_copy(source, target)
        return
    if changes_blocks(source, target):
        check_file_copy(device, source, target)
        return
    require(converts(source.type, target.type), f"{source.type} to {target.type}")
    require(math.prod(source.elements) == math.prod(target.elements), "other numbers of elements")


def emit_copy(emitter: Emitter, node: GraphNode) -> None:
    """Copy in the order of the elements."""
    source, target = first(node), node.destination
    types = source.type, target.type
    if source.type in FORMATS or target.type in FORMATS:
        _copy_blocks(emitter, source, target)
    elif changes_blocks(source, target):
        _copy_file_blocks(emitter, source, target)
    elif same_shape(source, target):
        move(emitter, emitter.view(source), emitter.view(target), types)
    elif contiguous(source):
        move(emitter, _reshaped(emitter, source, target), emitter.view(target), types)
    elif contiguous(target):
        move(emitter, emitter.view(source), _reshaped(emitter, target, source), types)
    else:
        dense = emitter.view(source).contiguous()
        move(emitter, dense.reshape(*target.elements[::-1]), emitter.view(target), types)


def _reshaped(emitter: Emitter, tensor: GraphTensor, like: GraphTensor) -> DeviceTensor:
    """Return a contiguous tensor in the shape of another one."""
    size = dtype_of(tensor).itemsize
    shape = like.elements[::-1]
    strides = [size * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return emitter.strided(tensor, shape, strides)


def _check_block_copy(source: GraphTensor, target: GraphTensor) -> None:
    """Take as many rows of one length: of the same blocks, or of floats on one side."""
    blocks = target if target.type in FORMATS else source
    floats = target if blocks is source else source
    require(source.type == target.type or floats.type in FLOATS, "other blocks")
    require(source.elements[0] == target.elements[0], "rows of another length")
    rows = math.prod(source.elements[1:])
    require(math.prod(target.elements[1:]) == rows <= MOST_BLOCK_ROWS, "many rows, or other numbers of them")
    require(
        source.type == target.type or same_shape(source, target) or contiguous(floats), "floats with gaps"
    )


def _copy_blocks(emitter: Emitter, source: GraphTensor, target: GraphTensor) -> None:
    if source.type == target.type:
        _copy_within(emitter, block_rows(source).flat(), block_rows(target).flat())
    elif target.type in FORMATS:
        values = emitter.floats(source).contiguous().reshape(-1, source.elements[0])
        write_rows(emitter, quantised(emitter, values, named_format(target.type)), block_rows(target).flat())
    else:
        values = values_of(emitter, block_rows(source).flat(), identity_of(emitter))
        place = emitter.view(target) if same_shape(source, target) else _reshaped(emitter, target, source)
        move(emitter, values.T.contiguous().reshape(*place.shape), place, ("f32", target.type))


def _copy_within(emitter: Emitter, source: BlockRows, target: BlockRows) -> None:
    """Copy rows, some of which may be rows of both."""
    if np.array_equal(source.quants, target.quants):
        return
    if np.intersect1d(source.quants, target.quants).size:
        between = fresh_rows(emitter, source.form, source.depth, len(source.quants))
        copy_rows(emitter, source, between[1])
        source = between[1]
    copy_rows(emitter, source, target)


def _copy_file_blocks(emitter: Emitter, source: GraphTensor, target: GraphTensor) -> None:
    if target.type in FILE_FORMATS:
        form, place = FILE_FORMATS[target.type], emitter.view(target)
        values = emitter.floats(source).contiguous().reshape(-1, form.elements)
        made = quantised_blocks(emitter, values, form).view(place.dtype)
        emitter.device.copy(made.reshape(*place.shape), out=place)
        return
    raw = raw_blocks(emitter, source)
    write_values(emitter, raw, FILE_FORMATS[source.type], emitter.view(target), target.type)


def check_concat(device: Device, node: GraphNode) -> None:
    """Take two tensors of one type."""
    left, right, target = first(node), first(node, 1), node.destination
    axis = node.integer(0)
    require(left.type == right.type == target.type, "types that differ")
    require(0 <= axis < 4 and all((*left.elements, *right.elements)), f"the dimension {axis}")
    result = list(left.elements)
    result[axis] += right.elements[axis]
    require(target.elements == tuple(result), "a result of another shape")
    require(all(left.elements[i] == right.elements[i] for i in range(4) if i != axis), "shapes that differ")
    if target.type in FORMATS:
        require(math.prod(target.elements[1:]) <= MOST_BLOCK_ROWS, "many rows in blocks")
        require(axis > 0 or not left.elements[0] % TILE_DEPTH, "blocks that begin inside a tile")


def emit_concat(emitter: Emitter, node: GraphNode) -> None:
    """Copy both to their places."""
    if node.destination.type in FORMATS:
        _concat_blocks(emitter, node)
        return
    left, right, target = (emitter.view(each) for each in (first(node), first(node, 1), node.destination))
    axis = 3 - node.integer(0)
    middle = left.shape[axis]
    before: tuple[slice, ...] = (slice(None),) * axis
    emitter.device.copy(left, out=target[(*before, slice(None, middle))])
    emitter.device.copy(right, out=target[(*before, slice(middle, None))])


def _concat_blocks(emitter: Emitter, node: GraphNode) -> None:
    left, right, target = (block_rows(each) for each in (first(node), first(node, 1), node.destination))
    axis, middle = 3 - node.integer(0), first(node).elements[node.integer(0)]
    if axis == 3:
        ends = target.columns(0, middle), target.columns(middle, target.depth)
    else:
        before: tuple[slice, ...] = (slice(None),) * axis
        ends = target[(*before, slice(None, middle))], target[(*before, slice(middle, None))]
    for source, end in zip((left, right), ends, strict=True):
        copy_rows(emitter, source.flat(), end.flat())


def check_repeat(device: Device, node: GraphNode) -> None:
    """Take a tensor of any type that repeats to the result's shape."""
    require(first(node).type == node.destination.type, "types that differ")
    require(repeats(first(node), node.destination), "a shape that does not repeat")


def emit_repeat(emitter: Emitter, node: GraphNode) -> None:
    """Copy it as often as it repeats."""
    target, source = repeated(emitter.view(node.destination), emitter.view(first(node)))
    emitter.device.copy(source.broadcast_to(*target.shape), out=target)


def check_fill(device: Device, node: GraphNode) -> None:
    """Write dense float32."""
    require(node.destination.type == "f32" and contiguous(node.destination), "a result with gaps")


def emit_fill(emitter: Emitter, node: GraphNode) -> None:
    """Write one value everywhere."""
    target = emitter.view(node.destination)
    emitter.device.execute(fill_commands(emitter.device, target, node.number(0)))


OPERATIONS = {
    **dict.fromkeys(("CPY", "CONT", "DUP"), GraphOperation(check_copy, emit_copy)),
    "FILL": GraphOperation(check_fill, emit_fill),
    "CONCAT": GraphOperation(check_concat, emit_concat),
    "REPEAT": GraphOperation(check_repeat, emit_repeat),
}
