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
from echo_npu.torch.types import FLOATS
from echo_npu.vector.kernels.places import corners, first_places, kept_at, place_of, where_empty

Pair = tuple[int, int]


def _pair(value: Sequence[int], default: Pair = (1, 1)) -> Pair:
    if not value:
        return default
    return (value[0], value[0]) if len(value) == 1 else (value[0], value[1])


def _images(x: DeviceTensor) -> DeviceTensor:
    return x if x.ndim == 4 else x[None]


def _tap(x: DeviceTensor, down: int, right: int, rows: int, cols: int, steps: Pair) -> DeviceTensor:
    """Return the elements of one place of all windows."""
    return x[
        :,
        :,
        down : down + (rows - 1) * steps[0] + 1 : steps[0],
        right : right + (cols - 1) * steps[1] + 1 : steps[1],
    ]


def _corners(npu: OpMethods, rows: int, cols: int, width: int, steps: Pair) -> DeviceTensor:
    """Return the place of the corner of each window: int32 [rows, cols]."""
    made = npu.empty((rows, cols), np.int32)
    counts = [np.int32(steps[0] * width), np.int32(steps[1])]
    npu.execute(last_axis_commands(npu, corners(), [], made, params=counts, keep_last=True))
    return made


def _first_places(npu: OpMethods, rows: int, cols: int, width: int, steps: Pair, edges: Pair) -> DeviceTensor:
    """Return the place of the first element of each window that is no padding: int32 [rows, cols]."""
    made = npu.empty((rows, cols), np.int32)
    numbers = [np.int32(each) for each in (steps[0], edges[0], width, steps[1], edges[1])]
    npu.execute(last_axis_commands(npu, first_places(), [], made, params=numbers, keep_last=True))
    return made


def _forward(
    npu: OpMethods,
    outputs: Tensors,
    inputs: Tensors,
    params: list[Any],
    kernel: Pair,
    steps: Pair,
    edges: Pair,
) -> None:
    x = _images(widened(npu, inputs[0]))
    width = x.shape[3]
    target = float_target(npu, outputs[0])
    values, places = _images(target), _images(outputs[1])
    rows, cols = values.shape[2:]
    npu.max_pool2d(x, kernel, stride=steps, padding=edges, out=values)
    commands, padded = pad_commands(npu, x, edges, -np.inf)
    npu.execute(commands)
    found: DeviceTensor | None = None
    taps = [(down, right) for down in range(kernel[0]) for right in range(kernel[1])]
    low, high = words(places)
    # From the last one on, so that the first of several maxima wins.
    while taps:
        pair = [taps.pop() for _ in range(min(2, len(taps)))]
        given = [values, *(_tap(padded, down, right, rows, cols, steps) for down, right in pair)]
        numbers = [(down - edges[0]) * width + right - edges[1] for down, right in pair]
        if found is not None:
            given.append(found)
        after = npu.empty(values.shape, np.int32)
        program = place_of(len(pair), chained=found is not None)
        npu.execute(elementwise_commands(npu, program, given, after, params=[np.int32(n) for n in numbers]))
        found = after
    assert found is not None
    if edges == (0, 0):
        integers(npu, "add", [found, _corners(npu, rows, cols, width, steps)], low)
    else:
        placed = npu.empty(values.shape, np.int32)
        integers(npu, "add", [found, _corners(npu, rows, cols, width, steps)], placed)
        # Where all elements are -infinity, the padding is the maximum as well.
        first = _first_places(npu, rows, cols, width, steps, edges)
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
    size, edges = _pair(kernel), _pair(padding)
    steps = _pair(stride, size)
    exact = all((x.shape[i - 2] + 2 * edges[i] - size[i]) % steps[i] == 0 for i in range(2))
    if x.dtype not in FLOATS or _pair(dilation) != (1, 1) or (ceil_mode and not exact) or not x.numel():
        return NotImplemented
    static = (size, steps, edges)
    launch("aten::max_pool2d_with_indices", _forward, (out, indices), (x.contiguous(),), static)
    return out, indices


def _backward(
    npu: OpMethods,
    outputs: Tensors,
    inputs: Tensors,
    params: list[Any],
    kernel: Pair,
    steps: Pair,
    edges: Pair,
) -> None:
    """Write each gradient to the place of its maximum. Windows do not overlap."""
    out = outputs[0]
    grad, places = _images(widened(npu, inputs[0])), _images(inputs[1])
    rows, cols = grad.shape[2:]
    image = _images(out)
    height, width = image.shape[2:]
    padded_shape = (
        *image.shape[:2],
        max(height + 2 * edges[0], (rows - 1) * steps[0] + kernel[0]),
        max(width + 2 * edges[1], (cols - 1) * steps[1] + kernel[1]),
    )
    padded = npu.full(padded_shape, 0.0)
    low, _ = words(places)
    base = _corners(npu, rows, cols, width, steps)
    for down in range(kernel[0]):
        for right in range(kernel[1]):
            first = (down - edges[0]) * width + right - edges[1]
            target = _tap(padded, down, right, rows, cols, steps)
            given = [grad, low, base]
            npu.execute(elementwise_commands(npu, kept_at(), given, target, params=[np.int32(first)]))
    inside = padded[:, :, edges[0] : edges[0] + height, edges[1] : edges[1] + width]
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
    size, edges = _pair(kernel), _pair(padding)
    steps = _pair(stride, size)
    apart = steps[0] >= size[0] and steps[1] >= size[1]
    if x.dtype not in FLOATS or not apart or _pair(dilation) != (1, 1) or ceil_mode or not grad.numel():
        return NotImplemented
    static = (size, steps, edges)
    label = "aten::max_pool2d_with_indices_backward"
    launch(label, _backward, (grad_input,), (grad.contiguous(), indices.contiguous()), static)
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
    size, edges = _pair(kernel), _pair(padding)
    plain = not ceil_mode and (count_include_pad or edges == (0, 0)) and divisor_override is None
    if x.dtype not in FLOATS or not plain or not x.numel():
        return NotImplemented
    launch("aten::avg_pool2d", _average, (out,), (x.contiguous(),), (size, _pair(stride, size), edges))
    return out
