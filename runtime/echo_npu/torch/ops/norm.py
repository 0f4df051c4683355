"""Layer and RMS normalisation, and their gradients."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from echo_npu.ops.broadcast import compute
from echo_npu.ops.methods import OpMethods
from echo_npu.ops.rows import column_commands, last_axis_commands, line, row_commands, single
from echo_npu.tensor import DeviceTensor
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import Tensors, float_target, narrowed, widened
from echo_npu.torch.storages import like
from echo_npu.torch.types import FLOATS
from echo_npu.vector.kernels import reduce
from echo_npu.vector.kernels.losses import normalised_backward, rate
from echo_npu.vector.kernels.pointwise import pointwise


def _rows(npu: OpMethods, x: DeviceTensor, cols: int) -> DeviceTensor:
    """Return float32 [rows, cols]."""
    whole: DeviceTensor = npu.contiguous(widened(npu, x))
    return whole.reshape(-1, cols)


def _forward(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], cols: int, eps: float, given: str
) -> None:
    out, mean, rstd = outputs
    x = _rows(npu, inputs[0], cols)
    vectors = dict(zip(given, (_rows(npu, each, cols).reshape(cols) for each in inputs[1:]), strict=True))
    target = float_target(npu, out).reshape(-1, cols)
    npu.layer_norm(x, vectors.get("w"), vectors.get("b"), eps, out=target)
    if out.dtype != np.float32:
        narrowed(npu, target.reshape(*out.shape), out)
    means, rates = mean.reshape(-1), rstd.reshape(-1)
    npu.mean(x, -1, out=means)
    npu.execute(
        row_commands(
            npu,
            rate(),
            means.shape,
            [line(x, means.shape, cols), single(means, means.shape, bcast=True)],
            single(rates, means.shape),
            cols=cols,
            params=(np.float32(eps), np.float32(1 / cols)),
        )
    )


def _fitting(x: torch.Tensor, shape: Sequence[int], *given: torch.Tensor | None) -> bool:
    """Return whether x has elements and its last axes have the shape, as all tensors of `given` do."""
    wanted = tuple(shape)
    last = tuple(x.shape[x.dim() - len(wanted) :]) if wanted and x.dim() >= len(wanted) else None
    return last == wanted and bool(x.numel()) and all(each is None or each.shape == wanted for each in given)


@native("native_layer_norm")
def native_layer_norm(
    x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> Any:
    given = [each for each in (weight, bias) if each is not None]
    if any(each.dtype not in FLOATS for each in (x, *given)) or not _fitting(x, shape, weight, bias):
        return NotImplemented
    leading = [*x.shape[: x.dim() - len(shape)], *(1 for _ in shape)]
    out, mean, rstd = like(x, x.shape), like(x, leading, torch.float32), like(x, leading, torch.float32)
    letters = ("w" if weight is not None else "") + ("b" if bias is not None else "")
    static = (math.prod(shape), float(eps), letters)
    launch("aten::native_layer_norm", _forward, (out, mean, rstd), (x, *given), static)
    return out, mean, rstd


def _backward(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], cols: int, weighted: bool
) -> None:
    dx, dweight, dbias = outputs
    grad, x = (_rows(npu, each, cols) for each in inputs[:2])
    mean, rstd = (each.reshape(-1, 1) for each in inputs[2:4])
    unit = npu.empty(x.shape)
    program = pointwise("centred", "sss", ("float32",) * 3, "float32")
    compute(npu, "centred", program, {"x": x, "mean": mean, "rate": rstd}, unit)
    weight = _rows(npu, inputs[4], cols).reshape(cols) if weighted else npu.full((cols,), 1.0)
    target = float_target(npu, dx).reshape(-1, cols)
    npu.execute(
        [
            *last_axis_commands(
                npu, normalised_backward(), [grad, unit, weight, rstd], target, params=(np.float32(1 / cols),)
            ),
        ]
    )
    if dx.dtype != np.float32:
        narrowed(npu, target.reshape(*dx.shape), dx)
    for each, program, parts in (
        (dweight, reduce.dot_column(), [grad, unit]),
        (dbias, reduce.reduction("add", column=True), [grad]),
    ):
        sums = float_target(npu, each).reshape(1, cols)
        npu.execute(column_commands(npu, program, parts, sums))
        if each.dtype != np.float32:
            narrowed(npu, sums.reshape(*each.shape), each)


@native("native_layer_norm_backward")
def native_layer_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    shape: Sequence[int],
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mask: Sequence[bool],
) -> Any:
    given = [weight] if weight is not None else []
    if any(each.dtype not in FLOATS for each in (grad, x, *given)) or not x.numel():
        return NotImplemented
    if mean.dtype != torch.float32 or rstd.dtype != torch.float32:
        return NotImplemented
    kind = x.dtype if weight is None else weight.dtype
    outs = (like(x, x.shape), like(x, shape, kind), like(x, shape, kind))
    static = (math.prod(shape), weight is not None)
    launch("aten::native_layer_norm_backward", _backward, outs, (grad, x, mean, rstd, *given), static)
    return tuple(each if wanted else None for each, wanted in zip(outs, mask, strict=True))


# --- RMS norm -----------------------------------------------------------------------------------------------


def _rms_forward(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], cols: int, eps: float
) -> None:
    out, rstd = outputs
    x = _rows(npu, inputs[0], cols)
    weight = _rows(npu, inputs[1], cols).reshape(cols) if len(inputs) == 2 else None
    target = float_target(npu, out).reshape(-1, cols)
    npu.rms_norm(x, weight, eps, out=target)
    if out.dtype != np.float32:
        narrowed(npu, target.reshape(*out.shape), out)
    rates, zero = rstd.reshape(-1), npu.full((1,), 0.0)
    given = [line(x, rates.shape, cols), single(zero, rates.shape, bcast=True)]
    figures = (np.float32(eps), np.float32(1 / cols))
    npu.execute(
        row_commands(npu, rate(), rates.shape, given, single(rates, rates.shape), cols=cols, params=figures)
    )


@native("_fused_rms_norm")
def rms_norm(x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None, eps: float | None) -> Any:
    given = [x] if weight is None else [x, weight]
    if any(each.dtype not in FLOATS for each in given) or not _fitting(x, shape, weight):
        return NotImplemented
    leading = [*x.shape[: x.dim() - len(shape)], *(1 for _ in shape)]
    out, rstd = like(x, x.shape), like(x, leading, torch.float32)
    smallest = torch.finfo(torch.float32).eps if eps is None else float(eps)
    launch("aten::_fused_rms_norm", _rms_forward, (out, rstd), given, (math.prod(shape), smallest))
    return out, rstd


def _rms_backward(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], cols: int, weighted: bool
) -> None:
    dx, *others = outputs
    grad, x = (_rows(npu, each, cols) for each in inputs[:2])
    rstd = inputs[2].reshape(-1, 1)
    unit = npu.mul(x, rstd)
    weight = _rows(npu, inputs[3], cols).reshape(cols) if weighted else npu.full((cols,), 1.0)
    target = float_target(npu, dx).reshape(-1, cols)
    given, figures = [grad, unit, weight, rstd], (np.float32(1 / cols),)
    npu.execute(last_axis_commands(npu, normalised_backward(centred=False), given, target, params=figures))
    if dx.dtype != np.float32:
        narrowed(npu, target.reshape(*dx.shape), dx)
    for each in others:
        sums = float_target(npu, each).reshape(1, cols)
        npu.execute(column_commands(npu, reduce.dot_column(), [grad, unit], sums))
        if each.dtype != np.float32:
            narrowed(npu, sums.reshape(*each.shape), each)


@native("_fused_rms_norm_backward")
def rms_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    shape: Sequence[int],
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    mask: Sequence[bool],
) -> Any:
    given = [] if weight is None else [weight]
    if any(each.dtype not in FLOATS for each in (grad, x, *given)) or rstd.dtype != torch.float32:
        return NotImplemented
    if not x.numel():
        return NotImplemented
    outs = [like(x, x.shape), *(like(each, each.shape) for each in given)]
    static = (math.prod(shape), bool(given))
    launch("aten::_fused_rms_norm_backward", _rms_backward, outs, (grad, x, rstd, *given), static)
    return outs[0], outs[1] if given and mask[1] else None
