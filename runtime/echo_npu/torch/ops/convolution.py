"""Convolution of images and its gradients, as products with windows."""

from collections.abc import Sequence
from typing import Any

import torch

from echo_npu.commands.command import Command
from echo_npu.ops.copy import copy_commands
from echo_npu.ops.methods import OpMethods
from echo_npu.ops.shape import fill_commands
from echo_npu.ops.windows import pad_commands
from echo_npu.tensor import DeviceTensor
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import Tensors, float_target, narrowed, widened
from echo_npu.torch.storages import like
from echo_npu.torch.types import FLOATS

Pair = tuple[int, int]


def _windows(
    npu: OpMethods, x: DeviceTensor, target: DeviceTensor, steps: Pair, apart: Pair, *, reverse: bool = False
) -> None:
    """Copy windows of x [N, C, H, W] to target [N, C, h, w, rows, cols].

    Args:
        steps: between windows.  apart: between the elements of a window (dilation).
        reverse: the last place of a window first.
    """
    high, wide, rows, cols = target.shape[2:]
    commands: list[Command] = []
    for down in range(high):
        for right in range(wide):
            place = (high - 1 - down, wide - 1 - right) if reverse else (down, right)
            top, left = place[0] * apart[0], place[1] * apart[1]
            taken = x[
                :,
                :,
                top : top + (rows - 1) * steps[0] + 1 : steps[0],
                left : left + (cols - 1) * steps[1] + 1 : steps[1],
            ]
            commands += copy_commands(taken, target[:, :, down, right])
    npu.execute(commands)


def _padded(npu: OpMethods, x: DeviceTensor, edges: Pair) -> DeviceTensor:
    commands, made = pad_commands(npu, x, ((edges[0],) * 2, (edges[1],) * 2), 0.0)
    npu.execute(commands)
    return made


