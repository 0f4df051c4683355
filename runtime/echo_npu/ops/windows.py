"""Windows of images: what convolution and pooling share."""

from typing import Any, TypeAlias

from echo_npu.commands.command import Command
from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.copy import copy_commands
from echo_npu.ops.operands import require_float32
from echo_npu.ops.shape import fill_commands
from echo_npu.tensor import DeviceTensor

Pair: TypeAlias = tuple[int, int]
Size: TypeAlias = int | Pair
"""Of height and width, or one number for both."""


def check_windows(
    op: str, x: Any, kernel: Size, stride: Size, padding: Size, dilation: Size = 1
) -> tuple[Pair, Pair, Pair, Pair]:
    """Return kernel, stride, padding and dilation as pairs.

    Raises:
        TypeError: x is not float32.
        ValueError: x is not [N, C, H, W] or empty, an illegal size, a window larger than the padded x.
    """
    require_float32(op, x=x)
    if x.ndim != 4 or 0 in x.shape:
        raise ValueError(f"{op}: x has shape {x.shape}; it must be [N, C, H, W], not empty")
    sizes = (
        _pair(op, "kernel", kernel, 1),
        _pair(op, "stride", stride, 1),
        _pair(op, "padding", padding, 0),
        _pair(op, "dilation", dilation, 1),
    )
    if min(output_size(x, *sizes)) < 1:
        raise ValueError(
            f"{op}: x has shape {x.shape}; a kernel of {spans(sizes[0], sizes[3])} with padding {sizes[2]}"
            " is larger"
        )
    return sizes


def spans(kernel: Pair, dilation: Pair) -> Pair:
    """Return the elements from a window's first to its last one, down and across."""
    return (kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1


def _pair(op: str, name: str, value: Size, least: int) -> Pair:
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2 or any(not isinstance(each, int) or each < least for each in pair):
        raise ValueError(f"{op}: {name} is {value}; it must be one or two integers, at least {least}")
    return pair[0], pair[1]


def output_size(x: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair = (1, 1)) -> Pair:
    """Return the number of windows, down and across."""
    down, across = (
        (size + 2 * pad - span) // step + 1
        for size, span, step, pad in zip(x.shape[-2:], spans(kernel, dilation), stride, padding, strict=True)
    )
    return down, across


def pad_commands(
    device: CommandDevice, x: DeviceTensor, padding: tuple[Pair, Pair], value: float
) -> tuple[list[Command], DeviceTensor]:
    """Make the commands that pad images [..., H, W] with a value, and the result.

    Args:
        padding: rows (above, below) and columns (left, right).
    """
    (above, below), (left, right) = padding
    if not any((above, below, left, right)):
        return [], x
    height, width = x.shape[-2:]
    padded = device.empty((*x.shape[:-2], above + height + below, left + width + right))
    inside = padded[..., above : above + height, left : left + width]
    return [*fill_commands(device, padded, value), *copy_commands(x, inside)], padded
