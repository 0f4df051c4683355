"""Copies that the device makes."""

from typing import Any

import numpy as np

from echo_npu import debug
from echo_npu.commands.builders import memcpy_command
from echo_npu.commands.command import Command
from echo_npu.commands.packets import MAX_ROWS
from echo_npu.commands.strided import Loop, chunks, collapse
from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.operands import check_out, upload
from echo_npu.tensor import DeviceTensor


def copy(device: CommandDevice, src: Any, *, out: DeviceTensor | None = None) -> Any:
    """Copy `src`, in row-major order, with the device's MEMCPY.

    Args:
        src: an array of any dtype, or a DeviceTensor with any strides.
        out: a DeviceTensor of the same shape and dtype to write to; their memory may not overlap.

    Returns: `out`, or a new array of the kind that `src` is.

    Raises:
        TypeError: no array, or dtypes that differ.  ValueError: shapes that differ, or an empty array.
    """
    if not isinstance(src, (np.ndarray, DeviceTensor)):
        raise TypeError(f"copy takes a numpy array or a DeviceTensor, got {type(src).__name__}")
    if 0 in src.shape:
        raise ValueError(f"copy of an empty array: src has shape {src.shape}")
    check_out(device, "copy", out, src.shape, src.dtype)
    source = upload(device, src, "activation")
    target = device.empty(src.shape, src.dtype) if out is None else out
    debug.npu(f"MEMCPY {src.shape} {src.dtype}")
    device.execute(copy_commands(source, target))
    return target if isinstance(src, DeviceTensor) or out is not None else target.to_numpy()


def copy_commands(src: DeviceTensor, dst: DeviceTensor) -> list[Command]:
    """Make the MEMCPYs of a copy between tensors of one shape and dtype, with any strides."""
    item = src.dtype.itemsize
    loops = collapse(src.shape, src.strides, dst.strides)
    nbytes = item
    if loops and loops[-1].strides == (item, item):
        nbytes *= loops.pop().count
    rows = Loop(1, (0, 0))
    # A row stride of 0 means dense, so a loop that reads the same bytes again must be a batch.
    fit = [i for i, loop in enumerate(loops) if _may_be_rows(loop, nbytes)]
    if fit:
        rows = loops.pop(fit[-1])
    return [
        memcpy_command(
            src.ptr + chunk.offsets[0],
            dst.ptr + chunk.offsets[1],
            nbytes,
            rows=rows.count,
            row_strides=rows.strides,
            batch=chunk.batch,
            src_batch_strides=chunk.strides[0],
            dst_batch_strides=chunk.strides[1],
        )
        for chunk in chunks(loops, 2)
    ]


def _may_be_rows(loop: Loop, nbytes: int) -> bool:
    """Return whether the steps of a loop can be the rows of a command, of `nbytes` bytes each."""
    source, target = loop.strides
    return bool(source) and target >= nbytes and loop.count <= MAX_ROWS
