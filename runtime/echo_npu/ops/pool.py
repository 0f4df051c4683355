"""Pooling of images: first down the columns, then across.

Maximum and sum are separable. Down the columns, the rows of a window are segments of one stream, and all
columns are computed at once. Across, the places of a window are separate streams, four in a command.
"""

from typing import Any

import numpy as np

from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.operands import check_out, upload
from echo_npu.ops.rows import column_commands, last_axis_commands, run, target_for
from echo_npu.ops.windows import Size, check_windows, output_size, pad_commands, spans
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.kernels.pool import MAX_TAPS, taps
from echo_npu.vector.kernels.reduce import reduction


def max_pool2d(
    device: CommandDevice,
    x: Any,
    kernel: Size,
    *,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    out: DeviceTensor | None = None,
) -> Any:
    """Compute the greatest element of each window; NaN if it has one. Padding is -infinity.

    Args:
        x: float32 [N, C, H, W].
        kernel, stride, padding, dilation: of height and width, or one number for both. stride None: the
            kernel. dilation: steps from one element of a window to the next.
        out: a DeviceTensor of the result's shape to write to.

    Returns: float32 [N, C, out height, out width].

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: x of another rank, an empty array, a window larger than the padded image.
    """
    return _pool(device, "max_pool2d", x, kernel, stride, padding, dilation, out)


def avg_pool2d(
    device: CommandDevice,
    x: Any,
    kernel: Size,
    *,
    stride: Size | None = None,
    padding: Size = 0,
    out: DeviceTensor | None = None,
) -> Any:
    """Compute the mean of each window; padding counts as zeros. All else is as in `max_pool2d`."""
    return _pool(device, "avg_pool2d", x, kernel, stride, padding, 1, out)


def _pool(
    device: CommandDevice,
    name: str,
    x: Any,
    kernel: Size,
    stride: Size | None,
    padding: Size,
    dilation: Size,
    out: DeviceTensor | None,
) -> Any:
    op, edge = ("max", -np.inf) if name == "max_pool2d" else ("add", 0.0)
    (high, wide), steps, edges, apart = check_windows(
        name, x, kernel, kernel if stride is None else stride, padding, dilation
    )
    rows, cols = output_size(x, (high, wide), steps, edges, apart)
    down_span, across_span = spans((high, wide), apart)
    shape = (*x.shape[:2], rows, cols)
    check_out(device, name, out, shape)
    source = upload(device, x, "activation")
    target = target_for(device, shape, out, [source], contiguous=True)
    if source.strides[-1] != source.dtype.itemsize and source.shape[-1] > 1:
        source = source.contiguous()
    commands, padded = pad_commands(device, source, ((edges[0],) * 2, (edges[1],) * 2), edge)
    windows = padded.unfold(2, down_span, steps[0])[..., :: apart[0]]
    strips = windows.swapaxes(-1, -2)  # [N, C, rows, high, W]
    down = strips[..., 0, :]
    if high > 1 or wide > MAX_TAPS:  # several steps across work in place, on rows without gaps
        down = device.empty(down.shape)
        commands += column_commands(device, reduction(op, column=True), [strips], down[..., None, :])
    across = down.unfold(3, across_span, steps[1])[..., :: apart[1]]  # [N, C, rows, cols, wide]
    done = 0
    while done < wide:
        count = min(wide - done, MAX_TAPS - bool(done))
        inputs = [target] if done else []
        inputs += [across[..., done + i] for i in range(count)]
        done += count
        factor = np.float32(1 / (high * wide)) if done == wide and op == "add" else np.float32(1)
        commands += last_axis_commands(device, taps(op, len(inputs)), inputs, target, params=(factor,))
    what = f"{name} {x.shape}, kernel {(high, wide)}, stride {steps}"
    answer = run(device, what, commands, target, out, [x])
    del padded
    return answer
