"""Copies: CPY, CONT, DUP, CONCAT, REPEAT, FILL, GET_ROWS, SET_ROWS."""

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.device import Device
from echo_npu.formats import FORMATS, TILE_DEPTH, named_format
from echo_npu.ops.shape import fill_commands
from echo_npu.server.operations.base import (
    FLOATS,
    NAMES,
    TYPES,
    Emitter,
    contiguous,
    dense_rows,
    dtype_of,
    first,
    require,
    same_shape,
)
from echo_npu.server.operations.block_rows import (
    MOST_BLOCK_ROWS,
    block_rows,
    copy_rows,
    identity_of,
    quantised,
    values_of,
    write_rows,
)
from echo_npu.server.operations.elementwise import repeated, repeats
from echo_npu.server.operations.table import GraphOperation
from echo_npu.server.protocol import GraphNode, GraphTensor, TensorFlag
from echo_npu.tensor import DeviceTensor

MOST_BATCHES: Final = 1 << 17
"""GET_ROWS and SET_ROWS take a command for each matrix."""

MOST_ROWS: Final = 1 << 20
"""SET_ROWS takes a command for each run of rows where it cannot scatter, in the worst case for each row."""


def move(emitter: Emitter, source: DeviceTensor, target: DeviceTensor, types: tuple[str, str]) -> None:
    """Copy between tensors of one shape, converting where the types differ."""
    if types[0] == types[1]:
        emitter.device.copy(source, out=target)
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
    require(converts(source.type, target.type), f"{source.type} to {target.type}")
    require(math.prod(source.elements) == math.prod(target.elements), "other numbers of elements")


def emit_copy(emitter: Emitter, node: GraphNode) -> None:
    """Copy in the order of the elements."""
    source, target = first(node), node.destination
    types = source.type, target.type
    if source.type in FORMATS or target.type in FORMATS:
        _copy_blocks(emitter, source, target)
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
        copy_rows(emitter, block_rows(source).flat(), block_rows(target).flat())
    elif target.type in FORMATS:
        values = emitter.floats(source).contiguous().reshape(-1, source.elements[0])
        write_rows(emitter, quantised(emitter, values, named_format(target.type)), block_rows(target).flat())
    else:
        values = values_of(emitter, block_rows(source).flat(), identity_of(emitter))
        place = emitter.view(target) if same_shape(source, target) else _reshaped(emitter, target, source)
        move(emitter, values.T.contiguous().reshape(*place.shape), place, ("f32", target.type))


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


# --- rows by their numbers ----------------------------------------------------------------------------------


def check_get_rows(device: Device, node: GraphNode) -> None:
    """Take a table [width, rows, ...] and int32 numbers [count, ...], a list for each table."""
    table, index, target = first(node), first(node, 1), node.destination
    blocks = table.type in FORMATS
    if blocks:
        require(
            bool(index.flags & TensorFlag.INPUT), "numbers that the graph computes, for a table in blocks"
        )
        require(target.type == "f32", "rows of blocks as another type than float32")
        require(math.prod(index.elements) <= MOST_BLOCK_ROWS, "many rows in blocks")
    else:
        require(converts(table.type, target.type), f"a table in {table.type}")
    require(index.type == "i32", f"numbers in {index.type}")
    require(all(table.elements), "an empty table")
    require(index.elements[3] == 1 and table.elements[2:] == index.elements[1:3], "lists of another shape")
    require(target.elements == (table.elements[0], *index.elements[:3]), "a result of another shape")
    require(math.prod(table.elements[2:]) <= MOST_BATCHES, "many tables")
    require(contiguous(target), "a result with gaps")
    require((blocks or dense_rows(table)) and dense_rows(index), "tables or lists with gaps")


def emit_get_rows(emitter: Emitter, node: GraphNode) -> None:
    """Gather the rows of each table."""
    table, index, target = first(node), first(node, 1), node.destination
    if table.type in FORMATS:
        _rows_in_blocks(emitter, table, index, target)
        return
    tables, lists, out = emitter.view(table), emitter.view(index), emitter.view(target)
    for outer in range(tables.shape[0]):
        for inner in range(tables.shape[1]):
            emitter.check_size()
            place = out[outer, inner]
            rows, numbers = tables[outer, inner].contiguous(), lists[0, outer, inner]
            if table.type == target.type:
                emitter.device.embedding(rows, numbers, out=place)
            else:
                move(emitter, emitter.device.embedding(rows, numbers), place, (table.type, target.type))


