"""Gather rows of a table by their numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.builders import gather_command
from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.operands import check_out, kind, upload
from echo_npu.ops.rows import run, target_for
from echo_npu.tensor import DeviceTensor


def embedding(device: CommandDevice, table: Any, ids: Any, *, out: DeviceTensor | None = None) -> Any:
    """Compute `table[ids]` with one GATHER.

    Args:
        table: [V, ...] of any dtype; a DeviceTensor must be contiguous.
        ids: integers of any shape, 0 .. V - 1; a DeviceTensor is int32.
        out: a contiguous DeviceTensor of the result's shape and dtype to write to.

    Returns: [*ids.shape, *table.shape[1:]] of the table's dtype.

    Raises:
        TypeError: ids that are no integers, a table that is no array or is empty, an out of another dtype.
        ValueError: no ids, a table with gaps, an out of another shape.
        IndexError: numpy ids outside of the table.
        NpuDeviceError: ids on the device outside of the table, with the code BAD_INDEX and the id's address.
    """
    if not isinstance(table, (np.ndarray, DeviceTensor)) or not table.ndim or 0 in table.shape:
        raise TypeError(f"embedding takes a table of at least one row, got {kind(table)}")
    rows = device_indices("embedding", device, ids, table.shape[0], "ids")
    shape = (*rows.shape, *table.shape[1:])
    check_out(device, "embedding", out, shape, table.dtype)
    source = upload(device, table, "weight")
    if not source.is_contiguous:
        raise ValueError(f"embedding: table has shape {table.shape} and strides {table.strides}: it has gaps")
    operands = [source, rows]
    target = target_for(device, shape, out, operands, dtype=source.dtype, contiguous=True)
    command = gather_command(
        source.ptr,
        rows.ptr,
        target.ptr,
        rows=rows.size,
        row_bytes=source.nbytes // source.shape[0],
        table_rows=source.shape[0],
    )
    return run(device, f"GATHER {shape} of {table.shape}", [command], target, out, [table, ids])


def device_indices(op: str, device: CommandDevice, ids: Any, count: int, name: str) -> DeviceTensor:
    """Return indices as a contiguous int32 tensor on the device.

    Raises:
        TypeError: no integers.  ValueError: no index.  IndexError: numpy indices outside of 0 .. count - 1.
    """
    if isinstance(ids, DeviceTensor):
        if ids.dtype != np.int32:
            raise TypeError(f"{op}: {name} on the device are int32, got {ids.dtype}")
        return upload(device, ids, "activation").contiguous()
    values: NDArray[Any] = np.asarray(ids)
    if not np.issubdtype(values.dtype, np.integer):
        raise TypeError(f"{op}: {name} are integers, got {kind(ids)}")
    if not values.size:
        raise ValueError(f"{op}: {name} have shape {values.shape}, there are none")
    if values.min() < 0 or values.max() >= count:
        raise IndexError(
            f"{op}: {name} lie in {values.min()}..{values.max()}; they must lie in 0..{count - 1}"
        )
    return device.tensor(values.astype(np.int32))
