"""Scatter rows into a table by their numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu import debug
from echo_npu.commands.command import Command
from echo_npu.commands.packets import MAX_ROWS, MAX_TABLE
from echo_npu.commands.strided import Loop, collapse
from echo_npu.commands.vector_command import ELEMENT_SIZES, RowIndices, Stream, vector_command
from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.operands import check_device, kind, upload
from echo_npu.ops.rows import overlap
from echo_npu.ops.types import type_name
from echo_npu.tensor import DeviceTensor
from echo_npu.vector import Program
from echo_npu.vector.kernels import cast as kernels

INDEX_TYPES = (np.dtype(np.int32), np.dtype(np.int64))
"""Types of indices on the device."""


def scatter_rows(device: CommandDevice, table: DeviceTensor, indices: Any, rows: Any) -> DeviceTensor:
    """Write each row of `rows` to the row of `table` that its index names: `table[indices] = rows`.

    Rows are written in order, so the last of several with the same index stays. If an index on the device is
    not one of a row, rows before it may be written or not.

    Args:
        table: [R, width] on the device, rows dense; R at most 2**31. It is written in place.
        indices: integers [..., n], 0 .. R - 1; a DeviceTensor is int32 or int64.
        rows: [..., n, width] of the table's dtype, or of one that `cast` converts to it, e.g. float32 for
            float16 and bfloat16.

    Returns: `table`.

    Raises:
        TypeError: a table that is no DeviceTensor, no array, indices of another type, dtypes without a cast.
        ValueError: shapes that do not fit, an empty array, a table of another device, with other axes or with
            gaps in its rows.
        IndexError: numpy indices outside of the table.
        NpuDeviceError: indices on the device outside of the table, with the code BAD_INDEX and the address.
    """
    _check(device, table, rows)
    listed = _listed(device, indices, table.shape[0])
    if tuple(rows.shape) != (*listed.shape, table.shape[1]):
        raise ValueError(
            f"scatter_rows: rows have shape {tuple(rows.shape)}; with indices of shape {listed.shape} and "
            f"a table of shape {table.shape} they have shape {(*listed.shape, table.shape[1])}"
        )
    source = upload(device, rows, "activation")
    if overlap(source, table):
        source = device.copy(source)
    if overlap(listed, table):
        listed = device.copy(listed)
    debug.npu(f"VECTOR scatter {source.shape} into {table.shape}")
    device.execute(scatter_commands(device, table, listed, source))
    return table


def _check(device: CommandDevice, table: Any, rows: Any) -> None:
    """Check the table and the type of the rows: TypeError, ValueError."""
    if not isinstance(table, DeviceTensor):
        raise TypeError(f"scatter_rows writes to a DeviceTensor, table is {kind(table)}")
    check_device(device, table)
    if not isinstance(rows, (np.ndarray, DeviceTensor)):
        raise TypeError(f"scatter_rows takes rows as a numpy array or a DeviceTensor, got {kind(rows)}")
    if table.ndim != 2 or 0 in table.shape or table.shape[0] > MAX_TABLE:
        raise ValueError(f"scatter_rows: the table has shape {table.shape}, it is [R, width]")
    height, width = table.shape
    item = table.dtype.itemsize
    dense = width == 1 or table.strides[1] == item
    if not dense or (height > 1 and table.strides[0] < width * item):
        raise ValueError(
            f"scatter_rows: the table has shape {table.shape} and strides {table.strides}: its rows have "
            "gaps or share bytes"
        )
    if rows.dtype != table.dtype and not _casts(rows.dtype, table.dtype):
        raise TypeError(
            f"scatter_rows: rows are {rows.dtype}, which has no cast to {table.dtype} of the table"
        )


def _casts(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    return type_name(source) in kernels.FROM and type_name(target) in kernels.TO


def _listed(device: CommandDevice, indices: Any, count: int) -> DeviceTensor:
    """Return the indices on the device, of one of INDEX_TYPES: TypeError, ValueError, IndexError."""
    if isinstance(indices, DeviceTensor):
        if indices.dtype not in INDEX_TYPES:
            raise TypeError(f"scatter_rows: indices on the device are int32 or int64, got {indices.dtype}")
        if 0 in indices.shape or not indices.ndim:
            raise ValueError(f"scatter_rows: indices have shape {indices.shape}; they are [..., n]")
        return upload(device, indices, "activation")
    values: NDArray[Any] = np.asarray(indices)
    if not np.issubdtype(values.dtype, np.integer):
        raise TypeError(f"scatter_rows: indices are integers, got {kind(indices)}")
    if not values.size or not values.ndim:
        raise ValueError(f"scatter_rows: indices have shape {values.shape}; they are [..., n]")
    if values.min() < 0 or values.max() >= count:
        raise IndexError(
            f"scatter_rows: indices lie in {values.min()}..{values.max()}; they must lie in 0..{count - 1}"
        )
    return device.tensor(values.astype(np.int32))


def scatter_commands(
    device: CommandDevice, table: DeviceTensor, indices: DeviceTensor, rows: DeviceTensor
) -> list[Command]:
    """Return the commands of `scatter_rows`, whose arguments are good and share no memory."""
    item = rows.dtype.itemsize
    *leading, width = rows.shape
    if width > 1 and rows.strides[-1] != item:
        rows = rows.contiguous()
    loops = collapse(leading, rows.strides[:-1], indices.strides)
    if len(loops) > 1:
        rows, indices = rows.contiguous(), indices.contiguous()
        loops = collapse(leading, rows.strides[:-1], indices.strides)
    loop = loops[0] if loops else Loop(1, (0, 0))
    program, cols, sizes = _program(table, rows)
    entry = device.load_program(program)
    along, listed = loop.strides
    return [
        vector_command(
            entry,
            rows=min(loop.count - first, MAX_ROWS),
            cols=cols,
            inputs=[Stream(rows.ptr + first * along, row_stride=along, size=sizes[0])],
            output=Stream(table.ptr, row_stride=table.strides[0], size=sizes[1]),
            passes=program.passes,
            indices=RowIndices(
                indices.ptr + first * listed,
                table.shape[0],
                wide=indices.dtype.itemsize == INDEX_TYPES[1].itemsize,
                row_stride=listed,
            ),
        ).command()
        for first in range(0, loop.count, MAX_ROWS)
    ]


def _program(table: DeviceTensor, rows: DeviceTensor) -> tuple[Program, int, tuple[int, int]]:
    """Return the program of a row, the elements that it sees, and the bytes of an element of both."""
    width = rows.shape[-1]
    if rows.dtype != table.dtype:
        program = kernels.cast(type_name(rows.dtype), type_name(table.dtype))
        return program, width, (rows.dtype.itemsize, table.dtype.itemsize)
    item = rows.dtype.itemsize
    unit = next(unit for unit in ELEMENT_SIZES if item % unit == 0)
    return kernels.cast("int32", "int32"), width * item // unit, (unit, unit)