def _rows_in_blocks(emitter: Emitter, table: GraphTensor, index: GraphTensor, target: GraphTensor) -> None:
    """Bring the tiles' rows together, and multiply the identity by them."""
    rows, count = block_rows(table), table.elements[1]
    out, identity = emitter.view(target).reshape(-1, table.elements[0]), identity_of(emitter)

    def build(emitter: Emitter) -> None:
        numbers = numbers_of(emitter, index)
        if numbers.min() < 0 or numbers.max() >= count:
            raise ValueError(f"GET_ROWS: {numbers.min()}..{numbers.max()} of {count} rows")
        outer, inner, _ = np.indices(numbers.shape)
        values = values_of(emitter, rows[outer, inner, numbers].flat(), identity)
        emitter.device.copy(values.T, out=out)

    emitter.moving(build, index)


def check_set_rows(device: Device, node: GraphNode) -> None:
    """Take rows of floats and their numbers, which are an input unless rows can be scattered."""
    rows, index, target = first(node), first(node, 1), node.destination
    blocks = target.type in FORMATS
    require(rows.type in FLOATS and (blocks or target.type in FLOATS), f"{rows.type} to {target.type}")
    if blocks:
        require(math.prod(rows.elements[1:]) <= MOST_BLOCK_ROWS, "many rows in blocks")
    require(index.type in ("i32", "i64"), f"numbers in {index.type}")
    known = bool(index.flags & TensorFlag.INPUT)
    require(known or (not blocks and _scatters(target)), "numbers that the graph computes")
    require(rows.elements[0] == target.elements[0], "rows of another length")
    require(rows.elements[2:] == target.elements[2:], "matrices of another number")
    require(all(index.elements[1:]), "no lists")
    fits = not rows.elements[2] % index.elements[1] and not rows.elements[3] % index.elements[2]
    require(
        fits and index.elements[0] == rows.elements[1] and index.elements[3] == 1, "lists that do not fit"
    )
    require(math.prod(rows.elements[2:]) <= MOST_BATCHES, "many matrices")
    require(rows.elements[1] <= MOST_ROWS, "many rows")


def _scatters(target: GraphTensor) -> bool:
    """Return whether a command can scatter to rows of this tensor: they are dense and share no bytes."""
    item = TYPES[target.type].itemsize
    width, height = target.elements[:2]
    return (width == 1 or target.steps[0] == item) and (height == 1 or target.steps[1] >= width * item)


def emit_set_rows(emitter: Emitter, node: GraphNode) -> None:
    """Write rows that are equally far apart with one command, others by scatters, one for each matrix.

    Numbers that the graph computes are known to the device alone.
    """
    rows, index, target = first(node), first(node, 1), node.destination

    types = rows.type, target.type
    if not rows.elements[1]:
        return
    if target.type in FORMATS:
        _set_blocks(emitter, rows, index, target)
        return

    dense = _scatters(target)

    def matrices(emitter: Emitter) -> Iterator[tuple[DeviceTensor, DeviceTensor, tuple[int, int]]]:
        source, out = emitter.view(rows), emitter.view(target)
        inners, outers = index.elements[1:3]
        for outer, inner in np.ndindex(*source.shape[:2]):
            yield source[outer, inner], out[outer, inner], (outer % outers, inner % inners)

    if not index.flags & TensorFlag.INPUT:
        for some, place, which in matrices(emitter):
            emitter.check_size()
            emitter.device.scatter_rows(place, emitter.view(index)[0][which], some)
        return

    def build(emitter: Emitter) -> None:
        numbers, lists = numbers_of(emitter, index), emitter.view(index)[0]
        for some, place, which in matrices(emitter):
            _set(emitter, some, place, numbers[which], types, lists[which] if dense else None)

    emitter.moving(build, index)


