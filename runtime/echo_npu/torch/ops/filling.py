"""Operators that fill, choose and mask."""

import math
import warnings
from typing import Any

import numpy as np
import torch

from echo_npu.ops.broadcast import compute, elementwise_commands
from echo_npu.ops.methods import OpMethods
from echo_npu.ops.rows import last_axis_commands
from echo_npu.tensor import DeviceTensor
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import (
    Tensors,
    float_target,
    integers,
    narrowed,
    number_of,
    store_int64,
    words,
)
from echo_npu.torch.storages import like, of_elements
from echo_npu.torch.types import BITS, FLOATS, WITHOUT_NUMBERS
from echo_npu.vector.kernels.counting import counting, triangle
from echo_npu.vector.kernels.fill import fill
from echo_npu.vector.kernels.pointwise import integer


def bits_of(value: Any, dtype: torch.dtype) -> list[int]:
    """Return the 32-bit words of a number as an element of a type of up to 64 bits.

    Raises:
        NotImplementedError: a type of which PyTorch has no numbers, and not 0.
    """
    if dtype in WITHOUT_NUMBERS:
        if isinstance(value, float) or value:
            raise NotImplementedError(f"{dtype} has no number {value}")
        return [0]
    whole = int(torch.tensor(value, dtype=dtype).view(BITS[dtype.itemsize]).item())
    return [whole & 0xFFFF_FFFF] if dtype.itemsize < 8 else [whole & 0xFFFF_FFFF, whole >> 32 & 0xFFFF_FFFF]


def _parts(x: DeviceTensor) -> list[DeviceTensor]:
    """Return a tensor as integers of up to 32 bits: its words if it has longer elements."""
    if x.dtype.itemsize == 8:
        return list(words(x))
    kind = {1: np.uint8, 2: np.int16, 4: np.int32}[x.dtype.itemsize]
    return [DeviceTensor.borrow(x.device, x.ptr, x.shape, x.strides, np.dtype(kind))]


def _fill(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any]) -> None:
    for part, value in zip(_parts(outputs[0]), params, strict=True):
        npu.execute(elementwise_commands(npu, fill(), [], part, params=[value]))


@native("fill_.Scalar")
def fill_(x: torch.Tensor, value: Any) -> Any:
    if x.dtype.itemsize > 8 or isinstance(value, complex):
        return NotImplemented
    if x.numel():
        launch("aten::fill_", _fill, (x,), (), (), bits_of(value, x.dtype))
    return x


@native("fill_.Tensor")
def fill_tensor(x: torch.Tensor, value: torch.Tensor) -> Any:
    if value.dim():
        return NotImplemented  # the CPU says what is wrong
    if value.is_cpu:
        return fill_(x, value.item())
    x.copy_(value.expand(x.shape))
    return x


@native("zero_")
def zero_(x: torch.Tensor) -> Any:
    return fill_(x, 0)


def _where(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], letters: str) -> None:
    """Choose bits by a condition: inputs are the condition and the tensors, params words of the numbers."""
    condition, *tensors = inputs
    outs = _parts(outputs[0])
    for number, out in enumerate(outs):
        streams = iter([_parts(each)[number] for each in tensors])
        numbers = iter(params[number :: len(outs)])
        arrays, chosen = [condition], []
        for letter in letters:
            if letter == "s":
                arrays.append(next(streams))
            else:
                chosen.append(next(numbers))
        target = out
        if len(outs) > 1 and any(each.ptr == outputs[0].ptr for each in tensors):
            target = npu.empty(out.shape, out.dtype)
        program = integer("where", f"s{letters}", ("bits",) * len(arrays))
        given = {str(i): each for i, each in enumerate(arrays)}
        compute(npu, "where", program, given, target, params=chosen, dtype=out.dtype)
        if target is not out:
            integers(npu, "mov", [target], out)


def choose(label: str, condition: torch.Tensor, a: Any, b: Any, out: torch.Tensor) -> Any:
    """Write a where the condition holds, else b; NotImplemented for types of more than 64 bits."""
    given = [number_of(each) for each in (a, b)]
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    if condition.dtype != torch.bool or out.dtype.itemsize > 8:
        return NotImplemented
    if any(each.dtype != out.dtype for each in tensors) or any(isinstance(each, complex) for each in given):
        return NotImplemented
    if out.numel():
        letters = "".join("s" if isinstance(each, torch.Tensor) else "p" for each in given)
        # The low words of all numbers, and the high words, lie side by side for `_where`.
        halves = [bits_of(each, out.dtype) for each in given if not isinstance(each, torch.Tensor)]
        interleaved = [word for half in halves for word in half]
        launch(label, _where, (out,), (condition, *tensors), (letters,), interleaved)
    return out


