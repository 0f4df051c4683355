"""Matrix products."""

from typing import Any

import torch

from echo_npu.ops.broadcast import compute
from echo_npu.ops.methods import OpMethods
from echo_npu.tensor import DeviceTensor
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import Tensors, float_target, narrowed, widened
from echo_npu.torch.types import FLOATS
from echo_npu.vector.kernels.pointwise import pointwise


def operand(npu: OpMethods, x: DeviceTensor) -> DeviceTensor:
    """Return a matrix whose rows or columns are dense: itself, or a copy."""
    (rows, columns), (down, right), size = x.shape[-2:], x.strides[-2:], x.dtype.itemsize
    plain = (columns == 1 or right == size) and (rows == 1 or down >= size * columns)
    turned = (rows == 1 or down == size) and (columns == 1 or right >= size * rows)
    return x if plain or turned else npu.copy(x)


def _product(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any]) -> None:
    out = outputs[0]
    a, b = (operand(npu, each) for each in inputs)
    if out.is_contiguous and out.ptr not in (a.ptr, b.ptr):
        npu.matmul(a, b, out=out)
    else:
        npu.copy(npu.matmul(a, b, out_dtype=out.dtype), out=out)


def _suits(*tensors: torch.Tensor) -> bool:
    return tensors[0].dtype in FLOATS and all(
        each.dtype == tensors[0].dtype and each.numel() for each in tensors
    )


@native("mm.out", "bmm.out")
def matmul(a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> Any:
    if not _suits(a, b, out):
        return NotImplemented
    launch("aten::mm" if a.dim() == 2 else "aten::bmm", _product, (out,), (a, b))
    return out


@native("dot")
def dot(a: torch.Tensor, b: torch.Tensor) -> Any:
    if not _suits(a, b) or a.shape != b.shape:
        return NotImplemented
    return torch.mm(a[None, :], b[:, None]).reshape(())


def _added(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], scaled: bool) -> None:
    """Compute `beta * bias + alpha * a @ b`; params are alpha and beta if `scaled`."""
    bias, a, b = inputs
    out = outputs[0]
    a, b = operand(npu, a), operand(npu, b)
    clear = out.is_contiguous and out.ptr not in (a.ptr, b.ptr, bias.ptr)
    vector = bias.ndim and all(size == 1 for size in bias.shape[:-1]) and bias.shape[-1] == out.shape[-1]
    if not scaled and vector and out.ndim == 2:
        row = widened(npu, bias).reshape(out.shape[-1])
        if clear:
            npu.matmul(a, b, bias=npu.contiguous(row), out=out)
        else:
            npu.copy(npu.matmul(a, b, bias=npu.contiguous(row), out_dtype=out.dtype), out=out)
        return
    product = npu.matmul(a, b)
    target = float_target(npu, out)
    addend = widened(npu, bias)
    given = {"addend": addend, "product": product}
    if scaled:
        program = pointwise("mul", "sp", ("float32",), "float32")
        part = npu.empty(bias.shape)
        compute(npu, "mul", program, {"addend": addend}, part, params=params[1:])
        given["addend"] = part
        program = pointwise("add_scaled", "ssp", ("float32", "float32"), "float32")
        compute(npu, "addmm", program, given, target, params=params[:1])
    else:
        npu.add(*given.values(), out=target)
    narrowed(npu, target, out)


@native("addmm.out", "baddbmm.out")
def addmm(
    bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: Any = 1, alpha: Any = 1, out: torch.Tensor
) -> Any:
    if not beta and alpha == 1:
        return matmul(a, b, out=out)
    if not _suits(a, b, out) or bias.is_cpu or bias.dtype != out.dtype or not beta:
        return NotImplemented
    scaled = alpha != 1 or beta != 1
    params = [float(alpha), float(beta)] if scaled else []
    launch("aten::addmm", _added, (out,), (bias, a, b), (scaled,), params)
    return out


@native("addmv.out")
def addmv(
    bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: Any = 1, alpha: Any = 1, out: torch.Tensor
) -> Any:
    column = bias[:, None] if bias.dim() else bias
    made = addmm(column, a, b[:, None], beta=beta, alpha=alpha, out=out[:, None])
    return made if made is NotImplemented else out
