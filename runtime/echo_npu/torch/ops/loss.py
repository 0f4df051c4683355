"""The negative log-likelihood and its gradient."""

from typing import Any, Final

import torch

from echo_npu.ops.methods import OpMethods
from echo_npu.ops.rows import line, row_commands, single
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import Tensors, float_target, int32_indices, narrowed, widened
from echo_npu.torch.types import FLOATS
from echo_npu.vector.kernels.losses import picked, picked_backward

_NONE: Final = 0
_MEAN: Final = 1


def _forward(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], reduction: int) -> None:
    out, total = outputs
    x = widened(npu, inputs[0])
    cols = x.shape[-1]
    x = x if x.ndim == 2 else x[None]
    numbers = int32_indices(npu, inputs[1]).reshape(-1)
    weighted = len(inputs) == 3
    leading = numbers.shape
    given = [line(x, leading, cols), single(numbers, leading, bcast=True)]
    if weighted:
        given.append(line(widened(npu, inputs[2]), leading, cols))
    losses, weights = npu.empty(leading), npu.empty(leading)
    for result, counted in ((losses, False), (weights, True)):
        program = picked(weighted=weighted, counted=counted)
        npu.execute(
            row_commands(npu, program, leading, given, single(result, leading), cols=cols, params=params)
        )
    target = float_target(npu, out)
    whole = float_target(npu, total)
    npu.sum(weights, out=whole)
    if reduction == _NONE:
        npu.copy(losses.reshape(*out.shape), out=target)
    elif reduction == _MEAN:
        npu.div(npu.sum(losses), whole, out=target)
    else:
        npu.sum(losses, out=target)
    narrowed(npu, target, out)
    narrowed(npu, whole, total)


@native("nll_loss_forward.output")
def nll_loss_forward(
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore_index: int,
    *,
    output: torch.Tensor,
    total_weight: torch.Tensor,
) -> Any:
    given = [] if weight is None else [weight]
    if any(each.dtype not in FLOATS for each in (x, *given)) or not x.numel() or x.dim() > 2:
        return NotImplemented
    if target.dtype != torch.int64 or not -(2**31) <= ignore_index < 2**31:
        return NotImplemented
    launch(
        "aten::nll_loss_forward",
        _forward,
        (output, total_weight),
        (x, target, *given),
        (int(reduction),),
        [int(ignore_index)],
    )
    return output, total_weight


def _backward(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], mean: bool) -> None:
    out = outputs[0]
    cols = out.shape[-1]
    grad, total = widened(npu, inputs[0]), widened(npu, inputs[2])
    numbers = int32_indices(npu, inputs[1]).reshape(-1)
    leading = numbers.shape
    weighted = len(inputs) == 4
    target = float_target(npu, out)
    rows = target if target.ndim == 2 else target[None]
    per_row = grad if grad.ndim else grad.reshape(1)
    given = [
        single(numbers, leading, bcast=True),
        single(per_row, leading, bcast=True),
        single(total.reshape(1), leading, bcast=True),
    ]
    if weighted:
        given.append(line(widened(npu, inputs[3]), leading, cols))
    program = picked_backward(weighted=weighted, mean=mean)
    npu.execute(
        row_commands(npu, program, leading, given, line(rows, leading, cols), cols=cols, params=params)
    )
    narrowed(npu, target, out)


@native("nll_loss_backward.grad_input")
def nll_loss_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: torch.Tensor,
    *,
    grad_input: torch.Tensor,
) -> Any:
    given = [] if weight is None else [weight]
    if any(each.dtype not in FLOATS for each in (grad, x, *given)) or not x.numel() or x.dim() > 2:
        return NotImplemented
    if target.dtype != torch.int64 or not -(2**31) <= ignore_index < 2**31:
        return NotImplemented
    launch(
        "aten::nll_loss_backward",
        _backward,
        (grad_input,),
        (grad, target, total_weight, *given),
        (reduction == _MEAN,),
        [int(ignore_index)],
    )
    return grad_input