def _forward(
    npu: OpMethods,
    outputs: Tensors,
    inputs: Tensors,
    params: list[Any],
    steps: Pair,
    edges: Pair,
    apart: Pair,
    groups: int,
) -> None:
    out = outputs[0]
    x, weight = (npu.contiguous(widened(npu, each)) for each in inputs[:2])
    count, channels = x.shape[:2]
    filters, _, high, wide = weight.shape
    rows, cols = out.shape[2:]
    columns = npu.empty((count, channels, high, wide, rows, cols))
    _windows(npu, _padded(npu, x, edges), columns, steps, apart)
    target = float_target(npu, out)
    product = target.reshape(count, groups, filters // groups, rows * cols)
    npu.matmul(
        weight.reshape(groups, filters // groups, -1),
        columns.reshape(count, groups, -1, rows * cols),
        out=product,
    )
    if len(inputs) == 3:
        flat = target.reshape(count, filters, rows * cols)
        npu.add(flat, widened(npu, inputs[2])[:, None], out=flat)
    narrowed(npu, target, out)


def _supported(x: torch.Tensor, weight: torch.Tensor, transposed: bool) -> bool:
    return (
        x.dtype in FLOATS
        and weight.dtype == x.dtype
        and not transposed
        and x.dim() == weight.dim()
        and x.dim() in (3, 4)
        and bool(x.numel())
        and bool(weight.numel())
    )


def _flat(size: Sequence[int], first: int) -> Pair:
    """Return a size for two axes; images of one axis have a single row."""
    return (first, size[0]) if len(size) == 1 else (size[0], size[1])


@native("convolution_overrideable")
def convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    if not _supported(x, weight, transposed) or (bias is not None and bias.dtype != x.dtype):
        return NotImplemented
    line = x.dim() == 3
    steps, edges, apart = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    image, kernel = (each.unsqueeze(2) if line else each for each in (x, weight))
    size = [
        (image.shape[2 + i] + 2 * edges[i] - apart[i] * (kernel.shape[2 + i] - 1) - 1) // steps[i] + 1
        for i in range(2)
    ]
    out = like(x, (x.shape[0], weight.shape[0], *size))
    if min(size) < 1 or min(apart) < 1:
        return NotImplemented
    given = (image, kernel) if bias is None else (image, kernel, bias)
    launch("aten::convolution", _forward, (out,), given, (steps, edges, apart, int(groups)))
    return out.squeeze(2) if line else out


def _backward(
    npu: OpMethods,
    outputs: Tensors,
    inputs: Tensors,
    params: list[Any],
    wanted: str,
    steps: Pair,
    edges: Pair,
    apart: Pair,
    groups: int,
) -> None:
    grad, x, weight = (npu.contiguous(widened(npu, each)) for each in inputs)
    outs = dict(zip(wanted, outputs, strict=True))
    count, filters, rows, cols = grad.shape
    channels = x.shape[1]
    _, inner, high, wide = weight.shape
    if "w" in outs:
        # One product over all images: their axis becomes part of K.
        padded = _padded(npu, x, edges)
        columns = npu.empty((channels, high, wide, count, rows, cols))
        _windows(npu, padded, columns.transpose(3, 0, 1, 2, 4, 5), steps, apart)
        turned = npu.permute(grad.reshape(count, filters, rows * cols), (1, 0, 2))
        target = float_target(npu, outs["w"])
        npu.matmul(
            turned.reshape(groups, filters // groups, -1),
            columns.reshape(groups, inner * high * wide, -1),
            trans_b=True,
            out=target.reshape(groups, filters // groups, -1),
        )
        narrowed(npu, target, outs["w"])
    if "b" in outs:
        target = float_target(npu, outs["b"])
        npu.sum(grad, (0, 2, 3), out=target)
        narrowed(npu, target, outs["b"])
    if "x" in outs:
        _input_gradient(npu, outs["x"], grad, weight, steps, edges, apart, groups)


def _input_gradient(
    npu: OpMethods,
    out: DeviceTensor,
    grad: DeviceTensor,
    weight: DeviceTensor,
    steps: Pair,
    edges: Pair,
    apart: Pair,
    groups: int,
) -> None:
    """Convolve the gradient, spread by the stride, with the weights turned round."""
    count, filters, rows, cols = grad.shape
    _, inner, high, wide = weight.shape
    channels, height, width = out.shape[1:]
    first = [apart[i] * (weight.shape[2 + i] - 1) for i in range(2)]
    spread = npu.empty((count, filters, height + 2 * edges[0] + first[0], width + 2 * edges[1] + first[1]))
    inside = spread[
        :,
        :,
        first[0] : first[0] + (rows - 1) * steps[0] + 1 : steps[0],
        first[1] : first[1] + (cols - 1) * steps[1] + 1 : steps[1],
    ]
    npu.execute([*fill_commands(npu, spread, 0.0), *copy_commands(grad, inside)])
    columns = npu.empty((count, filters, high, wide, height, width))
    part = spread[:, :, edges[0] : edges[0] + height + first[0], edges[1] : edges[1] + width + first[1]]
    _windows(npu, part, columns, (1, 1), apart, reverse=True)
    each = filters // groups
    kernels = npu.permute(weight.reshape(groups, each, inner, high * wide), (0, 2, 1, 3))
    target = float_target(npu, out)
    npu.matmul(
        kernels.reshape(groups, inner, each * high * wide),
        columns.reshape(count, groups, each * high * wide, height * width),
        out=target.reshape(count, groups, inner, height * width),
    )
    narrowed(npu, target, out)
    assert channels == groups * inner


@native("convolution_backward_overrideable")
def convolution_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    mask: Sequence[bool],
) -> Any:
    if not _supported(x, weight, transposed) or grad.dtype != x.dtype or not grad.numel():
        return NotImplemented
    line = x.dim() == 3
    steps, edges, apart = _flat(stride, 1), _flat(padding, 0), _flat(dilation, 1)
    given = [each.unsqueeze(2) if line else each for each in (grad, x, weight)]
    shapes = {"x": given[1].shape, "w": given[2].shape, "b": (weight.shape[0],)}
    outs = {letter: like(x, shapes[letter]) for letter, on in zip("xwb", mask, strict=True) if on}
    static = ("".join(outs), steps, edges, apart, int(groups))
    launch("aten::convolution_backward", _backward, list(outs.values()), given, static)
    made = [outs.get(letter) for letter in "xwb"]
    if line:
        made[:2] = [None if each is None else each.squeeze(2) for each in made[:2]]
    return tuple(made)
