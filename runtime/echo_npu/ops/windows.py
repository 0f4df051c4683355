"""Windows of images: what convolution and pooling share."""

from typing import Any, TypeAlias

from echo_npu.commands.packets import Command
from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.copy import copy_commands
from echo_npu.ops.operands import require_float32
from echo_npu.ops.shape import fill_commands
from echo_npu.tensor import DeviceTensor

Pair: TypeAlias = tuple[int, int]
Size: TypeAlias = int | Pair
"""Of height and width, or one number for both."""


def check_windows(op: str, x: Any, kernel: Size, stride: Size, padding: Size) -> tuple[Pair, Pair, Pair]:
    """Return kernel, stride and padding as pairs.

    Raises:
        TypeError: x is not float32.
        ValueError: x is not [N, C, H, W] or empty, an illegal size, a window larger than the padded x.
    """
    require_float32(op, x=x)
    if x.ndim != 4 or 0 in x.shape:
        raise ValueError(f"{op}: x has shape {x.shape}; it must be [N, C, H, W], not empty")
    sizes = _pair(op, "kernel", kernel, 1), _pair(op, "stride", stride, 1), _pair(op, "padding", padding, 0)
    if min(output_size(x, *sizes)) < 1:
        raise ValueError(
            f"{op}: x has shape {x.shape}; a kernel of {sizes[0]} with padding {sizes[2]} is larger"
        )
    return sizes


def _pair(op: str, name: str, value: Size, least: int) -> Pair:
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2 or any(not isinstance(each, int) or each < least for each in pair):
        raise ValueError(f"{op}: {name} is {value}; it must be one or two integers, at least {least}")
    return pair[0], pair[1]


def output_size(x: Any, kernel: Pair, stride: Pair, padding: Pair) -> Pair:
    """Return the number of windows, down and across."""
    down, across = (
        (size + 2 * pad - window) // step + 1
        for size, window, step, pad in zip(x.shape[-2:], kernel, stride, padding, strict=True)
    )
    return down, across


def pad_commands(
    device: CommandDevice, x: DeviceTensor, padding: tuple[int, int], value: float
) -> tuple[list[Command], DeviceTensor]:
    """Make the commands that pad images [..., H, W] with (rows, columns) of a value, and the result."""
    if padding == (0, 0):
        return [], x
    down, right = padding
    height, width = x.shape[-2:]
    padded = device.empty((*x.shape[:-2], height + 2 * down, width + 2 * right))
    inside = padded[..., down : down + height, right : right + width]
    return [*fill_commands(device, padded, value), *copy_commands(x, inside)], padded
