"""Rows by their numbers: GET_ROWS, SET_ROWS."""

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.device import Device
from echo_npu.formats import FORMATS, named_format
from echo_npu.server.operations.base import (
    FLOATS,
    TYPES,
    Emitter,
    contiguous,
    dense_rows,
    dtype_of,
    first,
    require,
)
from echo_npu.server.operations.block_rows import (
    MOST_BLOCK_ROWS,
    block_rows,
    identity_of,
    quantised,
    values_of,
    write_rows,
)
from echo_npu.server.operations.file_blocks.formats import FILE_FORMATS
from echo_npu.server.operations.file_blocks.tensors import (
    changes_blocks,
    check_blocks,
    quantised_blocks,
    write_values,
)
from echo_npu.server.operations.moving import converts, move
from echo_npu.server.operations.table import GraphOperation
from echo_npu.server.protocol import GraphNode, GraphTensor, TensorFlag
from echo_npu.tensor import DeviceTensor

MOST_BATCHES: Final = 1 << 17
"""GET_ROWS and SET_ROWS take a command for each matrix."""

MOST_GATHERED: Final = 3 << 16
"""Rows in blocks that GET_ROWS brings together, each with two commands in the worst case."""

MOST_ROWS: Final = 1 << 20
"""SET_ROWS takes a command for each run of rows where it cannot scatter, in the worst case for each row."""


def check_get_rows(device: Device, node: GraphNode) -> None:
    """Take a table [width, rows, ...] and int32 numbers [count, ...], a list for each table."""
    table, index, target = first(node), first(node, 1), node.destination
    blocks, width = table.type in FORMATS, table.elements[0]
    if blocks:
        require(
            bool(index.flags & TensorFlag.INPUT), "numbers that the graph computes, for a table in blocks"
        )
        require(target.type == "f32", "rows of blocks as another type than float32")
        require(math.prod(index.elements) <= MOST_GATHERED, "many rows in blocks")
    elif changes_blocks(table, target):
        width *= check_blocks(device, table, target, written=False).elements
    else:
        require(converts(table.type, target.type), f"a table in {table.type}")
    require(index.type == "i32", f"numbers in {index.type}")
    require(all(table.elements), "an empty table")
    require(index.elements[3] == 1 and table.elements[2:] == index.elements[1:3], "lists of another shape")
    require(target.elements == (width, *index.elements[:3]), "a result of another shape")
    require(math.prod(table.elements[2:]) <= MOST_BATCHES, "many tables")
    require(contiguous(target), "a result with gaps")
    require((blocks or dense_rows(table)) and dense_rows(index), "tables or lists with gaps")


def emit_get_rows(emitter: Emitter, node: GraphNode) -> None:
    """Gather the rows of each table."""
    table, index, target = first(node), first(node, 1), node.destination
    if table.type in FORMATS:
        _rows_in_blocks(emitter, table, index, target)
        return
    out = emitter.view(target)
    if not changes_blocks(table, target):
        _gather(emitter, table, index, out, target.type)
        return
    form = FILE_FORMATS[table.type]
    raw = emitter.device.empty((*out.shape[:3], table.elements[0]), dtype_of(table))
    _gather(emitter, table, index, raw, table.type)
    write_values(emitter, raw.reshape(raw.size, 1).view(np.uint8), form, out, target.type)


def _gather(emitter: Emitter, table: GraphTensor, index: GraphTensor, out: DeviceTensor, target: str) -> None:
    """Gather the rows of each table into a tensor of a type."""
    tables, lists = emitter.view(table), emitter.view(index)
    for outer, inner in np.ndindex(*tables.shape[:2]):
        emitter.check_size()
        place = out[outer, inner]
        rows, numbers = tables[outer, inner].contiguous(), lists[0, outer, inner]
        if table.type == target:
            emitter.device.embedding(rows, numbers, out=place)
        else:
            move(emitter, emitter.device.embedding(rows, numbers), place, (table.type, target))


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
    blocks, width = target.type in FORMATS, target.elements[0]
    if target.type in FILE_FORMATS:
        width *= check_blocks(device, target, rows, written=True).elements
        require(dense_rows(target), "rows of blocks with gaps")
    else:
        require(rows.type in FLOATS and (blocks or target.type in FLOATS), f"{rows.type} to {target.type}")
    if blocks:
        require(math.prod(rows.elements[1:]) <= MOST_BLOCK_ROWS, "many rows in blocks")
    require(index.type in ("i32", "i64"), f"numbers in {index.type}")
    known = bool(index.flags & TensorFlag.INPUT)
    require(known or (not blocks and _scatters(target)), "numbers that the graph computes")
    require(rows.elements[0] == width, "rows of another length")
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
    item = dtype_of(target).itemsize
    width, height = target.elements[:2]
    return (width == 1 or target.steps[0] == item) and (height == 1 or target.steps[1] >= width * item)


def emit_set_rows(emitter: Emitter, node: GraphNode) -> None:
    """Write rows that are equally far apart with one command, others by scatters, one for each matrix.

    Numbers that the graph computes are known to the device alone.
    """
    rows, index, target = first(node), first(node, 1), node.destination
    if not rows.elements[1]:
        return
    if target.type in FORMATS:
        _set_blocks(emitter, rows, index, target)
        return
    source, out, types = emitter.view(rows), emitter.view(target), (rows.type, target.type)
    if target.type in FILE_FORMATS:
        source, out, types = _rows_of_blocks(emitter, rows, target), out.view(np.uint8), (target.type,) * 2
    lists, dense = emitter.view(index)[0], _scatters(target)

    def matrices() -> Iterator[tuple[DeviceTensor, DeviceTensor, tuple[int, int]]]:
        inners, outers = index.elements[1:3]
        for outer, inner in np.ndindex(*source.shape[:2]):
            yield source[outer, inner], out[outer, inner], (outer % outers, inner % inners)

    if not index.flags & TensorFlag.INPUT:
        for some, place, which in matrices():
            emitter.check_size()
            emitter.device.scatter_rows(place, lists[which], some)
        return

    def build(emitter: Emitter) -> None:
        numbers = numbers_of(emitter, index)
        for some, place, which in matrices():
            _set(emitter, some, place, numbers[which], types, lists[which] if dense else None)

    emitter.moving(build, index)


def _rows_of_blocks(emitter: Emitter, rows: GraphTensor, target: GraphTensor) -> DeviceTensor:
    """Return rows in blocks of the target's type, uint8 of the rows' shape."""
    form = FILE_FORMATS[target.type]
    values = emitter.floats(rows).contiguous()
    made = quantised_blocks(emitter, values.reshape(-1, form.elements), form)
    return made.reshape(*values.shape[:-1], target.elements[0] * form.size)


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
    "GET_ROWS": GraphOperation(check_get_rows, emit_get_rows),
    "SET_ROWS": GraphOperation(check_set_rows, emit_set_rows),
}
