"""Reductions."""

from typing import Any

import numpy as np
import torch

from echo_npu.commands.vector_command import MAX_SEGMENTS
from echo_npu.ops.copy import copy_commands
from echo_npu.ops.methods import OpMethods
from echo_npu.ops.rows import column_commands, line, row_commands, single
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import (
    Tensors,
    float_target,
    narrowed,
    store_int64,
    widened,
    words,
)
from echo_npu.torch.storages import like
from echo_npu.torch.types import FLOATS, SMALL_INTEGERS
from echo_npu.vector.kernels.losses import running_sum
from echo_npu.vector.kernels.wide import extreme

_EXACT = SMALL_INTEGERS - {torch.int32}
"""Integers that float32 holds."""

_COMPARED = SMALL_INTEGERS | {torch.int64}


def axes_of(x: torch.Tensor, dim: Any) -> tuple[int, ...]:
    """Return the reduced axes, ascending; none given are all."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return tuple(range(x.dim()))
    listed = [dim] if isinstance(dim, int) else dim
    return tuple(sorted(each % max(x.dim(), 1) for each in listed))


def _reduce(
    npu: OpMethods,
    outputs: Tensors,
    inputs: Tensors,
    params: list[Any],
    op: str,
    axes: tuple[int, ...],
    keepdim: bool,
) -> None:
    out = outputs[0]
    x = widened(npu, inputs[0])
    target = float_target(npu, out)
    if not x.ndim:
        npu.copy(x, out=target)
    else:
        getattr(npu, op)(x, axes, keepdim, out=target)
    if out.dtype == np.int64:
        store_int64(npu, npu.cast(target, np.int32), out)
    else:
        narrowed(npu, target, out)


def _reduced(op: str, label: str, x: torch.Tensor, dim: Any, keepdim: bool, out: torch.Tensor) -> Any:
    if not out.numel():
        return out
    if not x.numel() or x.is_cpu:
        return NotImplemented
    launch(label, _reduce, (out,), (x,), (op, axes_of(x, dim) if x.dim() else (), bool(keepdim)))
    return out


def _summable(x: torch.Tensor, out: torch.Tensor) -> bool:
    """Return whether a sum is exact, or of floats as wide as the result."""
    if x.dtype in FLOATS:
        return out.dtype == x.dtype or out.dtype == torch.float32
    largest = {torch.bool: 1, torch.uint8: 255, torch.int8: 128, torch.int16: 32768}.get(x.dtype)
    return largest is not None and out.dtype == torch.int64 and largest * x.numel() < 1 << 24


@native("sum.IntList_out")
def sum_(x: torch.Tensor, dim: Any, keepdim: bool = False, *, dtype: Any = None, out: torch.Tensor) -> Any:
    return _reduced("sum", "aten::sum", x, dim, keepdim, out) if _summable(x, out) else NotImplemented


@native("mean.out")
def mean(x: torch.Tensor, dim: Any, keepdim: bool = False, *, dtype: Any = None, out: torch.Tensor) -> Any:
    if x.dtype not in FLOATS or out.dtype not in (x.dtype, torch.float32):
        return NotImplemented
    return _reduced("mean", "aten::mean", x, dim, keepdim, out)


@native("amax.out")
def amax(x: torch.Tensor, dim: Any = (), keepdim: bool = False, *, out: torch.Tensor) -> Any:
    exact = x.dtype == out.dtype and (x.dtype in FLOATS or x.dtype in _EXACT)
    return _reduced("max", "aten::amax", x, dim, keepdim, out) if exact else NotImplemented


@native("amin.out")
def amin(x: torch.Tensor, dim: Any = (), keepdim: bool = False, *, out: torch.Tensor) -> Any:
    exact = x.dtype == out.dtype and (x.dtype in FLOATS or x.dtype in _EXACT)
    return _reduced("min", "aten::amin", x, dim, keepdim, out) if exact else NotImplemented


def _extreme(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], op: str) -> None:
    """Find the greatest ("max") or least ("min") of all int64 elements."""
    whole = npu.contiguous(inputs[0]).reshape(-1)
    count = whole.shape[0]
    given = [line(each, (), count) for each in words(whole)]
    for out, high in zip(words(outputs[0]), (False, True), strict=True):
        program = extreme(op, high=high)
        npu.execute(row_commands(npu, program, (), given, single(out, ()), cols=count))


def _wide(label: str, x: torch.Tensor, op: str) -> Any:
    """Reduce an int64 tensor to one element; NotImplemented if one row cannot hold it."""
    if not 0 < x.numel() <= MAX_SEGMENTS:
        return NotImplemented
    out = like(x, ())
    launch(label, _extreme, (out,), (x,), (op,))
    return out


@native("max")
def max_all(x: torch.Tensor) -> Any:
    if x.dtype == torch.int64:
        return _wide("aten::max", x, "max")
    return amax(x, None, out=like(x, ())) if x.numel() else NotImplemented


@native("min")
def min_all(x: torch.Tensor) -> Any:
    if x.dtype == torch.int64:
        return _wide("aten::min", x, "min")
    return amin(x, None, out=like(x, ())) if x.numel() else NotImplemented


@native("any.out", "any.dims_out")
def any_(x: torch.Tensor, dim: Any = None, keepdim: bool = False, *, out: torch.Tensor) -> Any:
    if (x.dtype not in FLOATS and x.dtype not in _COMPARED) or out.dtype != torch.bool:
        return NotImplemented
    truth = x if x.dtype == torch.bool else x != 0
    return _reduced("max", "aten::any", truth, dim, keepdim, out)


@native("all.out", "all.dims_out")
def all_(x: torch.Tensor, dim: Any = None, keepdim: bool = False, *, out: torch.Tensor) -> Any:
    if (x.dtype not in FLOATS and x.dtype not in _COMPARED) or out.dtype != torch.bool:
        return NotImplemented
    truth = x if x.dtype == torch.bool else x != 0
    return _reduced("min", "aten::all", truth, dim, keepdim, out)


@native("any.all_out")
def any_all(x: torch.Tensor, *, out: torch.Tensor) -> Any:
    return any_(x, out=out)


@native("all.all_out")
def all_all(x: torch.Tensor, *, out: torch.Tensor) -> Any:
    return all_(x, out=out)


def _argmax(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], axis: int | None, keepdim: bool
) -> None:
    x = widened(npu, inputs[0])
    if not x.ndim:
        x = x.reshape(1)
        axis = None
    if axis is None and keepdim:
        x, axis = npu.contiguous(x).reshape(-1), 0
        found = npu.argmax(x, axis).reshape(*outputs[0].shape)
    else:
        found = npu.argmax(x, axis, keepdim)
    store_int64(npu, found, outputs[0])


@native("argmax.out")
def argmax(x: torch.Tensor, dim: Any = None, keepdim: bool = False, *, out: torch.Tensor) -> Any:
    if (x.dtype not in FLOATS and x.dtype not in _EXACT) or not x.numel() or out.dtype != torch.int64:
        return NotImplemented
    if out.numel():
        axis = None if dim is None else int(dim) % max(x.dim(), 1)
        launch("aten::argmax", _argmax, (out,), (x,), (axis, bool(keepdim)))
    return out


@native("max.dim_max")
def max_dim(
    x: torch.Tensor,
    dim: int,
    keepdim: bool = False,
    *,
    max: torch.Tensor,  # noqa: A002  (PyTorch's name)
    max_values: torch.Tensor,
) -> Any:
    if x.dtype not in FLOATS or not x.numel() or max_values.dtype != torch.int64:
        return NotImplemented
    if max.numel():
        axis = dim % builtin_max(x.dim(), 1)
        _reduced("max", "aten::max", x, axis, keepdim, max)
        launch("aten::max", _argmax, (max_values,), (x,), (axis, bool(keepdim)))
    return max, max_values


def builtin_max(a: int, b: int) -> int:
    """Return the greater: the operator's own arguments hide the builtin."""
    return a if a > b else b


