"""Softmax and its logarithm, with their gradients."""

from collections.abc import Callable
from typing import Any

import torch

from echo_npu.ops.methods import OpMethods
from echo_npu.ops.rows import last_axis_commands, row_fits
from echo_npu.tensor import DeviceTensor
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import Tensors, float_target, narrowed, widened
from echo_npu.torch.types import FLOATS
from echo_npu.vector.kernels.losses import log_softmax, log_softmax_backward


def _softmax(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], axis: int, log: bool
) -> None:
    x, target = widened(npu, inputs[0]), float_target(npu, outputs[0])
    if log:
        order = [*(i for i in range(x.ndim) if i != axis), axis]
        rows = x.transpose(*order)
        result = target if target.ptr != x.ptr else npu.empty(target.shape)
        program = log_softmax(kept=row_fits(npu, x.shape[axis]))
        npu.execute(last_axis_commands(npu, program, [rows], result.transpose(*order)))
        if result is not target:
            npu.copy(result, out=target)
    else:
        npu.softmax(x, axis, out=target)
    narrowed(npu, target, outputs[0])


def _forward(log: bool, label: str) -> Callable[..., Any]:
    def kernel(x: torch.Tensor, dim: int, half_to_float: bool, *, out: torch.Tensor) -> Any:
        if x.dtype not in FLOATS or not x.dim():
            return NotImplemented
        if out.numel():
            launch(label, _softmax, (out,), (x,), (dim % x.dim(), log))
        return out

    return kernel


native("_softmax.out")(_forward(False, "aten::_softmax"))
native("_log_softmax.out")(_forward(True, "aten::_log_softmax"))


def _backward_build(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], axis: int, log: bool
) -> None:
    target = float_target(npu, outputs[0])
    order = [*(i for i in range(target.ndim) if i != axis), axis]
    grad, y = (widened(npu, each).transpose(*order) for each in inputs)
    if log:
        apart = target.ptr not in (grad.ptr, y.ptr)
        result = target if apart else npu.empty(target.shape)
        views: list[DeviceTensor] = [grad, y]
        npu.execute(last_axis_commands(npu, log_softmax_backward(), views, result.transpose(*order)))
        if not apart:
            npu.copy(result, out=target)
    else:
        npu.softmax_backward(grad, y, out=target.transpose(*order))
    narrowed(npu, target, outputs[0])


def _backward(log: bool, label: str) -> Callable[..., Any]:
    def run(grad: torch.Tensor, y: torch.Tensor, dim: int, out: torch.Tensor) -> Any:
        if any(each.dtype not in FLOATS for each in (grad, y, out)) or not y.dim():
            return NotImplemented
        if out.numel():
            launch(label, _backward_build, (out,), (grad, y), (dim % y.dim(), log))
        return out

    return run


_softmax_gradient = _backward(False, "aten::_softmax_backward_data")
_log_softmax_gradient = _backward(True, "aten::_log_softmax_backward_data")


@native("_softmax_backward_data.out")
def softmax_backward(
    grad: torch.Tensor, y: torch.Tensor, dim: int, input_dtype: torch.dtype, *, grad_input: torch.Tensor
) -> Any:
    return _softmax_gradient(grad, y, dim, grad_input)


@native("_log_softmax_backward_data.out")
def log_softmax_gradient(
    grad: torch.Tensor, y: torch.Tensor, dim: int, input_dtype: torch.dtype, *, out: torch.Tensor
) -> Any:
    return _log_softmax_gradient(grad, y, dim, out)
