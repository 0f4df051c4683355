"""Reductions over any axes."""

import math
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.command import Command
from echo_npu.commands.strided import collapse
from echo_npu.commands.vector_command import Stream
from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.operands import check_out, require_float32, upload
from echo_npu.ops.rows import (
    Line,
    check_segments,
    column_commands,
    line,
    row_commands,
    run,
    single,
    target_for,
)
from echo_npu.tensor import DeviceTensor
from echo_npu.vector import Program
from echo_npu.vector.kernels import reduce as kernels

Axes = SupportsIndex | Sequence[SupportsIndex] | None


def reduction(
    device: CommandDevice,
    op: str,
    x: Any,
    axis: Axes = None,
    keepdims: bool = False,
    *,
    out: DeviceTensor | None = None,
) -> Any:
    """Compute the sum, mean, maximum or minimum over axes, with the shapes of numpy.

    A sum over the last axis has 16 partial sums, which are added in their order; element i belongs to sum
    i mod 16. A sum over another axis is in ascending order if x is contiguous along one that remains, else as
    over the last one. A mean is the sum divided by the count. `out` changes no bit.

    Args:
        op: "sum", "mean", "max" or "min".
        x: float32 of any shape; a DeviceTensor with any strides.
        axis: one or several; None: all.
        keepdims: keep the reduced axes, with one element.
        out: a DeviceTensor of the result's shape to write to.

    Returns: float32; a NaN among the elements gives NaN.

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: an axis that x does not have or that is given twice; an empty array.
    """
    require_float32(op, x=x)
    axes = _axes(op, x, axis)
    shape = _result_shape(x.shape, axes, keepdims)
    check_out(device, op, out, shape)
    source = upload(device, x, "activation")
    target = target_for(device, shape, out, [source], contiguous=True)  # gaps in it would change the order
    commands, keep = reduction_commands(device, op, source, axes, _with_axes(target, axes, keepdims))
    result = run(device, f"{op} {x.shape} over axes {axes}", commands, target, out, [x])
    del keep
    return result


def argmax(
    device: CommandDevice,
    x: Any,
    axis: SupportsIndex | None = None,
    keepdims: bool = False,
    *,
    out: DeviceTensor | None = None,
) -> Any:
    """Find the position of the first greatest element, as `numpy.argmax`; NaN is greater than any number.

    Args:
        x: float32 of any shape; a DeviceTensor with any strides.
        axis: None: the flattened array.
        keepdims: keep the reduced axes, with one element.
        out: an int32 DeviceTensor of the result's shape to write to.

    Returns: int32.

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: an axis that x does not have; an empty array; 2**31 - 1 elements or more along the axis.
    """
    require_float32("argmax", x=x)
    axes = _axes("argmax", x, axis)
    shape = _result_shape(x.shape, axes, keepdims)
    check_out(device, "argmax", out, shape, np.int32)
    source = upload(device, x, "activation")
    target = target_for(device, shape, out, [source], dtype=np.int32)
    view = _with_axes(target, axes, keepdims)
    if axis is None and source.ndim != 1:
        # The position counts in row-major order.
        source, axes = source.contiguous().reshape(-1), (0,)
        view = target.reshape(1)
    commands = _one_axis(device, kernels.argmax, source, axes[0], view, ())
    return run(device, f"argmax {x.shape} over axes {axes}", commands, target, out, [x])


def reduction_commands(
    device: CommandDevice, op: str, x: DeviceTensor, axes: Sequence[int], target: DeviceTensor
) -> tuple[list[Command], list[DeviceTensor]]:
    """Make the commands of a reduction; keep the intermediate tensors until they have run.

    Args:
        target: of x's rank; the reduced axes have one element.

    Returns: (commands, intermediate tensors).
    """
    count = float(np.prod([x.shape[axis] for axis in axes], dtype=np.float64))
    keep: list[DeviceTensor] = []
    commands: list[Command] = []

    def program(last: bool, *, column: bool = False) -> Program:
        if op == "mean" and last:
            return kernels.mean(column=column)
        return kernels.reduction("add" if op in ("sum", "mean") else op, column=column)

    remaining = list(axes)
    while len(remaining) > 1 and _row(x, remaining) is None:
        axis = remaining.pop()
        shape = tuple(1 if i == axis else size for i, size in enumerate(x.shape))
        keep.append(device.empty(shape))
        commands += _one_axis(device, lambda column: program(False, column=column), x, axis, keep[-1], ())
        x = keep[-1]
    row = _row(x, remaining)
    if row is None:
        commands += _one_axis(
            device, lambda column: program(True, column=column), x, remaining[0], target, (count,)
        )
    else:
        leading = [size for i, size in enumerate(x.shape) if i not in remaining]
        commands += row_commands(
            device,
            program(True),
            leading,
            [row],
            single(_without(target, remaining), leading),
            cols=math.prod(x.shape[axis] for axis in remaining),
            params=(count,),
        )
    return commands, keep


