"""Operators that are a few others, where PyTorch has no decomposition that the device can run."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from echo_npu.torch.kernels import native
from echo_npu.torch.ops.indexing import select
from echo_npu.torch.ops.reductions import axes_of
from echo_npu.torch.storages import dense
from echo_npu.torch.types import FLOATS


@native("flip")
def flip(x: torch.Tensor, dims: Sequence[int]) -> Any:
    if not x.is_contiguous() and dense(x):
        order = sorted(range(x.dim()), key=x.stride, reverse=True)
        dims = [dim % x.dim() for dim in dims]
        turned = flip(x.permute(order), [order.index(dim) for dim in dims])
        return turned.permute([order.index(axis) for axis in range(x.dim())])
    made = x.clone()
    if not x.numel() or not x.dim():
        return made
    for dim in dims:
        axis = dim % x.dim()
        places = torch.arange(x.shape[axis] - 1, -1, -1, device=x.device)
        made = select("aten::flip", made, places, axis, wrap=False)
    return made


@native("roll")
def roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    if not x.numel():
        return x.clone()
    if not dims:
        return roll(x.reshape(-1), shifts, (0,)).reshape(x.shape) if len(shifts) == 1 else NotImplemented
    if len(shifts) != len(dims):
        return NotImplemented
    made = x
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        cut = (size - shift) % size
        made = torch.cat([made.narrow(dim, cut, size - cut), made.narrow(dim, 0, cut)], dim)
    return made


def _moments(x: torch.Tensor, dim: Any, correction: Any, keepdim: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return variance and mean, float32."""
    axes = axes_of(x, dim)
    wide = x.float()
    mean = wide.mean(axes, keepdim=True)
    apart = wide - mean
    count = math.prod(x.shape[axis] for axis in axes) - (1 if correction is None else correction)
    variance = (apart * apart).sum(axes, keepdim=keepdim) / max(count, 0)
    return variance, mean if keepdim else mean.reshape(variance.shape)


def _statistic(name: str, *, root: bool, with_mean: bool) -> None:
    def kernel(x: torch.Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        if x.dtype not in FLOATS or not x.numel() or not x.dim():
            return NotImplemented
        variance, mean = _moments(x, dim, correction, keepdim)
        result = (variance.sqrt() if root else variance).to(x.dtype)
        return (result, mean.to(x.dtype)) if with_mean else result

    native(name)(kernel)


_statistic("var.correction", root=False, with_mean=False)
_statistic("std.correction", root=True, with_mean=False)
_statistic("var_mean.correction", root=False, with_mean=True)
_statistic("std_mean.correction", root=True, with_mean=True)


@native("_native_batch_norm_legit")
def batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Run as `native_batch_norm`, whose decomposition changes the running statistics as well."""
    if x.dtype not in FLOATS or not training:
        return NotImplemented
    return torch.ops.aten.native_batch_norm(x, weight, bias, mean, variance, training, momentum, eps)


@native("equal")
def equal(x: torch.Tensor, y: torch.Tensor) -> Any:
    if x.dtype != y.dtype or x.is_cpu or y.is_cpu or x.dtype.itemsize > 8 or x.dtype == torch.float64:
        return NotImplemented
    if x.is_complex():
        return NotImplemented
    return x.shape == y.shape and bool((x == y).all())


@native("isin.Tensor_Tensor_out")
def isin(
    x: torch.Tensor,
    tested: torch.Tensor,
    *,
    assume_unique: bool = False,
    invert: bool = False,
    out: torch.Tensor,
) -> Any:
    if x.is_cpu or tested.is_cpu or x.numel() * tested.numel() > 1 << 22 or not tested.numel():
        return NotImplemented
    found = (x[..., None] == tested.reshape(-1)).any(-1)
    return out.copy_(~found if invert else found)


@native("argmin.out")
def argmin(x: torch.Tensor, dim: Any = None, keepdim: bool = False, *, out: torch.Tensor) -> Any:
    if x.dtype not in FLOATS or not x.numel():
        return NotImplemented
    return torch.argmax(-x, dim, keepdim, out=out)


@native("eye.m_out")
def eye(n: int, m: int, *, out: torch.Tensor) -> Any:
    out.resize_([n, m]).zero_()
    if out.numel():
        out.diagonal().fill_(1)
    return out
