"""Operators that choose elements by their numbers. The device checks the numbers, so these wait for it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch._prims_common import canonicalize_dim

from echo_npu.commands.builders import gather_command
from echo_npu.driver.command_device import CommandDevice
from echo_npu.errors import NpuDeviceError
from echo_npu.ops.methods import OpMethods
from echo_npu.ops.rows import line, row_commands, single
from echo_npu.spec.status import ErrorCode
from echo_npu.tensor import DeviceTensor
from echo_npu.torch.devices import opened
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import (
    Tensors,
    ascending,
    float_target,
    int32_indices,
    integers,
    narrowed,
    widened,
)
from echo_npu.torch.storages import like
from echo_npu.torch.types import FLOATS, INDICES
from echo_npu.vector.kernels.losses import one_hot


def checked(name: str, tensor: torch.Tensor, error_class: type[Exception] = IndexError) -> None:
    """Wait for the device. Raise `error_class`, as the CPU does: an index lay outside of its table."""
    try:
        opened(tensor.device.index).synchronize()
    except NpuDeviceError as error:
        if error.code != ErrorCode.BAD_INDEX:
            raise
        raise error_class(f"{name}: an index is out of range") from None


def axis_of(x: torch.Tensor, dim: int) -> int:
    """Return an axis from 0. Raise IndexError: x has no such one."""
    return int(canonicalize_dim(x.dim(), dim))


def gather_rows(
    npu: CommandDevice, table: DeviceTensor, rows: DeviceTensor, target: DeviceTensor, count: int
) -> None:
    """Copy rows of a dense table of `count` rows, by dense int32 numbers, to a dense target."""
    row_bytes = table.nbytes // count
    npu.execute(
        gather_command(table.ptr, rows.ptr, target.ptr, rows=rows.size, row_bytes=row_bytes, table_rows=count)
    )


def check_below(npu: CommandDevice, ids: DeviceTensor, table: DeviceTensor) -> None:
    """Let the device find an index, dense int32, that is not below the length of a table of int32."""
    found = npu.empty(ids.shape, np.int32)
    gather = gather_command(table.ptr, ids.ptr, found.ptr, rows=ids.size, row_bytes=4, table_rows=table.size)
    npu.execute(gather)


def _select(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], axis: int, wrap: bool
) -> None:
    """Take rows along an axis: out has the indices' axes in its place."""
    table, ids = inputs
    out = outputs[0]
    count = table.shape[axis]
    order = [axis, *(i for i in range(table.ndim) if i != axis)]
    source = npu.contiguous(table.transpose(*order))
    rows = int32_indices(npu, ids, count if wrap else None)
    shape = (*ids.shape, *source.shape[1:])
    back = [*range(ids.ndim, ids.ndim + axis), *range(ids.ndim), *range(ids.ndim + axis, len(shape))]
    plain = axis == 0 and out.is_contiguous
    target = out if plain else npu.empty(shape, out.dtype)
    gather_rows(npu, source, rows, target, count)
    if not plain:
        npu.copy(target.transpose(*back), out=out)


def select(label: str, table: torch.Tensor, ids: torch.Tensor, axis: int, *, wrap: bool) -> Any:
    """Return a new tensor of the rows that `ids` names along an axis."""
    if ids.dtype not in INDICES or not table.dim() or not table.numel():
        return NotImplemented
    out = like(table, (*table.shape[:axis], *ids.shape, *table.shape[axis + 1 :]))
    if out.numel():
        launch(label, _select, (out,), (table, ids), (axis, wrap))
        checked(label, out)
    return out