def _set_blocks(emitter: Emitter, rows: GraphTensor, index: GraphTensor, target: GraphTensor) -> None:
    values = emitter.floats(rows).contiguous().reshape(-1, rows.elements[0])
    made = quantised(emitter, values, named_format(target.type))
    places, count = block_rows(target), target.elements[1]

    def build(emitter: Emitter) -> None:
        numbers = numbers_of(emitter, index)
        check_numbers(numbers, count)
        outer, inner, number = np.indices(places.quants.shape[:2] + numbers.shape[2:])
        listed = numbers[outer % numbers.shape[0], inner % numbers.shape[1], number]
        write_rows(emitter, made, places[outer, inner, listed].flat())

    emitter.moving(build, index)


def numbers_of(emitter: Emitter, index: GraphTensor) -> NDArray[Any]:
    """Return the numbers [outer, inner, count]."""
    dtype = TYPES[index.type]
    shape, strides = index.elements[2::-1], index.steps[2::-1]
    return np.ndarray(shape, dtype, emitter.content(index), strides=strides)


def check_numbers(listed: NDArray[Any], count: int) -> None:
    """Raise ValueError unless the numbers are those of rows."""
    if listed.min() < 0 or listed.max() >= count:
        raise ValueError(f"SET_ROWS: {listed.min()}..{listed.max()} of {count} rows")


def _set(
    emitter: Emitter,
    source: DeviceTensor,
    target: DeviceTensor,
    listed: NDArray[Any],
    types: tuple[str, str],
    numbers: DeviceTensor | None,
) -> None:
    """Write the rows of a matrix.

    Args:
        listed: their numbers.
        numbers: the same on the device, if it can scatter to the target's rows.
    """
    check_numbers(listed, target.shape[0])
    cut = list(runs(listed.tolist()))
    counts = {(count, step) for _, count, step in cut}
    firsts = listed[[start for start, _, _ in cut]]
    apart = set(np.diff(firsts).tolist())
    width, (down, item) = target.shape[1], target.strides
    if len(cut) > 1 and len(counts) == len(apart) == 1 and min(apart) > 0:
        # The runs themselves are equally far apart: tokens of a cache that is stored by element, for example.
        (count, step), (outer,) = counts.pop(), apart
        place = part_of(target, firsts[0], (len(cut), count, width), (outer * down, step * down, item))
        if not place.overlaps_itself:
            along = source.strides[0]
            rows = DeviceTensor.borrow(
                source.device, source.ptr, place.shape, (count * along, *source.strides), source.dtype
            )
            move(emitter, rows, place, types)
            return
    if len(cut) > 1 and numbers is not None:
        emitter.check_size()
        emitter.device.scatter_rows(target, numbers, source)
        return
    for start, count, step in cut:
        emitter.check_size()
        place = part_of(target, listed[start], (count, width), (step * down, item))
        move(emitter, source[start : start + count], place, types)


def part_of(target: DeviceTensor, row: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> DeviceTensor:
    """Return a view that starts at a row."""
    return DeviceTensor.borrow(
        target.device, target.ptr + int(row) * target.strides[0], shape, strides, target.dtype
    )


def runs(numbers: list[int]) -> Iterator[tuple[int, int, int]]:
    """Cut a list into runs with a constant positive step; yield start, count and step of each."""
    start = 0
    while start < len(numbers):
        end = start + 1
        step = numbers[end] - numbers[start] if end < len(numbers) else 1
        if step > 0:
            while end < len(numbers) and numbers[end] - numbers[end - 1] == step:
                end += 1
        yield start, end - start, max(step, 1)
        start = end


OPERATIONS = {
    **dict.fromkeys(("CPY", "CONT", "DUP"), GraphOperation(check_copy, emit_copy)),
    "FILL": GraphOperation(check_fill, emit_fill),
    "CONCAT": GraphOperation(check_concat, emit_concat),
    "REPEAT": GraphOperation(check_repeat, emit_repeat),
    "GET_ROWS": GraphOperation(check_get_rows, emit_get_rows),
    "SET_ROWS": GraphOperation(check_set_rows, emit_set_rows),
}
