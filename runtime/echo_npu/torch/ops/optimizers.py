"""Fused steps of the optimizers: a command for the averages of a parameter, and one for the parameter."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch

from echo_npu.ops.broadcast import compute
from echo_npu.ops.methods import OpMethods
from echo_npu.ops.rows import last_axis_commands
from echo_npu.ops.types import type_name
from echo_npu.tensor import DeviceTensor
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import Tensors, float_target, narrowed
from echo_npu.torch.overlaps import overlapping
from echo_npu.torch.plan import Computed
from echo_npu.torch.storages import tensor_on
from echo_npu.vector.kernels import optimizers
from echo_npu.vector.kernels.pointwise import pointwise

DTYPES: Final = (torch.float32, torch.bfloat16, torch.float16)
"""Of parameters, gradients and state together."""

_BETAS: Final = slice(0, 4)
_UPDATE: Final = slice(4, 8)
_PART: Final = slice(8, 9)


# --- inside a plan ------------------------------------------------------------------------------------------


def _adam_of_pair(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], decayed: bool
) -> None:
    """Params: beta1, 1 - beta1, beta2, 1 - beta2, decay, root, eps, rate, the part of p in the gradient.

    The outputs are p, one tensor of both averages, (2, elements), and with `amsgrad` the greatest averages of
    the squares. All of them and the gradient lie in memory alike.
    """
    param, averages, *greatest = _flat(outputs[0]), outputs[1], *map(_flat, outputs[2:])
    kind = type_name(param.dtype)
    streams = [averages, _flat(inputs[0]), *([param] if decayed else [])]
    numbers = [*params[_BETAS], *(params[_PART] if decayed else [])]
    program = optimizers.moments(decayed=decayed, kind=kind)
    exact = float_target(npu, averages)  # an average of squares is soon zero in float16
    npu.execute(last_axis_commands(npu, program, streams, exact, params=numbers, keep_last=True))
    square = exact[1]
    for each in greatest:
        program = pointwise("maximum", "ss", (kind, "float32"), "float32")
        greater = float_target(npu, each)
        square = compute(npu, "amsgrad", program, {"x": each, "y": square}, greater)
        narrowed(npu, greater, each)
    given = {"p": param, "m": exact[0], "v": square}
    program = optimizers.adamw_update(kind=kind)
    compute(npu, "adamw", program, given, param, params=params[_UPDATE], dtype=param.dtype)
    narrowed(npu, exact, averages)


def _adam_apart(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], decayed: bool) -> None:
    """Do as `_adam_of_pair` for p, two averages and what `amsgrad` adds, of any strides, through copies."""
    shape, count, dtype = outputs[0].shape, outputs[0].size, outputs[0].dtype
    param, averages, grad, *greatest = (
        npu.empty(each, dtype) for each in ((count,), (2, count), *[(count,)] * (len(outputs) - 2))
    )
    flat = [param, averages[0], averages[1], *greatest]
    places = [each.reshape(*shape) for each in (*flat, grad)]
    for given, place in zip([*outputs, *inputs], places, strict=True):
        npu.copy(given, out=place)
    _adam_of_pair(npu, [param, averages, *greatest], [grad], params, decayed)
    for given, place in zip(outputs, places, strict=False):
        npu.copy(place, out=given)


def _dense(x: DeviceTensor | torch.Tensor) -> bool:
    """Return whether the elements of a tensor whose elements lie apart fill its memory."""
    strides = x.stride() if isinstance(x, torch.Tensor) else [each // x.dtype.itemsize for each in x.strides]
    return sum((n - 1) * step for n, step in zip(x.shape, strides, strict=True)) + 1 == math.prod(x.shape)


def _flat(x: DeviceTensor) -> DeviceTensor:
    """Return the elements of a tensor without gaps in the order of memory."""
    return DeviceTensor.borrow(x.device, x.ptr, (x.size,), (x.dtype.itemsize,), x.dtype)


_STEP: Final = slice(0, 3)
_MOMENTUM: Final = slice(3, 6)
_WEIGHT_DECAY: Final = slice(6, 7)


def _sgd(
    npu: OpMethods,
    outputs: Tensors,
    inputs: Tensors,
    params: list[Any],
    decayed: bool,
    first: bool,
    nesterov: bool,
    maximize: bool,
) -> None:
    """Params: those of the parameter's program, of the momentum's program, weight decay.

    A second output is the momentum.
    """
    tensors = [*inputs, *outputs]
    alike = all(each.strides == inputs[0].strides for each in outputs)
    grad, param, *momenta = map(_flat, tensors) if alike and _dense(inputs[0]) else tensors
    kind = type_name(param.dtype)
    compute_all = partial(compute, npu, "sgd", dtype=param.dtype)
    given = {"p": param, "g": grad}
    if momenta:
        momentum = momenta[0]
        if first:
            _first_momentum(npu, momentum, grad, param if decayed else None, params[_WEIGHT_DECAY], maximize)
        else:
            program = optimizers.momentum(decayed=decayed, kind=kind)
            taken = {"m": momentum, "g": grad, **({"p": param} if decayed else {})}
            compute_all(program, taken, momentum, params=params[_MOMENTUM])
        if nesterov:
            given["m"] = momentum
        else:
            given["g"], decayed = momentum, False
    program = optimizers.sgd_update(decayed=decayed, nesterov=bool(momenta) and nesterov, kind=kind)
    compute_all(program, given, param, params=params[_STEP])


def _first_momentum(
    npu: OpMethods,
    momentum: DeviceTensor,
    grad: DeviceTensor,
    param: DeviceTensor | None,
    weight_decay: Sequence[Any],
    maximize: bool,
) -> None:
    """Write the gradient to the momentum, negated to `maximize`; with a parameter, add its decay."""
    kind, dtype = type_name(grad.dtype), grad.dtype
    if maximize:
        compute(npu, "sgd", pointwise("neg", "s", (kind,), kind), {"x": grad}, momentum, dtype=dtype)
        grad = momentum
    if param is not None:
        program = pointwise("add_scaled", "ssp", (kind, kind), kind)
        compute(npu, "sgd", program, {"x": grad, "y": param}, momentum, params=weight_decay, dtype=dtype)
    elif not maximize:
        npu.copy(grad, out=momentum)


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
    if grad_scale is not None or found_inf is not None or not _suitable(params, grads, momenta):
        return NotImplemented
    values = partial(
        _sgd_values,
        weight_decay=weight_decay,
        momentum=momentum,
        dampening=dampening,
        ahead=nesterov or not momentum,
        sign=-1 if maximize else 1,
    )
    computed = Computed(values, (lr,))
    static = (weight_decay != 0, bool(is_first_step), bool(nesterov), bool(maximize))
    for number, (param, grad) in enumerate(zip(params, grads, strict=True)):
        if param.numel():
            outputs = (param, momenta[number]) if momentum else (param,)
            launch("aten::_fused_sgd_", _sgd, outputs, (grad,), static, computed)
    return None


def _suitable(*lists: Sequence[torch.Tensor]) -> bool:
    """Return whether each parameter, its gradient and its state are of one type that the steps take.

    No parameter may have elements that share memory: a launch would find that when others are changed.
    """
    params = lists[0]
    known = all(each.dtype in DTYPES and not overlapping(each) for each in params)
    return known and all(
        each.dtype == param.dtype
        for others in lists[1:]
        if others
        for param, each in zip(params, others, strict=True)
    )


def _sgd_values(
    lr: float, *, weight_decay: float, momentum: float, dampening: float, ahead: bool, sign: int
) -> list[float]:
    """Return the params of `_sgd`.

    Args:
        ahead: the gradient itself is in the parameter's step, not only the momentum.
        sign: of the gradient in the loss; its factor is there taken out of all that is added to it.
    """
    step = [-lr * (sign if ahead else 1), sign * weight_decay, sign * momentum]
    return [*step, momentum, sign * (1 - dampening), sign * weight_decay, weight_decay]


def _adam_values(
    step: float,
    lr: float,
    *,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    decoupled: bool,
    sign: int,
) -> list[float]:
    """Return the params of `_adam_of_pair`; the gradient counts with a sign."""
    decay, part = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    root, rate = (1 - beta2**step) ** -0.5, lr / (1 - beta1**step)
    return [beta1, sign * (1 - beta1), beta2, 1 - beta2, decay, root, eps, rate, sign * part]


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
        greatest = max_squares if amsgrad else []
        if grad_scale is not None or found_inf is not None:
            return NotImplemented
        if not _suitable(params, grads, means, squares, greatest):
            return NotImplemented
        values = partial(
            _adam_values,
            beta1=beta1,
            beta2=beta2,
            weight_decay=weight_decay,
            eps=eps,
            decoupled=decoupled,
            sign=-1 if maximize else 1,
        )
        static = (not decoupled and weight_decay != 0,)
        counts = [each if each.is_cpu else each.item() for each in steps]
        for number, (param, grad, count) in enumerate(zip(params, grads, counts, strict=True)):
            if not param.numel():
                continue
            computed = Computed(values, (count, lr))
            if grad.stride() != param.stride():
                grad = torch.empty_like(param).copy_(grad)
            mean, square, more = means[number], squares[number], greatest[number : number + 1]
            pair = _pair(param, mean, square)
            if pair is None or any(each.stride() != param.stride() for each in more):
                outputs = (param, mean, square, *more)
                launch(f"aten::{name}", _adam_apart, outputs, (grad,), static, computed)
            else:
                launch(f"aten::{name}", _adam_of_pair, (param, pair, *more), (grad,), static, computed)
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
    return tensor_on(storage, int(start), (2, count), (count, 1), param.dtype)


_fused("_fused_adam_", decoupled=False)
_fused("_fused_adamw_", decoupled=True)