@native("embedding")
def embedding(
    weight: torch.Tensor,
    indices: torch.Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    return select("aten::embedding", weight, indices, 0, wrap=False)


@native("index_select")
def index_select(x: torch.Tensor, dim: int, index: torch.Tensor) -> Any:
    if not x.dim() or index.dim() > 1:
        return NotImplemented
    return select("aten::index_select", x, index.reshape(-1), axis_of(x, dim), wrap=False)


@native("index.Tensor")
def index(x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> Any:
    axes = [i for i, each in enumerate(indices) if each is not None]
    given = [each for each in indices if each is not None]
    if not axes:
        return NotImplemented
    moved = [each.to(x.device) if each.is_cpu else each for each in given]
    if any(each.dtype not in INDICES for each in moved) or not x.numel():
        return NotImplemented
    if len(axes) == 1:
        return select("aten::index", x, moved[0], axes[0], wrap=True)
    if max(x.shape) >= 2**31 or x.numel() >= 2**31:
        return NotImplemented
    shape = torch.broadcast_shapes(*(each.shape for each in moved))
    first = x.permute(*axes, *(axis for axis in range(x.dim()) if axis not in axes))
    out = like(x, (*shape, *first.shape[len(axes) :]))
    if out.numel():
        launch("aten::index", _several, (out,), (first, *(each.expand(shape) for each in moved)))
        checked("aten::index", out)
    if axes != list(range(axes[0], axes[0] + len(axes))):
        return out  # as in numpy: the axes of the indices come first where a slice lies between them
    places = range(len(shape))
    return out.movedim(tuple(places), tuple(axes[0] + place for place in places)).contiguous()


def _several(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any]) -> None:
    """Take elements by several indices, of the first axes."""
    x, *ids = inputs
    table = npu.contiguous(x)
    place: DeviceTensor | None = None
    wrong: DeviceTensor | None = None
    for size, each in zip(x.shape, ids, strict=False):
        number = int32_indices(npu, each, size)
        bad = _outside(npu, number, size)
        wrong = bad if wrong is None else integers(npu, "or", [wrong, bad])
        if place is None:
            place = number
        else:
            place = integers(npu, "linear", [place, number], params=[np.int32(size)], letters="sps")
    assert place is not None
    assert wrong is not None
    place = _nowhere(npu, wrong, place)
    count = int(np.prod(x.shape[: len(ids)]))
    out = outputs[0]
    target = out if out.is_contiguous else npu.empty(out.shape, out.dtype)
    gather_rows(npu, table, place, target, count)
    if target is not out:
        npu.copy(target, out=out)


def _outside(npu: OpMethods, number: DeviceTensor, size: int) -> DeviceTensor:
    """Return where numbers are not in 0 .. size - 1."""
    negative = integers(npu, "lt", [number], params=[np.int32(0)])
    large = integers(npu, "ge", [number], params=[np.int32(size)])
    return integers(npu, "or", [negative, large])


def _nowhere(npu: OpMethods, wrong: DeviceTensor, place: DeviceTensor) -> DeviceTensor:
    """Return places, and for wrong ones a place in no table. What wrong numbers add up to may wrap."""
    return integers(npu, "where", [wrong, place], params=[np.int32(-1)], letters="sps")


@native("gather.out")
def gather(
    x: torch.Tensor, dim: int, index: torch.Tensor, *, sparse_grad: bool = False, out: torch.Tensor
) -> Any:
    if index.dtype not in INDICES or not x.dim() or not x.numel() or x.numel() >= 2**31:
        return NotImplemented
    if out.data_ptr() in (x.data_ptr(), index.data_ptr()):
        return NotImplemented  # the CPU says what is wrong
    if out.numel():
        launch("aten::gather", _gather, (out,), (x, index), (axis_of(x, dim),))
        checked("aten::gather", out, RuntimeError)
    return out


def _gather(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], axis: int) -> None:
    x, ids = inputs
    table = npu.contiguous(x)
    place: DeviceTensor | None = None
    wanted = int32_indices(npu, ids)
    wrong = _outside(npu, wanted, x.shape[axis])
    for i, size in enumerate(x.shape):
        if i == axis:
            number = wanted
        else:
            shape = [1] * ids.ndim
            shape[i] = ids.shape[i]
            number = ascending(npu, ids.shape[i]).reshape(*shape)
        if place is None:
            place = number
        else:
            place = integers(npu, "linear", [place, number], params=[np.int32(size)], letters="sps")
    assert place is not None
    place = _nowhere(npu, wrong, place)
    out = outputs[0]
    target = out if out.is_contiguous else npu.empty(out.shape, out.dtype)
    gather_rows(npu, table, place, target, table.size)
    if target is not out:
        npu.copy(target, out=out)


@native("embedding_dense_backward")
def embedding_dense_backward(
    grad: torch.Tensor, indices: torch.Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    if grad.dtype not in FLOATS or indices.dtype not in INDICES or scale_grad_by_freq or not indices.numel():
        return NotImplemented
    out = like(grad, (num_weights, grad.shape[-1]))
    if out.numel():
        static = (int(num_weights),)
        launch(
            "aten::embedding_dense_backward", _embedded, (out,), (grad, indices), static, [int(padding_idx)]
        )
    return out


def _embedded(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], count: int) -> None:
    """Add each row of the gradient to its row of the table, in order: a product with 0 and 1."""
    grad, ids = inputs
    rows = npu.contiguous(widened(npu, grad)).reshape(-1, grad.shape[-1])
    numbers = int32_indices(npu, ids).reshape(-1)
    chosen = npu.empty((numbers.shape[0], count))
    npu.execute(
        row_commands(
            npu,
            one_hot(),
            numbers.shape,
            [single(numbers, numbers.shape, bcast=True)],
            line(chosen, numbers.shape, count),
            cols=count,
            params=params,
        )
    )
    target = float_target(npu, outputs[0])
    npu.matmul(chosen, rows, trans_a=True, out=target)
    narrowed(npu, target, outputs[0])
