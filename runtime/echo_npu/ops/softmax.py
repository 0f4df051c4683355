"""Softmax."""

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from echo_npu.commands.command import Command
from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.operands import FLOAT16, check_device, float_out, kind, require_float32, upload
from echo_npu.ops.rows import Parameter, column_commands, last_axis_commands, row_fits, run, target_for
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.kernels import softmax as kernels


def softmax(
    device: CommandDevice,
    x: Any,
    axis: SupportsIndex = -1,
    *,
    scale: float = 1.0,
    causal: bool = False,
    mask: Any = None,
    last: DeviceTensor | None = None,
    out: DeviceTensor | None = None,
) -> Any:
    """Compute `exp(s - max(s)) / sum(exp(s - max(s)))` along an axis, for the scores `s = scale * x + mask`.

    Args:
        x: float32 [..., T, S]; a DeviceTensor with any strides.
        axis: must be the last one with `causal`, a mask or `last`.
        scale: rounded to float32.
        causal: row t sees the columns 0 .. t + S - T; all others count as -inf.
        mask: float32, broadcast to x's shape.
        last: int32 [1] on the device, without causal and mask: every row sees the columns 0 .. last[0]; all
            others count as -inf.
        out: a DeviceTensor of x's shape to write to; it may be x. If it is float16, the result is rounded.

    Returns: float32 of x's shape, or `out`. A row with NaN or +inf, or with nothing but -inf, is NaN.

    Raises:
        TypeError: a dtype other than float32, or no array; `last` that is no int32 on the device.
        ValueError: an axis that x does not have, a mask that does not broadcast to x; an empty array; causal
            of a vector; `last` of another shape or device, or beside causal or a mask.
    """
    require_float32("softmax", x=x, **({} if mask is None else {"mask": mask}))
    if not x.ndim or 0 in x.shape:
        raise ValueError(f"softmax of x of shape {x.shape}: it needs an axis, and no empty one")
    number = axis.__index__()
    if not -x.ndim <= number < x.ndim:
        raise ValueError(f"softmax: axis {number} of an array of shape {x.shape}")
    number %= x.ndim
    hides = causal or mask is not None or last is not None
    if number != x.ndim - 1 and hides:
        raise ValueError(
            f"softmax: axis {number} of shape {x.shape}; causal, mask and last are for the last axis"
        )
    if last is not None:
        _check_last(device, last, alone=not causal and mask is None)
    if causal and x.ndim < 2:
        raise ValueError(f"softmax: x has shape {x.shape}; causal needs [..., T, S]")
    if mask is not None:
        check_mask("softmax", mask, x.shape)
    made = float_out(device, "softmax", out, x.shape)
    source = upload(device, x, "activation")
    added = None if mask is None else upload(device, mask, "activation")
    operands = [each for each in (source, added, last) if each is not None]
    kept = row_fits(device, x.shape[-1])
    in_place = kept and not hides and number == x.ndim - 1
    target = target_for(device, x.shape, out, operands, dtype=made, in_place=in_place)
    if number == x.ndim - 1:
        commands = softmax_commands(device, source, target, scale=scale, causal=causal, mask=added, last=last)
    else:
        commands = _across(device, source, target, number, scale)
    words = (
        f"softmax {x.shape} axis {number} scale {scale}{' causal' * causal}{' masked' * (mask is not None)}"
        f"{' limited' * (last is not None)}"
    )
    return run(device, words, commands, target, out, [x, mask])


def _check_last(device: CommandDevice, last: Any, *, alone: bool) -> None:
    """Raise TypeError or ValueError unless `last` is one int32 on `device`, and nothing else hides."""
    if not isinstance(last, DeviceTensor) or last.dtype != np.int32:
        raise TypeError(f"softmax: last is int32 on the device, got {kind(last)}")
    check_device(device, last)
    if last.shape != (1,):
        raise ValueError(f"softmax: last has shape {last.shape}; it has one element")
    if not alone:
        raise ValueError("softmax: last goes with neither causal nor a mask")


def check_mask(op: str, mask: Any, shape: Sequence[int]) -> None:
    """Raise ValueError unless the mask broadcasts to the scores."""
    try:
        fits = np.broadcast_shapes(mask.shape, shape) == tuple(shape)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{op}: mask has shape {mask.shape}, the scores have {tuple(shape)}")


def softmax_commands(
    device: CommandDevice,
    x: DeviceTensor,
    target: DeviceTensor,
    *,
    scale: float,
    causal: bool,
    mask: DeviceTensor | None,
    last: DeviceTensor | None = None,
) -> list[Command]:
    """Make the commands of a softmax over the last axis."""
    kept = row_fits(device, x.shape[-1])
    half = target.dtype == FLOAT16
    hidden = {"causal": causal, "masked": mask is not None, "limited": last is not None}
    program = kernels.softmax(kept=kept, half=half, **hidden, **_scaling(scale))
    # One element is the same for the whole row, and for all rows.
    inputs = [each for each in (x, mask, last) if each is not None]
    params: list[Parameter] = [np.float32(scale)]
    if causal:
        params.append(np.int32(x.shape[-1] - x.shape[-2]))
    return last_axis_commands(device, program, inputs, target, params=params, keep_last=causal)


def _scaling(scale: float) -> dict[str, bool]:
    return {"scaled": scale != 1.0, "negative": not scale > 0.0}


def _across(
    device: CommandDevice, x: DeviceTensor, target: DeviceTensor, axis: int, scale: float
) -> list[Command]:
    """Make the commands of a softmax over another axis than the last."""
    params = (np.float32(scale),)
    order = [i for i in range(x.ndim) if i != axis]
    dense = all(each.strides[-1] == each.dtype.itemsize for each in (x, target))
    if x.shape[-1] > 1 and dense:
        order.insert(-1, axis)
        half = target.dtype == FLOAT16
        program = kernels.softmax(column=True, kept=False, half=half, **_scaling(scale))
        views = [each.transpose(*order) for each in (x, target)]
        return column_commands(device, program, views[:1], views[1], params=params)
    order.append(axis)
    return softmax_commands(
        device, x.transpose(*order), target.transpose(*order), scale=scale, causal=False, mask=None
    )