@native("where.self")
def where(condition: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Any:
    if condition.is_cpu or (a.is_cpu and b.is_cpu):
        return NotImplemented
    kind = torch.result_type(a, b)
    if any(not each.is_cpu and each.dtype != kind for each in (a, b)):
        a, b = (each if each.is_cpu else each.to(kind) for each in (a, b))
    shape = torch.broadcast_shapes(condition.shape, a.shape, b.shape)
    operands = [each for each in (condition, a, b) if not each.is_cpu]
    return choose("aten::where", condition, a, b, of_elements(shape, operands, kind))


@native("where.self_out")
def where_out(condition: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> Any:
    if condition.is_cpu or out.shape != torch.broadcast_shapes(condition.shape, a.shape, b.shape):
        return NotImplemented
    return choose("aten::where", condition, a, b, out)


@native("masked_fill_.Scalar", "masked_fill_.Tensor")
def masked_fill_(x: torch.Tensor, mask: torch.Tensor, value: Any) -> Any:
    if mask.is_cpu or (isinstance(value, torch.Tensor) and value.dim()):
        return NotImplemented
    if isinstance(value, torch.Tensor) and value.dtype != x.dtype:
        value = value.to(x.dtype)
    return choose("aten::masked_fill_", mask, value, x, x)


def _arange(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], kind: str) -> None:
    """Write start + i * step; params are the two, as float32 or int32."""
    out = outputs[0]
    if kind == "float":
        target = float_target(npu, out)
        npu.execute(last_axis_commands(npu, counting(whole=False), [], target, params=params))
        narrowed(npu, target, out)
        return
    value = out if out.dtype != np.int64 else npu.empty(out.shape, np.int32)
    npu.execute(last_axis_commands(npu, counting(whole=True), [], value, params=params))
    if value is not out:
        store_int64(npu, value, out)


@native("arange.start_out")
def arange(start: Any, end: Any, step: Any = 1, *, out: torch.Tensor) -> Any:
    start, end, step = (number_of(each) for each in (start, end, step))
    if out.dtype not in FLOATS and out.dtype not in (torch.int64, torch.int32):
        return NotImplemented
    whole = out.dtype not in FLOATS
    if (
        not all(map(math.isfinite, (start, end, step)))
        or not step
        or (end - start) / step < 0
        or (whole and not all(isinstance(n, int) for n in (start, end, step)))
    ):
        return NotImplemented
    # A quotient of floats is rounded before it is rounded up: 7.2 / 1.2 are 6 numbers.
    count = -(-(end - start) // step) if whole else math.ceil((end - start) / step)
    if whole and max(abs(start), abs(end), abs(step)) >= 2**31 - 1:
        return NotImplemented
    if out.numel() != count:
        if out.numel():
            warnings.warn(
                f"The number of elements in the out tensor of shape {list(out.shape)} is {out.numel()} which "
                f"does not match the computed number of elements {count}. Note that this may occur as a "
                f"result of rounding error. The out tensor will be resized to a tensor of shape ({count},).",
                stacklevel=3,
            )
        out.resize_([count])
    if count and out.dim() != 1:
        out.copy_(arange(start, end, step, out=like(out, (count,))).view(out.shape))
    elif count:
        params = [int(start), int(step)] if whole else [float(start), float(step)]
        launch("aten::arange", _arange, (out,), (), ("int" if whole else "float",), params)
    return out


@native("linspace.out")
def linspace(start: Any, end: Any, steps: int, *, out: torch.Tensor) -> Any:
    if out.dtype not in FLOATS or any(isinstance(each, complex) for each in (start, end)):
        return NotImplemented
    if not (math.isfinite(start) and math.isfinite(end)):
        return NotImplemented
    if out.numel() != steps:
        out.resize_([steps])
    if steps and out.dim() != 1:
        return out.copy_(linspace(start, end, steps, out=like(out, (steps,))).view(out.shape))
    if steps:
        step = (end - start) / (steps - 1) if steps > 1 else 0.0
        launch("aten::linspace", _arange, (out,), (), ("float",), [float(start), float(step)])
    if steps > 1:
        fill_(out[-1:], end)  # exactly
    return out


def _triangle(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], upper: bool) -> None:
    (source,), (target,) = (_parts(each) for each in (inputs[0], outputs[0]))
    if source.ptr == target.ptr:
        source = npu.copy(source)
    npu.execute(
        last_axis_commands(npu, triangle(upper=upper), [source], target, params=params, keep_last=True)
    )


def _tri(label: str, x: torch.Tensor, diagonal: int, out: torch.Tensor, upper: bool) -> Any:
    if x.dtype.itemsize > 4 or x.dtype != out.dtype:
        return NotImplemented
    if out.numel():
        launch(label, _triangle, (out,), (x,), (upper,), [int(diagonal)])
    return out


@native("tril.out")
def tril(x: torch.Tensor, diagonal: int = 0, *, out: torch.Tensor) -> Any:
    return _tri("aten::tril", x, diagonal, out, False)


@native("triu.out")
def triu(x: torch.Tensor, diagonal: int = 0, *, out: torch.Tensor) -> Any:
    return _tri("aten::triu", x, diagonal, out, True)