def _row(x: DeviceTensor, axes: Sequence[int]) -> Line | None:
    """Return the axes as one row, if they are contiguous except for one recurring gap; else None."""
    loops = collapse([x.shape[i] for i in axes], [x.strides[i] for i in axes])
    item = x.dtype.itemsize
    if len(loops) > 2 or (loops and loops[-1].strides != (item,)):
        return None
    strides = tuple(stride for i, stride in enumerate(x.strides) if i not in axes)
    inner = loops[-1].count if loops else 1
    if len(loops) < 2:
        return Line(Stream(x.ptr, inner), strides)
    check_segments(x, loops[0].count)
    first = Stream(x.ptr, inner, loops[0].count, seg_stride=loops[0].strides[0], pack=True)
    return Line(first, strides)


def _one_axis(
    device: CommandDevice,
    program: Callable[..., Program],
    x: DeviceTensor,
    axis: int,
    target: DeviceTensor,
    params: Sequence[float],
) -> list[Command]:
    """Reduce one axis: down the columns if another axis is contiguous in both tensors, else along the row.

    Args:
        program: makes the program, with the argument `column`.
        target: of x's rank, with one element along the axis.
    """
    item, order = x.dtype.itemsize, [i for i in range(x.ndim) if i != axis]
    across = [
        i
        for i in order
        if x.shape[i] > 1 and x.strides[i] == item and target.strides[i] == target.dtype.itemsize
    ]
    if across and x.shape[axis] > 1 and x.strides[axis] != item:
        order.remove(across[0])
        order += [axis, across[0]]
        return column_commands(
            device, program(column=True), [x.transpose(*order)], target.transpose(*order), params=params
        )
    order.append(axis)
    rows = x.transpose(*order)
    leading = rows.shape[:-1]
    return row_commands(
        device,
        program(column=False),
        leading,
        [line(rows, leading, rows.shape[-1])],
        single(target.transpose(*order)[..., 0], leading),
        cols=rows.shape[-1],
        params=params,
    )


def _axes(op: str, x: NDArray[Any] | DeviceTensor, axis: Axes) -> tuple[int, ...]:
    """Return the axes as ascending numbers, none negative."""
    if 0 in x.shape:
        raise ValueError(f"{op} of an empty array: x has shape {x.shape}")
    if axis is None:
        return tuple(range(x.ndim))
    given = (axis,) if isinstance(axis, SupportsIndex) else tuple(axis)
    found = []
    for each in given:
        number = each.__index__()
        if not -x.ndim <= number < x.ndim:
            raise ValueError(f"{op}: axis {number} of an array of shape {x.shape}")
        found.append(number % x.ndim)
    if len(set(found)) != len(found):
        raise ValueError(f"{op}: axis {axis} names one axis twice, of an array of shape {x.shape}")
    return tuple(sorted(found))


def _result_shape(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    if keepdims:
        return tuple(1 if i in axes else size for i, size in enumerate(shape))
    return tuple(size for i, size in enumerate(shape) if i not in axes)


def _with_axes(target: DeviceTensor, axes: Sequence[int], keepdims: bool) -> DeviceTensor:
    """Return the result as a view in which every reduced axis has one element."""
    if keepdims:
        return target
    for axis in axes:
        target = target[(*(slice(None),) * axis, None)]
    return target


def _without(target: DeviceTensor, axes: Sequence[int]) -> DeviceTensor:
    """Return the result as a view without the reduced axes."""
    return target[tuple(0 if i in axes else slice(None) for i in range(target.ndim))]