def _norm(
    npu: OpMethods,
    outputs: Tensors,
    inputs: Tensors,
    params: list[Any],
    order: float,
    axes: tuple[int, ...],
    keepdim: bool,
) -> None:
    x = widened(npu, inputs[0])
    target = float_target(npu, outputs[0])
    if order == 2:
        npu.sqrt(npu.sum(npu.mul(x, x), axes, keepdim), out=target)
    elif order == 1:
        npu.sum(npu.abs(x), axes, keepdim, out=target)
    else:
        npu.max(npu.abs(x), axes, keepdim, out=target)
    narrowed(npu, target, outputs[0])


@native("linalg_vector_norm.out")
def vector_norm(
    x: torch.Tensor,
    ord: Any = 2,  # noqa: A002
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: torch.Tensor,
) -> Any:
    if x.dtype not in FLOATS or float(ord) not in (1.0, 2.0, float("inf")) or not x.numel() or not x.dim():
        return NotImplemented
    if out.dtype not in (x.dtype, torch.float32):
        return NotImplemented
    if out.numel():
        launch("aten::linalg_vector_norm", _norm, (out,), (x,), (float(ord), axes_of(x, dim), bool(keepdim)))
    return out


def _cumsum(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], axis: int) -> None:
    x, out = inputs[0], outputs[0]
    order = [i for i in range(x.ndim) if i != axis]
    order.insert(max(len(order) - 1, 0), axis)
    lift = x.ndim == 1
    wide = out.dtype == np.int64
    views = [each.transpose(*order) for each in (x, out)]
    if lift:
        views = [each[:, None] for each in views]
    if wide:
        source = views[0]
        if source.dtype != np.int64:
            whole = npu.empty(source.shape, np.int64)
            store_int64(npu, npu.cast(source, np.int32), whole)
            source = whole
        parts = [npu.copy(each) for each in words(source)]
        for part, high in zip(words(views[1]), (False, True), strict=True):
            sums = npu.empty(source.shape, np.int32)
            program = running_sum(wide=True, high=high)
            npu.execute(column_commands(npu, program, parts if high else parts[:1], sums))
            npu.execute(copy_commands(sums, part))
        return
    source = npu.copy(widened(npu, views[0]))
    sums = npu.empty(source.shape)
    npu.execute(column_commands(npu, running_sum(), [source], sums))
    if views[1].dtype == np.float32:
        npu.execute(copy_commands(sums, views[1]))
    else:
        narrowed(npu, sums, views[1])


@native("cumsum.out")
def cumsum(x: torch.Tensor, dim: int, *, dtype: Any = None, out: torch.Tensor) -> Any:
    if not x.dim() or not x.numel():
        return NotImplemented
    floats = x.dtype in FLOATS and out.dtype in (x.dtype, torch.float32)
    whole = out.dtype == torch.int64 and (x.dtype == torch.int64 or x.dtype in SMALL_INTEGERS)
    if not (floats or whole):
        return NotImplemented
    launch("aten::cumsum", _cumsum, (out,), (x,), (dim % x.dim(),))
    return out
