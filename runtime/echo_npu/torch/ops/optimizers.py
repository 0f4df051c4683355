"""Fused steps of the optimizers."""

from collections.abc import Sequence
from typing import Any

import torch

from echo_npu.ops.broadcast import compute
from echo_npu.ops.methods import OpMethods
from echo_npu.tensor import DeviceTensor
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import Tensors
from echo_npu.torch.plan import Build
from echo_npu.vector.kernels import training
from echo_npu.vector.kernels.pointwise import pointwise


def _adamw(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any]) -> None:
    """Params: beta1, 1 - beta1, beta2, 1 - beta2, decay, root, eps, rate."""
    param, mean, square = outputs
    grad = inputs[0]
    average, squares = training.moving_average(), training.moving_average(squared=True)
    compute(npu, "adamw", average, {"m": mean, "g": grad}, mean, params=params[0:2])
    compute(npu, "adamw", squares, {"v": square, "g": grad}, square, params=params[2:4])
    given = {"p": param, "m": mean, "v": square}
    compute(npu, "adamw", training.adamw_update(), given, param, params=params[4:8])


def _adam(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any]) -> None:
    """Do as `_adamw`, with weight decay as part of the gradient: the last of params."""
    grad = npu.empty(inputs[0].shape)
    _scaled_sum(npu, inputs[0], outputs[0], params[8], grad)
    _adamw(npu, outputs, [grad], params)


def _scaled_sum(npu: OpMethods, x: DeviceTensor, y: DeviceTensor, factor: Any, out: DeviceTensor) -> None:
    """out = x + factor * y."""
    program = pointwise("add_scaled", "ssp", ("float32", "float32"), "float32")
    compute(npu, "add_scaled", program, {"x": x, "y": y}, out, params=[factor])


def _sgd(
    npu: OpMethods,
    outputs: Tensors,
    inputs: Tensors,
    params: list[Any],
    decayed: bool,
    first: bool,
    nesterov: bool,
) -> None:
    """Params: -lr, weight decay, momentum, 1 - dampening. A second output is the momentum."""
    param, *momentum = outputs
    grad = inputs[0]
    if decayed:
        whole = npu.empty(grad.shape)
        _scaled_sum(npu, grad, param, params[1], whole)
        grad = whole
    if momentum:
        if first:
            npu.copy(grad, out=momentum[0])
        else:
            given = {"m": momentum[0], "g": grad}
            compute(npu, "sgd", training.moving_average(), given, momentum[0], params=params[2:4])
        if nesterov:
            whole = npu.empty(grad.shape)
            _scaled_sum(npu, grad, momentum[0], params[2], whole)
            grad = whole
        else:
            grad = momentum[0]
    _scaled_sum(npu, param, grad, params[0], param)


@native("_fused_sgd_")
def fused_sgd(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    momenta: Sequence[torch.Tensor],
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Any = None,
    found_inf: Any = None,
) -> Any:
    if maximize or grad_scale is not None or found_inf is not None:
        return NotImplemented
    if any(each.dtype != torch.float32 for each in (*params, *grads, *momenta)):
        return NotImplemented
    values = [-lr, weight_decay, momentum, 1 - dampening]
    static = (weight_decay != 0, bool(is_first_step), bool(nesterov))
    for number, (param, grad) in enumerate(zip(params, grads, strict=True)):
        if param.numel():
            outputs = (param, momenta[number]) if momentum else (param,)
            launch("aten::_fused_sgd_", _sgd, outputs, (grad,), static, values)
    return None


def _fused(name: str, build: Build, *, decoupled: bool) -> None:
    """Make the kernel of `_fused_adam_`, or of `_fused_adamw_`, whose weight decay is decoupled."""

    @native(name)
    def step_all(
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
        decay, more = (1 - lr * weight_decay, []) if decoupled else (1.0, [weight_decay])
        numbers = [float(each.item()) for each in steps]
        for param, grad, mean, square, step in zip(params, grads, means, squares, numbers, strict=True):
            if param.numel():
                values = [beta1, 1 - beta1, beta2, 1 - beta2, decay]
                values += [(1 - beta2**step) ** -0.5, eps, lr / (1 - beta1**step), *more]
                launch(f"aten::{name}", build, (param, mean, square), (grad,), (), values)
        return None


_fused("_fused_adam_", _adam, decoupled=False)
_fused("_fused_adamw_", _adamw, decoupled=True)
