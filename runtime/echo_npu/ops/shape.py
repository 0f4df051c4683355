"""Data movement: join, rearrange and fill arrays."""

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from echo_npu.commands.command import Command
from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.copy import copy, copy_commands
from echo_npu.ops.operands import check_out, kind, upload
from echo_npu.ops.rows import last_axis_commands, run, target_for
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.kernels.fill import fill


def cat(
    device: CommandDevice, arrays: Sequence[Any], axis: SupportsIndex = 0, *, out: DeviceTensor | None = None
) -> Any:
    """Join arrays along an axis, in one submission with one or a few MEMCPYs for each.

    Args:
        arrays: of one dtype, which may be any; DeviceTensors with any strides. Only the axis may differ in
            length.
        out: a DeviceTensor of the result's shape and dtype to write to.

    Raises:
        TypeError: something that is no array, or dtypes that differ.
        ValueError: shapes that do not fit, an empty list, an empty array.
    """
    if not arrays:
        raise ValueError("cat of no arrays")
    for each in arrays:
        if not isinstance(each, (np.ndarray, DeviceTensor)) or each.dtype != arrays[0].dtype:
            names = ", ".join(kind(array) for array in arrays)
            raise TypeError(f"cat takes numpy arrays or DeviceTensors of one dtype, got {names}")
    first, shapes = arrays[0], ", ".join(str(each.shape) for each in arrays)
    number = axis.__index__()
    if not -first.ndim <= number < first.ndim:
        raise ValueError(f"cat: axis {number} of arrays of shapes {shapes}")
    number %= first.ndim
    others = {(*each.shape[:number], *each.shape[number + 1 :]) for each in arrays}
    if len(others) > 1 or any(each.ndim != first.ndim or 0 in each.shape for each in arrays):
        raise ValueError(f"cat along axis {number}: shapes {shapes} do not fit, or one is empty")
    total = sum(each.shape[number] for each in arrays)
    shape = (*first.shape[:number], total, *first.shape[number + 1 :])
    check_out(device, "cat", out, shape, first.dtype)
    sources = [upload(device, each, "activation") for each in arrays]
    target = target_for(device, shape, out, sources, dtype=first.dtype)
    commands: list[Command] = []
    start = 0
    for source in sources:
        end = start + source.shape[number]
        part = target[(*(slice(None),) * number, slice(start, end))]
        commands += copy_commands(source, part)
        start = end
    return run(device, f"cat {shapes} along axis {number}", commands, target, out, arrays)


def contiguous(device: CommandDevice, x: Any, *, out: DeviceTensor | None = None) -> Any:
    """Return x in row-major order without gaps: itself or a copy. Arguments and errors as `copy`."""
    if out is None and isinstance(x, DeviceTensor) and x.is_contiguous:
        return x
    return copy(device, x, out=out)


def permute(device: CommandDevice, x: Any, axes: Sequence[int], *, out: DeviceTensor | None = None) -> Any:
    """Make a dense copy of x with its axes in another order, as `numpy.transpose`.

    Args:
        x: of any dtype; a DeviceTensor with any strides.
        axes: a permutation of x's axes.
        out: a DeviceTensor of the result's shape and dtype to write to.

    Raises:
        TypeError: no array, or dtypes that differ.  ValueError: no permutation; an empty array.
    """
    if not isinstance(x, (np.ndarray, DeviceTensor)):
        raise TypeError(f"permute takes a numpy array or a DeviceTensor, got {kind(x)}")
    if sorted(axis % max(x.ndim, 1) for axis in axes) != list(range(x.ndim)):
        raise ValueError(f"permute: axes {tuple(axes)} are no permutation of those of shape {x.shape}")
    if 0 in x.shape:
        raise ValueError(f"permute of an empty array: x has shape {x.shape}")
    view = upload(device, x, "activation").transpose(*axes)
    result = copy(device, view, out=out)
    return result if isinstance(x, DeviceTensor) or out is not None else result.to_numpy()


def transpose(device: CommandDevice, x: Any, *, out: DeviceTensor | None = None) -> Any:
    """Make a dense copy of x [..., M, N] with its last two axes exchanged. All else is as in `permute`."""
    if np.ndim(x) < 2:
        raise ValueError(f"transpose: x has shape {np.shape(x)}; it needs two axes")
    return permute(device, x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2), out=out)


def full(device: CommandDevice, shape: int | Sequence[int], value: float) -> DeviceTensor:
    """Return a new float32 tensor that the device fills with one value."""
    made = device.empty(shape)
    device.execute(fill_commands(device, made, value))
    return made


def fill_commands(device: CommandDevice, target: DeviceTensor, value: float) -> list[Command]:
    """Make the command that fills a contiguous tensor of 4-byte elements."""
    return last_axis_commands(device, fill(), [], target.reshape(-1), params=(np.float32(value),))
