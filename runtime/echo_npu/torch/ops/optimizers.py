"""Fused steps of the optimizers: a command for the averages of a parameter, and one for the parameter."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch

from echo_npu.ops.broadcast import compute
from echo_npu.ops.methods import OpMethods
from echo_npu.ops.rows import last_axis_commands
from echo_npu.tensor import DeviceTensor
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import Tensors
from echo_npu.torch.plan import Computed
from echo_npu.torch.storages import tensor_on
from echo_npu.vector.kernels import optimizers, training
from echo_npu.vector.kernels.pointwise import pointwise

_BETAS: Final = slice(0, 4)
_UPDATE: Final = slice(4, 8)
_DECAY: Final = slice(8, 9)


# --- inside a plan ------------------------------------------------------------------------------------------


def _adam_of_pair(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], decayed: bool
) -> None:
    """Params: beta1, 1 - beta1, beta2, 1 - beta2, decay, root, eps, rate, the part of p in the gradient.

    The outputs are p and one tensor of both averages, (2, elements). p and the gradient lie in memory alike.
    """
    param, averages = _flat(outputs[0]), outputs[1]
    streams = [averages, _flat(inputs[0]), *([param] if decayed else [])]
    numbers = [*params[_BETAS], *(params[_DECAY] if decayed else [])]
    program = optimizers.moments(decayed=decayed)
    npu.execute(last_axis_commands(npu, program, streams, averages, params=numbers, keep_last=True))
    given = {"p": param, "m": averages[0], "v": averages[1]}
    compute(npu, "adamw", training.adamw_update(), given, param, params=params[_UPDATE])


def _adam_apart(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], decayed: bool) -> None:
    """Do as `_adam_of_pair` for p and two averages of any strides, through copies."""
    shape, count = outputs[0].shape, outputs[0].size
    param, averages, grad = npu.empty((count,)), npu.empty((2, count)), npu.empty((count,))
    places = [each.reshape(*shape) for each in (param, averages[0], averages[1])]
    for given, place in zip([*outputs, *inputs], [*places, grad.reshape(*shape)], strict=True):
        npu.copy(given, out=place)
    _adam_of_pair(npu, [param, averages], [grad], params, decayed)
    for given, place in zip(outputs, places, strict=True):
        npu.copy(place, out=given)


def _dense(x: DeviceTensor | torch.Tensor) -> bool:
    """Return whether the elements of a tensor whose elements lie apart fill its memory."""
    strides = x.stride() if isinstance(x, torch.Tensor) else [each // x.dtype.itemsize for each in x.strides]
    return sum((n - 1) * step for n, step in zip(x.shape, strides, strict=True)) + 1 == math.prod(x.shape)


def _flat(x: DeviceTensor) -> DeviceTensor:
    """Return the elements of a tensor without gaps in the order of memory."""
    return DeviceTensor.borrow(x.device, x.ptr, (x.size,), (x.dtype.itemsize,), x.dtype)


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
    tensors = [*inputs, *outputs]
    alike = all(each.strides == inputs[0].strides for each in outputs)
    grad, param, *momenta = map(_flat, tensors) if alike and _dense(inputs[0]) else tensors
    given = {"p": param, "g": grad}
    if momenta:
        momentum = momenta[0]
        if not first:
            program = optimizers.momentum(decayed=decayed)
            taken = {"m": momentum, "g": grad, **({"p": param} if decayed else {})}
            compute(npu, "sgd", program, taken, momentum, params=params)
        elif decayed:
            program = pointwise("add_scaled", "ssp", ("float32", "float32"), "float32")
            compute(npu, "sgd", program, {"x": grad, "y": param}, momentum, params=params[1:2])
        else:
            npu.copy(grad, out=momentum)
        if nesterov:
            given["m"] = momentum
        else:
            given["g"], decayed = momentum, False
    program = optimizers.sgd_update(decayed=decayed, nesterov=bool(momenta) and nesterov)
    compute(npu, "sgd", program, given, param, params=params)


# --- the operators ------------------------------------------------------------------------------------------


@native("_fused_sgd_", "_fused_sgd_.tensor_lr")
def fused_sgd(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    momenta: Sequence[torch.Tensor],
    *,
    weight_decay: float,
    momentum: float,
    lr: float | torch.Tensor,
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
    values = partial(_sgd_values, weight_decay=weight_decay, momentum=momentum, dampening=dampening)
    computed = Computed(values, (lr,))
    static = (weight_decay != 0, bool(is_first_step), bool(nesterov))
    for number, (param, grad) in enumerate(zip(params, grads, strict=True)):
        if param.numel():
            outputs = (param, momenta[number]) if momentum else (param,)
            launch("aten::_fused_sgd_", _sgd, outputs, (grad,), static, computed)
    return None


def _sgd_values(lr: float, *, weight_decay: float, momentum: float, dampening: float) -> list[float]:
    return [-lr, weight_decay, momentum, 1 - dampening]


def _adam_values(
    step: float,
    lr: float,
    *,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    decoupled: bool,
) -> list[float]:
    decay, part = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    root, rate = (1 - beta2**step) ** -0.5, lr / (1 - beta1**step)
    return [beta1, 1 - beta1, beta2, 1 - beta2, decay, root, eps, rate, part]


def _fused(name: str, *, decoupled: bool) -> None:
    """Make the kernel of `_fused_adam_`, or of `_fused_adamw_`, whose weight decay is decoupled."""

    @native(name, f"{name}.tensor_lr")
    def step_all(
        params: Sequence[torch.Tensor],
        grads: Sequence[torch.Tensor],
        means: Sequence[torch.Tensor],
        squares: Sequence[torch.Tensor],
        max_squares: Sequence[torch.Tensor],
        steps: Sequence[torch.Tensor],
        *,
        lr: float | torch.Tensor,
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
        values = partial(
            _adam_values,
            beta1=beta1,
            beta2=beta2,
            weight_decay=weight_decay,
            eps=eps,
            decoupled=decoupled,
        )
        static = (not decoupled and weight_decay != 0,)
        counts = [each if each.is_cpu else each.item() for each in steps]
        for param, grad, mean, square, count in zip(params, grads, means, squares, counts, strict=True):
            if not param.numel():
                continue
            computed = Computed(values, (count, lr))
            if grad.stride() != param.stride():
                grad = torch.empty_like(param).copy_(grad)
            pair = _pair(param, mean, square)
            if pair is None:
                outputs = (param, mean, square)
                launch(f"aten::{name}", _adam_apart, outputs, (grad,), static, computed)
            else:
                launch(f"aten::{name}", _adam_of_pair, (param, pair), (grad,), static, computed)
        return None


def _pair(param: torch.Tensor, mean: torch.Tensor, square: torch.Tensor) -> torch.Tensor | None:
    """Return both averages as one tensor, (2, elements); None unless all lie alike and without gaps."""
    count, storage = param.numel(), mean.untyped_storage()
    alike = param.stride() == mean.stride() == square.stride()
    if not alike or storage.data_ptr() != square.untyped_storage().data_ptr():
        return None
    start = mean.storage_offset()
    if square.storage_offset() != start + count or not _dense(param):
        return None
    return tensor_on(storage, int(start), (2, count), (count, 1), torch.float32)


_fused("_fused_adam_", decoupled=False)
_fused("_fused_adamw_", decoupled=True)
