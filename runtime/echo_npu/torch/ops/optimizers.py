"""Fused steps of the optimizers."""

from collections.abc import Sequence
from typing import Any

import torch

from echo_npu.ops.broadcast import compute
from echo_npu.ops.methods import OpMethods
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import Tensors
from echo_npu.vector.kernels import training


def _adamw(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any]) -> None:
    """Params: beta1, 1 - beta1, beta2, 1 - beta2, decay, root, eps, rate."""
    param, mean, square = outputs
    grad = inputs[0]
    average, squares = training.moving_average(), training.moving_average(squared=True)
    compute(npu, "adamw", average, {"m": mean, "g": grad}, mean, params=params[0:2])
    compute(npu, "adamw", squares, {"v": square, "g": grad}, square, params=params[2:4])
    given = {"p": param, "m": mean, "v": square}
    compute(npu, "adamw", training.adamw_update(), given, param, params=params[4:8])


@native("_fused_adamw_")
def fused_adamw(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    means: Sequence[torch.Tensor],
    squares: Sequence[torch.Tensor],
    max_squares: Sequence[torch.Tensor],
    steps: Sequence[torch.Tensor],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Any = None,
    found_inf: Any = None,
) -> Any:
    if amsgrad or maximize or grad_scale is not None or found_inf is not None:
        return NotImplemented
    if any(each.dtype != torch.float32 for each in (*params, *grads, *means, *squares)):
        return NotImplemented
    numbers = [float(each.item()) for each in steps]
    for param, grad, mean, square, step in zip(params, grads, means, squares, numbers, strict=True):
        if not param.numel():
            continue
        values = [beta1, 1 - beta1, beta2, 1 - beta2, 1 - lr * weight_decay]
        values += [(1 - beta2**step) ** -0.5, eps, lr / (1 - beta1**step)]
        launch("aten::_fused_adamw_", _adamw, (param, mean, square), (grad,), (), values)
    return None
