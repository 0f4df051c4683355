"""Convolution: windows as columns, and one product."""

from typing import Any

from echo_npu.commands.command import Command
from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.copy import copy_commands
from echo_npu.ops.matmul import matmul_commands
from echo_npu.ops.operands import check_out, require_float32, upload
from echo_npu.ops.rows import line, row_commands, run, single, target_for
from echo_npu.ops.windows import Pair, Size, check_windows, output_size, pad_commands
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.kernels.pool import taps


def im2col(
    device: CommandDevice,
    x: Any,
    kernel: Size,
    *,
    stride: Size = 1,
    padding: Size = 0,
    out: DeviceTensor | None = None,
) -> Any:
    """Return the windows of images as columns, so that a convolution is one product with them.

    Args:
        x: float32 [N, C, H, W].
        kernel, stride, padding: of height and width, or one number for both. Padding is zeros.
        out: a contiguous DeviceTensor of the result's shape to write to.

    Returns: float32 [N, C * kernel height * kernel width, out height * out width].

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: x of another rank, an empty array, a window larger than the padded image.
    """
    *sizes, _ = check_windows("im2col", x, kernel, stride, padding)
    count, channels = x.shape[:2]
    high, wide = output_size(x, *sizes)
    elements = channels * sizes[0][0] * sizes[0][1]
    shape = (count, elements, high * wide)
    check_out(device, "im2col", out, shape)
    source = upload(device, x, "activation")
    target = target_for(device, shape, out, [source], contiguous=True)
    commands, padded = im2col_commands(device, source, target, *sizes)
    result = run(device, f"im2col {x.shape}, kernel {sizes[0]}", commands, target, out, [x])
    del padded
    return result


def im2col_commands(
    device: CommandDevice, x: DeviceTensor, target: DeviceTensor, kernel: Pair, stride: Pair, padding: Pair
) -> tuple[list[Command], DeviceTensor]:
    """Make the commands of `im2col` to a contiguous tensor; keep the padded images until they have run."""
    commands, padded = pad_commands(device, x, ((padding[0],) * 2, (padding[1],) * 2), 0.0)
    windows = padded.unfold(2, kernel[0], stride[0]).unfold(3, kernel[1], stride[1])
    columns = target.reshape(*x.shape[:2], *kernel, *windows.shape[2:4])
    # The rows of the kernel come first: each becomes a command, which can hold all other axes.
    commands += copy_commands(windows.transpose(4, 0, 1, 5, 2, 3), columns.transpose(2, 0, 1, 3, 4, 5))
    return commands, padded


def conv2d(
    device: CommandDevice,
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    stride: Size = 1,
    padding: Size = 0,
    out: DeviceTensor | None = None,
) -> Any:
    """Convolve (cross-correlate) images: im2col, MATMUL and the bias in one submission.

    Args:
        x: float32 [N, C, H, W].
        weight: float32 [O, C, kernel height, kernel width]; a DeviceTensor must be contiguous.
        bias: float32 [O], or None.
        stride, padding: of height and width, or one number for both. Padding is zeros.
        out: a DeviceTensor of the result's shape to write to.

    Returns: float32 [N, O, out height, out width].

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: shapes that do not fit one another, an empty array, a window larger than the padded image.
    """
    require_float32("conv2d", x=x, weight=weight, **({} if bias is None else {"bias": bias}))
    if weight.ndim != 4 or 0 in weight.shape or x.shape[1:2] != weight.shape[1:2]:
        raise ValueError(
            f"conv2d: x has shape {x.shape}, weight has shape {weight.shape}: [N, C, H, W], [O, C, h, w]"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"conv2d: bias has shape {bias.shape}, weight has shape {weight.shape}")
    *sizes, _ = check_windows("conv2d", x, weight.shape[2:], stride, padding)
    count, filters = x.shape[0], weight.shape[0]
    high, wide = output_size(x, *sizes)
    shape = (count, filters, high, wide)
    check_out(device, "conv2d", out, shape)
    source = upload(device, x, "activation")
    kernels = upload(device, weight, "weight")
    operands = [source, kernels]
    columns = device.empty((count, kernels.size // filters, high * wide))
    commands, padded = im2col_commands(device, source, columns, *sizes)
    if bias is not None:
        operands.append(upload(device, bias, "weight"))
    target = target_for(device, shape, out, operands, contiguous=True)
    flat = target.reshape(count, filters, high * wide)
    product = flat if bias is None else device.empty(flat.shape)
    commands += matmul_commands(kernels.reshape(filters, -1), columns, product, (count,))
    if bias is not None:
        leading = (count, filters)
        inputs = [line(product, leading, high * wide), single(operands[-1], leading, bcast=True)]
        commands += row_commands(
            device,
            taps("add", 2),
            leading,
            inputs,
            line(flat, leading, high * wide),
            cols=high * wide,
            params=(1.0,),
        )
    what = f"conv2d {x.shape} with {weight.shape}"
    result = run(device, what, commands, target, out, [x, weight, bias])
    del padded
    return result
