"""Scatter rows of a VECTOR command into a table by a list of indices (docs/vector.md)."""

from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.vector_command import Descriptor, VectorCommand

_INDEX_TYPES: Final[dict[int, np.dtype[Any]]] = {1: np.dtype(np.int32), 2: np.dtype(np.int64)}
"""The type of an index by its words."""

Place: TypeAlias = tuple[int, int, int]
"""Of a row, or of a block of rows: (batch1, batch0, row)."""


def rows_in(memory: NDArray[np.uint8], stream: Descriptor, first: Place, shape: Place) -> NDArray[np.uint8]:
    """Return a view of rows of one segment, [batch1, batch0, row, bytes].

    Args:
        first, shape: the block of rows.
    """
    strides = (stream.batch_strides[1], stream.batch_strides[0], stream.row_stride)
    start = stream.address + sum(step * stride for step, stride in zip(first, strides, strict=True))
    return np.ndarray((*shape, stream.segment_bytes), np.uint8, memory, start, (*strides, 1))


def indices_of(
    memory: NDArray[np.uint8], command: VectorCommand, first: Place, shape: Place
) -> NDArray[np.int64]:
    """Return the indices of a block of rows of a command that scatters, [batch1, batch0, row]."""
    listing = command.indices
    assert listing is not None
    found = np.ascontiguousarray(rows_in(memory, listing, first, shape))
    numbers: NDArray[np.int64] = found.view(_INDEX_TYPES[listing.seg_len]).astype(np.int64)[..., 0]
    return numbers


def first_bad_index(memory: NDArray[np.uint8], command: VectorCommand) -> tuple[int, int] | None:
    """Return the number of the first row with an index outside of the table, and the address of the index.

    The number counts the rows of all batches. None if there is no such row.
    """
    listing = command.indices
    assert listing is not None
    shape = (command.batch[1], command.batch[0], command.rows)
    # A batch stride of 0 is the same list again.
    steps = (*reversed(listing.batch_strides), listing.row_stride)
    looked_at = tuple(count if stride else 1 for count, stride in zip(shape, steps, strict=True))
    found = indices_of(memory, command, (0, 0, 0), (looked_at[0], looked_at[1], looked_at[2]))
    wrong = np.argwhere((found < 0) | (found >= command.table_rows))
    if not wrong.size:
        return None
    outer, inner, row = (int(each) for each in wrong[0])
    address = listing.address + outer * steps[0] + inner * steps[1] + row * steps[2]
    return (outer * shape[1] + inner) * shape[2] + row, address


def row_starts(memory: NDArray[np.uint8], command: VectorCommand) -> NDArray[np.int64]:
    """Return where the rows that a command scatters to begin, int64 [n], in the order of the rows.

    Indices outside of the table are left out.
    """
    shape = (command.batch[1], command.batch[0], command.rows)
    found = indices_of(memory, command, (0, 0, 0), shape)
    (inner, outer), output = command.output.batch_strides, command.output
    tables = output.address + np.add.outer(np.arange(shape[0]) * outer, np.arange(shape[1]) * inner)
    starts: NDArray[np.int64] = tables[..., None] + found * output.row_stride
    inside = (found >= 0) & (found < command.table_rows)
    return starts[inside]


def row_addresses(memory: NDArray[np.uint8], command: VectorCommand) -> NDArray[np.int64]:
    """Return `row_starts`, ascending, without equal ones."""
    return np.unique(row_starts(memory, command))


def dense_output(command: VectorCommand, shape: Place) -> Descriptor:
    """Return an output at address 0 that holds a block of rows without gaps."""
    output = command.output
    row = output.segment_bytes
    return replace(
        output, address=0, row_stride=row, batch_strides=(shape[2] * row, shape[1] * shape[2] * row)
    )


def scatter_rows(
    memory: NDArray[np.uint8], command: VectorCommand, rows: NDArray[np.uint8], first: Place, shape: Place
) -> None:
    """Write a block of rows, in order, to the rows of the table that their indices name; all are inside.

    Args:
        rows: as `dense_output` describes them.
    """
    output, table_rows = command.output, command.table_rows
    made = rows.reshape(*shape, output.segment_bytes)
    wanted = indices_of(memory, command, first, shape)
    for outer in range(shape[0]):
        for inner in range(shape[1]):
            table = rows_in(memory, output, (first[0] + outer, first[1] + inner, 0), (1, 1, table_rows))[0, 0]
            # The rows of a table do not overlap, and numpy keeps the last of what equal indices assign.
            table[wanted[outer, inner]] = made[outer, inner]
