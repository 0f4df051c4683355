"""Operators that write to elements chosen by their numbers.

Whole rows are scattered by the device. Where each element has an index of its own, each element of the result
looks for the last index that names it, and a gather takes the value that belongs to that index, or what was
there before. Sums are products with matrices of 0 and 1. Both take as many steps as elements times indices;
more than MOST steps go to the CPU.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch

from echo_npu.ops.copy import copy_commands
from echo_npu.ops.methods import OpMethods
from echo_npu.ops.rows import line, row_commands, single
from echo_npu.tensor import DeviceTensor
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import Tensors, ascending, int32_indices, integers, narrowed, widened
from echo_npu.torch.ops.filling import choose
from echo_npu.torch.ops.indexing import axis_of, check_below, checked, gather_rows
from echo_npu.torch.types import FLOATS, INDICES
from echo_npu.vector.kernels.losses import one_hot
from echo_npu.vector.kernels.places import last_place

MOST: Final = 1 << 22


def _overwritten(
    npu: OpMethods, before: DeviceTensor, ids: DeviceTensor, values: DeviceTensor
) -> DeviceTensor:
    """Return `before` with values at the places `ids`.

    Args:
        before: [outer, count, ...].  ids: dense int32 [outer, k].  values: [outer, k, ...].
    """
    outer, count = before.shape[:2]
    k, rows = ids.shape[1], outer * count
    numbers = ascending(npu, count)
    check_below(npu, ids, numbers)
    owners = npu.empty((outer, count), np.int32)
    given = [line(ids[:, None], owners.shape, k), single(numbers, owners.shape, bcast=True)]
    npu.execute(row_commands(npu, last_place(), owners.shape, given, single(owners, owners.shape), cols=k))
    rest = before.shape[2:]
    table = npu.empty((rows + outer * k, *rest), before.dtype)
    commands = copy_commands(before, table[:rows].reshape(*before.shape))
    npu.execute([*commands, *copy_commands(values, table[rows:].reshape(outer, k, *rest))])
    new = integers(npu, "add", [owners, ascending(npu, outer, rows, k)[:, None]])
    old = ascending(npu, rows).reshape(outer, count)
    untouched = integers(npu, "lt", [owners], params=[np.int32(0)])
    place = integers(npu, "where", [untouched, old, new])
    made = npu.empty(before.shape, before.dtype)
    gather_rows(npu, table, place, made, table.shape[0])
    return made


def _summed(npu: OpMethods, before: DeviceTensor, ids: DeviceTensor, values: DeviceTensor) -> DeviceTensor:
    """Do as `_overwritten`, and add instead: float32."""
    outer, count = before.shape[:2]
    k, rest = ids.shape[1], before.shape[2:]
    check_below(npu, ids, ascending(npu, count))
    chosen = npu.empty((outer, k, count))
    leading = chosen.shape[:-1]
    given = [single(ids, leading, bcast=True)]
    params = [np.int32(-1)]
    npu.execute(
        row_commands(npu, one_hot(), leading, given, line(chosen, leading, count), cols=count, params=params)
    )
    width = math.prod(rest)
    rows = npu.contiguous(widened(npu, values)).reshape(outer, k, width)
    sums = npu.matmul(chosen, rows, trans_a=True)
    made: DeviceTensor = npu.add(widened(npu, before), sums.reshape(*before.shape))
    return made


def _write(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], axis: int, add: bool
) -> None:
    """Inputs: x, ids of as many axes, values of the ids' shape. Out has x's shape."""
    out = outputs[0]
    x, ids, values = inputs
    if x.ptr != out.ptr:
        npu.copy(x, out=out)
    order = [*(i for i in range(x.ndim) if i != axis), axis]
    part = tuple(slice(None) if i == axis else slice(size) for i, size in enumerate(ids.shape))
    region = out[part].transpose(*order)
    count, k = x.shape[axis], ids.shape[axis]
    before: DeviceTensor = npu.copy(region).reshape(-1, count)
    numbers = npu.contiguous(int32_indices(npu, ids).transpose(*order)).reshape(-1, k)
    chosen = values[tuple(slice(size) for size in ids.shape)].transpose(*order)
    given = npu.copy(chosen).reshape(-1, k)
    if add:
        narrowed_to(npu, _summed(npu, before, numbers, given).reshape(*region.shape), region)
    else:
        made = _overwritten(npu, before, numbers, given)
        npu.execute(copy_commands(made.reshape(*region.shape), region))


def narrowed_to(npu: OpMethods, result: DeviceTensor, target: DeviceTensor) -> None:
    """Write float32 to a tensor with any strides, rounded to its type."""
    if target.dtype == np.float32:
        npu.execute(copy_commands(result, target))
    else:
        narrowed(npu, result, target)


def _scatter(
    label: str,
    x: torch.Tensor,
    dim: int,
    ids: torch.Tensor,
    values: Any,
    out: torch.Tensor,
    add: bool = False,
) -> Any:
    if not isinstance(values, torch.Tensor):
        values = torch.full(ids.shape, values, dtype=x.dtype, device=x.device)
    if not x.dim() or ids.dtype not in INDICES or values.dtype != x.dtype or out.dtype != x.dtype:
        return NotImplemented
    axis = axis_of(x, dim)
    if add and x.dtype not in FLOATS:
        return NotImplemented
    if ids.dim() != x.dim() or ids.numel() * x.shape[axis] > MOST or x.numel() > MOST or not ids.numel():
        return NotImplemented
    launch(label, _write, (out,), (x, ids, values), (axis, add))
    checked(label, out, RuntimeError)
    return out


@native("scatter.src_out")
def scatter(x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, *, out: torch.Tensor) -> Any:
    return _scatter("aten::scatter", x, dim, index, src, out)


@native("scatter.value_out")
def scatter_value(x: torch.Tensor, dim: int, index: torch.Tensor, value: Any, *, out: torch.Tensor) -> Any:
    return (
        NotImplemented if isinstance(value, complex) else _scatter("aten::scatter", x, dim, index, value, out)
    )


@native("scatter_add.out")
def scatter_add(
    x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, *, out: torch.Tensor
) -> Any:
    return _scatter("aten::scatter_add", x, dim, index, src, out, add=True)


def _put(
    npu: OpMethods,
    outputs: Tensors,
    inputs: Tensors,
    params: list[Any],
    axis: int,
    add: bool,
    wrap: bool,
) -> None:
    """Inputs: x, values with one axis of n in place of the axes that are indexed, indices [n] of these."""
    out = outputs[0]
    x, values, *ids = inputs
    if x.ptr != out.ptr:
        npu.copy(x, out=out)
    sizes = x.shape[axis : axis + len(ids)]
    place: DeviceTensor | None = None
    for size, each in zip(sizes, ids, strict=True):
        number = npu.contiguous(int32_indices(npu, each, size if wrap else None))
        check_below(npu, number, ascending(npu, size))
        if place is None:
            place = number
        else:
            place = integers(npu, "linear", [place, number], params=[np.int32(size)], letters="sps")
    assert place is not None
    count, n = math.prod(sizes), place.size
    front = [*range(axis, axis + len(ids)), *range(axis), *range(axis + len(ids), x.ndim)]
    region = out.transpose(*front)
    rest = region.shape[len(ids) :]
    turned = values.transpose(axis, *range(axis), *range(axis + 1, values.ndim))
    given = npu.copy(turned)
    if add:
        before = npu.copy(region).reshape(1, count, *rest)
        sums = _summed(npu, before, place.reshape(1, n), given.reshape(1, n, *rest))
        narrowed_to(npu, sums.reshape(*region.shape), region)
        return
    table = region if region.is_contiguous else npu.copy(region)
    npu.scatter_rows(table.reshape(count, -1), place.reshape(n), given.reshape(n, -1))
    if table is not region:
        npu.execute(copy_commands(table, region))


def _put_rows(
    label: str,
    x: torch.Tensor,
    axis: int,
    ids: Sequence[torch.Tensor],
    values: torch.Tensor,
    add: bool,
    out: torch.Tensor,
    *,
    wrap: bool = False,
    error_class: type[Exception] = IndexError,
) -> Any:
    """Write values [..., n, ...] to the elements of `out`, a tensor of x's shape, that flat indices name.

    With `wrap` negative indices count from the end.
    """
    count = math.prod(x.shape[axis : axis + len(ids)])
    if add and x.dtype not in FLOATS:
        return NotImplemented
    if values.dtype != x.dtype or out.dtype != x.dtype or x.numel() > MOST:
        return NotImplemented
    if add and count * ids[0].numel() > MOST:
        return NotImplemented
    if not ids[0].numel() or not x.numel():
        return NotImplemented
    launch(label, _put, (out,), (x, values, *ids), (axis, add, wrap))
    checked(label, out, error_class)
    return out


@native("_index_put_impl_")
def index_put(
    x: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Any:
    axes = [i for i, each in enumerate(indices) if each is not None]
    if not axes:
        return NotImplemented
    if axes != list(range(axes[0], axes[0] + len(axes))):
        # As in numpy: the values have the axes of the indices first where a slice lies between these.
        front = x.permute(*axes, *(axis for axis in range(x.dim()) if axis not in axes))
        given = [each for each in indices if each is not None]
        return NotImplemented if index_put(front, given, values, accumulate) is NotImplemented else x
    given = [each.to(x.device) for each in indices if each is not None]
    values = values.to(x.device) if values.is_cpu and not values.dim() else values
    if len(given) == 1 and given[0].dtype == torch.bool and values.numel() == 1 and not accumulate:
        mask = given[0]
        if mask.shape != x.shape[axes[0] : axes[0] + mask.dim()]:
            return NotImplemented  # the CPU says what is wrong
        behind = (1,) * (x.dim() - axes[0] - mask.dim())
        whole = mask.reshape(*mask.shape, *behind).expand(x.shape)
        return choose("aten::_index_put_impl_", whole, values.reshape(()).expand(x.shape), x, x)
    if any(each.dtype not in INDICES for each in given):
        return NotImplemented
    shape = torch.broadcast_shapes(*(each.shape for each in given))
    flat = [each.expand(shape).reshape(-1) for each in given]
    first, last = axes[0], axes[0] + len(axes)
    spread = values.expand(*x.shape[:first], *shape, *x.shape[last:])
    spread = spread.reshape(*x.shape[:first], flat[0].numel(), *x.shape[last:])
    return _put_rows("aten::_index_put_impl_", x, first, flat, spread, accumulate, x, wrap=True)


@native("index_copy.out")
def index_copy(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, out: torch.Tensor
) -> Any:
    if index.dtype not in INDICES or not x.dim() or source.dim() != x.dim() or index.is_cpu:
        return NotImplemented
    return _put_rows("aten::index_copy", x, axis_of(x, dim), [index.reshape(-1)], source, False, out)


@native("index_add.out")
def index_add(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, alpha: Any = 1, out: torch.Tensor
) -> Any:
    if index.dtype not in INDICES or not x.dim() or source.dim() != x.dim() or index.is_cpu:
        return NotImplemented
    added = source if alpha == 1 else source * alpha
    places = [index.reshape(-1)]
    return _put_rows(
        "aten::index_add", x, axis_of(x, dim), places, added, True, out, error_class=RuntimeError
    )
