"""Pooling of images, with the places of the maxima."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from echo_npu.ops.broadcast import elementwise_commands
from echo_npu.ops.methods import OpMethods
from echo_npu.ops.rows import last_axis_commands
from echo_npu.ops.windows import pad_commands
from echo_npu.tensor import DeviceTensor
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import Tensors, float_target, integers, narrowed, widened, words
from echo_npu.torch.ops.pool_windows import Pair, PoolWindows, pair
from echo_npu.torch.types import FLOATS
from echo_npu.vector.kernels.places import corners, first_places, kept_at, place_of, where_empty


def _images(x: DeviceTensor) -> DeviceTensor:
    return x if x.ndim == 4 else x[None]


def _corners(npu: OpMethods, counts: Pair, width: int, steps: Pair) -> DeviceTensor:
    """Return the place of the corner of each window: int32 [rows, cols]."""
    made = npu.empty(counts, np.int32)
    numbers = [np.int32(steps[0] * width), np.int32(steps[1])]
    npu.execute(last_axis_commands(npu, corners(), [], made, params=numbers, keep_last=True))
    return made


def _first_places(npu: OpMethods, counts: Pair, width: int, windows: PoolWindows) -> DeviceTensor:
    """Return the place of the first element of each window that is no padding: int32 [rows, cols]."""
    made = npu.empty(counts, np.int32)
    (down, right), (above, left), apart = windows.steps, windows.edges, windows.apart
    numbers = [np.int32(each) for each in (down, above, apart[0], width, right, left, apart[1])]
    program = first_places(*windows.hops)
    npu.execute(last_axis_commands(npu, program, [], made, params=numbers, keep_last=True))
    return made


def _forward(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], windows: PoolWindows
) -> None:
    x = _images(widened(npu, inputs[0]))
    height, width = x.shape[2:]
    target = float_target(npu, outputs[0])
    values, places = _images(target), _images(outputs[1])
    counts = (values.shape[2], values.shape[3])
    padding = windows.padding((height, width), counts)
    commands, padded = pad_commands(npu, x, padding, -np.inf)
    npu.execute(commands)
    npu.max_pool2d(padded, windows.kernel, stride=windows.steps, dilation=windows.apart, out=values)
    found: DeviceTensor | None = None
    taps = windows.taps
    low, high = words(places)
    # From the last one on, so that the first of several maxima wins.
    while taps:
        some = [taps.pop() for _ in range(min(2, len(taps)))]
        given = [values, *(windows.tapped(padded, tap, counts) for tap in some)]
        numbers = [np.int32(windows.number(tap, width)) for tap in some]
        if found is not None:
            given.append(found)
        after = npu.empty(values.shape, np.int32)
        program = place_of(len(some), chained=found is not None)
        npu.execute(elementwise_commands(npu, program, given, after, params=numbers))
        found = after
    assert found is not None
    base = _corners(npu, counts, width, windows.steps)
    if padding == ((0, 0), (0, 0)):
        integers(npu, "add", [found, base], low)
    else:
        placed = npu.empty(values.shape, np.int32)
        integers(npu, "add", [found, base], placed)
        # Where all elements are -infinity, the padding is the maximum as well.
        first = _first_places(npu, counts, width, windows)
        npu.execute(elementwise_commands(npu, where_empty(), [values, placed, first], low))
    integers(npu, "sign_word", [low], high)
    narrowed(npu, target, outputs[0])


@native("max_pool2d_with_indices.out")
def max_pool2d_with_indices(
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
    *,
    out: torch.Tensor,
    indices: torch.Tensor,
) -> Any:
    if x.dtype not in FLOATS or not out.numel():
        return NotImplemented
    size = pair(kernel)
    windows = PoolWindows(size, pair(stride, size), pair(padding), pair(dilation))
    launch("aten::max_pool2d_with_indices", _forward, (out, indices), (x.contiguous(),), (windows,))
    return out, indices


def _backward(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], windows: PoolWindows
) -> None:
    """Add each gradient to what is at the place of its maximum."""
    out = outputs[0]
    grad, places = _images(widened(npu, inputs[0])), _images(inputs[1])
    counts = (grad.shape[2], grad.shape[3])
    image = _images(out)
    height, width = image.shape[2:]
    (above, below), (left, right) = windows.padding((height, width), counts)
    padded = npu.full((*image.shape[:2], above + height + below, left + width + right), 0.0)
    low, _ = words(places)
    base = _corners(npu, counts, width, windows.steps)
    for tap in windows.taps:
        target = windows.tapped(padded, tap, counts)
        given, number = [grad, low, base], np.int32(windows.number(tap, width))
        part = npu.empty(grad.shape) if windows.overlap else target
        npu.execute(elementwise_commands(npu, kept_at(), given, part, params=[number]))
        if windows.overlap:
            npu.copy(npu.add(target, part), out=target)
    inside = padded[:, :, above : above + height, left : left + width]
    if out.dtype == np.float32:
        npu.copy(inside, out=image)
    else:
        narrowed(npu, npu.copy(inside).reshape(*out.shape), out)


@native("max_pool2d_with_indices_backward.grad_input")
def max_pool2d_with_indices_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: torch.Tensor,
    *,
    grad_input: torch.Tensor,
) -> Any:
    if x.dtype not in FLOATS or not grad.numel():
        return NotImplemented
    size = pair(kernel)
    windows = PoolWindows(size, pair(stride, size), pair(padding), pair(dilation))
    label = "aten::max_pool2d_with_indices_backward"
    launch(label, _backward, (grad_input,), (grad.contiguous(), indices.contiguous()), (windows,))
    return grad_input


def _average(
    npu: OpMethods,
    outputs: Tensors,
    inputs: Tensors,
    params: list[Any],
    kernel: Pair,
    steps: Pair,
    edges: Pair,
) -> None:
    target = float_target(npu, outputs[0])
    npu.avg_pool2d(_images(widened(npu, inputs[0])), kernel, stride=steps, padding=edges, out=_images(target))
    narrowed(npu, target, outputs[0])


@native("avg_pool2d.out")
def avg_pool2d(
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: torch.Tensor,
) -> Any:
    size, edges = pair(kernel), pair(padding)
    plain = not ceil_mode and (count_include_pad or edges == (0, 0)) and divisor_override is None
    if x.dtype not in FLOATS or not plain or not x.numel():
        return NotImplemented
    launch("aten::avg_pool2d", _average, (out,), (x.contiguous(),), (size, pair(stride, size), edges))
    return out
