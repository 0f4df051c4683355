"""Elementwise operators: floats in float32 with one rounding at the end, integers exactly."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from echo_npu.ops.broadcast import compute
from echo_npu.ops.methods import OpMethods
from echo_npu.tensor import DeviceTensor
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import (
    Tensors,
    float_target,
    integers,
    narrowed,
    number_of,
    rounded,
    widened,
    words,
)
from echo_npu.torch.outputs import tensors_in
from echo_npu.torch.overlaps import refuse_partial
from echo_npu.torch.types import FLOATS, SMALL_INTEGERS, WORDS
from echo_npu.vector.kernels.math import power_parameters
from echo_npu.vector.kernels.pointwise import pointwise

_BITWISE: Final = frozenset(("and", "or", "xor", "not"))
_COMPARISONS: Final = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_WIDE: Final = _BITWISE | _COMPARISONS | {"add", "sub", "neg"}
_OVERLOADS: Final = {"bitwise": ("Tensor_out",), "clamp": ("out", "Tensor_out")}
_NOT_OF_BOOL: Final = frozenset(("sub", "neg", "abs"))
_SMALL: Final = _WIDE | {"mul", "minimum", "maximum", "abs"}


def float_build(
    npu: OpMethods,
    outputs: Tensors,
    inputs: Tensors,
    params: list[Any],
    name: str,
    letters: str,
    sources: tuple[str, ...],
    target: str,
) -> None:
    """Make the command of a function of float32."""
    given = {str(i): each for i, each in enumerate(inputs)}
    program = pointwise(name, letters, sources, target)
    compute(npu, name, program, given, outputs[0], params=params, dtype=outputs[0].dtype)


def _small_build(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], name: str, letters: str
) -> None:
    integers(npu, name, inputs, outputs[0], params=params, letters=letters)


def _wide_build(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], name: str, letters: str
) -> None:
    """Make the commands of a function of int64: one for each word of the result."""
    streams = iter(inputs)
    numbers = iter(params)
    low_high: list[tuple[Any, Any]] = []
    for letter in letters:
        low_high.append(words(next(streams)) if letter == "s" else (next(numbers), next(numbers)))

    def run(program: str, parts: list[Any], out: DeviceTensor) -> None:
        arrays = [each for each in parts if isinstance(each, DeviceTensor)]
        rest = [each for each in parts if not isinstance(each, DeviceTensor)]
        order = "".join("s" if isinstance(each, DeviceTensor) else "p" for each in parts)
        integers(npu, program, arrays, out, params=rest, letters=order)

    flat = [word for pair in low_high for word in pair]
    if name in _COMPARISONS:
        run(f"{name}64", flat, outputs[0])
        return
    low, high = words(outputs[0])
    if name in ("add", "sub"):
        # In place, the low words must stay until the high ones are known.
        parts = npu.empty(outputs[0].shape, low.dtype)
        run(f"{name}_high", flat, parts)
        run(name, [pair[0] for pair in low_high], low)
        integers(npu, "mov", [parts], high)
    else:
        run(name, [pair[0] for pair in low_high], low)
        run(name, [pair[1] for pair in low_high], high)


def apply(label: str, name: str, out: torch.Tensor, *operands: Any, common: torch.dtype | None = None) -> Any:
    """Run a function of tensors and numbers into `out`; NotImplemented if no program computes it.

    Args:
        name: of a program.
        common: the type that the operands are converted to; None: that of `out`.
    """
    if not out.numel():
        shape = torch.broadcast_shapes(*(each.shape for each in operands if isinstance(each, torch.Tensor)))
        if out.shape != shape:  # some operators leave that to the kernel
            out.resize_(shape)
        if not out.numel():
            return out
    kind = out.dtype if common is None else common
    given = [number_of(each) for each in operands]
    letters = "".join("s" if isinstance(each, torch.Tensor) else "p" for each in given)
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    numbers = [each for each in given if not isinstance(each, torch.Tensor)]
    if not tensors or any(isinstance(each, complex) for each in numbers):
        return NotImplemented
    if kind in FLOATS:
        if name in _BITWISE:
            return NotImplemented  # the CPU says what is wrong
        return _floats(label, name, out, letters, tensors, numbers, kind)
    if any(each.dtype != kind for each in tensors) or not all(isinstance(each, int) for each in numbers):
        return NotImplemented
    wanted = kind if name not in _COMPARISONS else torch.bool
    if out.dtype != wanted:
        return NotImplemented
    if kind in SMALL_INTEGERS and name in _SMALL and not (kind == torch.bool and name in _NOT_OF_BOOL):
        if not all(_fits(each, kind) for each in numbers):
            return NotImplemented
        program = {"add": "or", "mul": "and"}.get(name, name) if kind == torch.bool else name
        if kind == torch.bool and name == "not":
            program = "logical_not"
        launch(label, _small_build, (out,), tensors, (program, letters), [int(each) for each in numbers])
        return out
    if kind == torch.int64 and name in _WIDE:
        if name == "neg":
            name, letters, numbers = "sub", "ps", [0]
        halves = [part for each in numbers for part in (each & 0xFFFF_FFFF, each >> 32)]
        launch(label, _wide_build, (out,), tensors, (name, letters), halves)
        return out
    return NotImplemented


def _floats(
    label: str,
    name: str,
    out: torch.Tensor,
    letters: str,
    tensors: Sequence[torch.Tensor],
    numbers: Sequence[Any],
    kind: torch.dtype,
) -> Any:
    for each in tensors:
        exact = each.dtype == kind or each.dtype == torch.bool
        if not exact and not (
            kind == torch.float32 and (each.dtype in FLOATS or each.dtype in SMALL_INTEGERS)
        ):
            return NotImplemented
    if out.dtype not in FLOATS and out.dtype != torch.bool:
        return NotImplemented
    sources = tuple(WORDS[each.dtype] for each in tensors)
    target = WORDS[out.dtype]
    params = [float(each) for each in numbers]
    launch(label, float_build, (out,), tensors, (name, letters, sources, target), params)
    return out


def _fits(value: int, kind: torch.dtype) -> bool:
    if kind == torch.bool:
        return value in (0, 1)
    limits = torch.iinfo(kind)
    return limits.min <= value <= limits.max


def common_type(*operands: Any) -> torch.dtype:
    """Return the type that operands are converted to."""
    kind = torch.result_type(*operands)
    assert isinstance(kind, torch.dtype)
    return kind


# --- one operand --------------------------------------------------------------------------------------------

for _op, _program in {
    "neg": "neg",
    "abs": "abs",
    "reciprocal": "reciprocal",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "exp": "exp",
    "log": "log",
    "log1p": "log1p",
    "sin": "sin",
    "cos": "cos",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "round",
    "sign": "sign",
    "bitwise_not": "not",
}.items():

    def _unary(program: str, label: str) -> Callable[..., Any]:
        def kernel(x: torch.Tensor, *, out: torch.Tensor) -> Any:
            return apply(label, program, out, x)

        return kernel

    native(f"{_op}.out")(_unary(_program, f"aten::{_op}"))


@native("gelu.out")
def gelu(x: torch.Tensor, *, approximate: str = "none", out: torch.Tensor) -> Any:
    return apply("aten::gelu", "gelu" if approximate == "none" else "gelu_tanh", out, x)


@native("relu")
def relu(x: torch.Tensor) -> Any:
    if x.dtype == torch.bool:  # PyTorch's decomposition takes it
        raise RuntimeError("Boolean inputs not supported for relu")
    if x.dtype not in FLOATS:
        return NotImplemented
    return apply("aten::relu", "relu", torch.empty_like(x), x)


@native("relu_")
def relu_in_place(x: torch.Tensor) -> Any:
    return apply("aten::relu_", "relu", x, x) if x.dtype in FLOATS else NotImplemented


@native("logical_not.out")
def logical_not(x: torch.Tensor, *, out: torch.Tensor) -> Any:
    if x.dtype == torch.bool and out.dtype == torch.bool:
        return apply("aten::logical_not", "not", out, x)
    return NotImplemented


@native("isnan")
def isnan(x: torch.Tensor) -> Any:
    if x.dtype not in FLOATS:
        return NotImplemented
    return apply("aten::isnan", "ne", torch.empty_like(x, dtype=torch.bool), x, x, common=x.dtype)


@native("pow.Tensor_Scalar_out")
def power(x: torch.Tensor, exponent: Any, *, out: torch.Tensor) -> Any:
    if x.dtype not in FLOATS or x.dtype != out.dtype or isinstance(exponent, complex):
        return NotImplemented
    number = float(exponent)
    if number == 0.0:
        return apply("aten::pow", "one", out, x)
    name = {-1.0: "reciprocal", 0.5: "sqrt", 1.0: "mov", 2.0: "square", 3.0: "cube", -0.5: "rsqrt"}.get(
        number
    )
    if name is not None:
        return apply("aten::pow", name, out, x)
    if math.isnan(number) or not out.numel():
        return NotImplemented
    limited, *rest = power_parameters(number)
    static = ("power", "spppp", (WORDS[x.dtype],), WORDS[out.dtype])
    launch("aten::pow", float_build, (out,), (x,), static, [float(limited), *(int(each) for each in rest)])
    return out


# --- two operands -------------------------------------------------------------------------------------------


@native("add.out")
def add(x: Any, y: Any, *, alpha: Any = 1, out: torch.Tensor) -> Any:
    if alpha == 1:
        return apply("aten::add", "add", out, x, y)
    return _scaled("aten::add", out, x, y, alpha)


@native("sub.out")
def sub(x: Any, y: Any, *, alpha: Any = 1, out: torch.Tensor) -> Any:
    if alpha == 1:
        return apply("aten::sub", "sub", out, x, y)
    return _scaled("aten::sub", out, x, y, -alpha)


def _scaled(label: str, out: torch.Tensor, x: Any, y: Any, alpha: Any) -> Any:
    if out.dtype not in FLOATS or isinstance(alpha, complex):
        return NotImplemented
    return apply(label, "add_scaled", out, x, y, float(alpha))


for _op, _program in {
    "mul": "mul",
    "div": "div",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "clamp_min": "clamp_min",
    "clamp_max": "clamp_max",
}.items():

    def _binary(program: str, label: str) -> Callable[..., Any]:
        def kernel(x: Any, y: Any, *, out: torch.Tensor) -> Any:
            return apply(label, program, out, x, y)

        return kernel

    for _kind in _OVERLOADS.get(_op.partition("_")[0], ("out",)):
        native(f"{_op}.{_kind}")(_binary(_program, f"aten::{_op}"))

for _op in sorted(_COMPARISONS):

    def _compare(program: str, label: str) -> Callable[..., Any]:
        def kernel(x: Any, y: Any, *, out: torch.Tensor) -> Any:
            kind = common_type(x, y)
            x, y = (rounded(number_of(each), kind) for each in (x, y))
            return apply(label, program, out, x, y, common=kind)

        return kernel

    for _kind in ("Scalar_out", "Tensor_out"):
        native(f"{_op}.{_kind}")(_compare(_op, f"aten::{_op}"))

for _op, _program in {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}.items():

    def _logical(program: str, label: str) -> Callable[..., Any]:
        def kernel(x: torch.Tensor, y: torch.Tensor, *, out: torch.Tensor) -> Any:
            if any(each.dtype != torch.bool for each in (x, y, out)):
                return NotImplemented
            return apply(label, program, out, x, y)

        return kernel

    native(f"{_op}.out")(_logical(_program, f"aten::{_op}"))


for _op, _test in {"minimum": torch.lt, "maximum": torch.gt}.items():

    def _either(program: str, first: Callable[..., torch.Tensor]) -> Callable[..., Any]:
        def kernel(x: Any, y: Any, *, out: torch.Tensor) -> Any:
            if out.dtype == torch.int64 and x.dtype == y.dtype == out.dtype:
                refuse_partial(program, [out], [x, y])
                return out.copy_(torch.where(first(x, y), x, y))
            return apply(f"aten::{program}", program, out, x, y)

        return kernel

    native(f"{_op}.out")(_either(_op, _test))


# --- three operands -----------------------------------------------------------------------------------------


@native("clamp.out", "clamp.Tensor_out")
def clamp(x: torch.Tensor, low: Any = None, high: Any = None, *, out: torch.Tensor) -> Any:
    if out.dtype == torch.int64:
        refuse_partial("aten::clamp", [out], tensors_in([x, low, high]))
        result = x
        for bound, compare in ((low, torch.lt), (high, torch.gt)):
            if bound is not None:
                limit = torch.as_tensor(bound, dtype=out.dtype, device=out.device)
                result = torch.where(compare(result, limit), limit, result)
        return out.copy_(result)
    if out.dtype not in FLOATS:
        return NotImplemented
    if low is None:
        return apply("aten::clamp", "clamp_max", out, x, high)
    if high is None:
        return apply("aten::clamp", "clamp_min", out, x, low)
    return apply("aten::clamp", "clamp", out, x, low, high)


@native("addcmul.out")
def addcmul(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, value: Any = 1, out: torch.Tensor) -> Any:
    return _with_value("addcmul", out, x, a, b, value)


@native("addcdiv.out")
def addcdiv(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, value: Any = 1, out: torch.Tensor) -> Any:
    return _with_value("addcdiv", out, x, a, b, value)


def _with_value(name: str, out: torch.Tensor, x: Any, a: Any, b: Any, value: Any) -> Any:
    if out.dtype not in FLOATS or isinstance(value, complex):
        return NotImplemented
    return apply(f"aten::{name}", name, out, x, a, b, float(value))


@native("lerp.Scalar_out")
def lerp(x: torch.Tensor, y: torch.Tensor, weight: Any, *, out: torch.Tensor) -> Any:
    if out.dtype not in FLOATS or isinstance(weight, complex):
        return NotImplemented
    if abs(weight) < 0.5:
        return apply("aten::lerp", "lerp", out, x, y, float(weight))
    return apply("aten::lerp", "lerp_from_end", out, x, y, 1.0 - float(weight))


# --- gradients ----------------------------------------------------------------------------------------------


@native("threshold_backward.grad_input")
def threshold_backward(
    grad: torch.Tensor, x: torch.Tensor, threshold: Any, *, grad_input: torch.Tensor
) -> Any:
    if grad_input.dtype not in FLOATS:
        return NotImplemented
    return apply("aten::threshold_backward", "threshold_backward", grad_input, grad, x, float(threshold))


@native("sigmoid_backward.grad_input")
def sigmoid_backward(grad: torch.Tensor, y: torch.Tensor, *, grad_input: torch.Tensor) -> Any:
    if grad_input.dtype not in FLOATS:
        return NotImplemented
    return apply("aten::sigmoid_backward", "sigmoid_backward", grad_input, grad, y)


@native("tanh_backward.grad_input")
def tanh_backward(grad: torch.Tensor, y: torch.Tensor, *, grad_input: torch.Tensor) -> Any:
    if grad_input.dtype not in FLOATS:
        return NotImplemented
    return apply("aten::tanh_backward", "tanh_backward", grad_input, grad, y)


@native("silu_backward.grad_input")
def silu_backward(grad: torch.Tensor, x: torch.Tensor, *, grad_input: torch.Tensor) -> Any:
    return _gradient("silu_backward", grad, x, grad_input)


@native("gelu_backward.grad_input")
def gelu_backward(
    grad: torch.Tensor, x: torch.Tensor, *, approximate: str = "none", grad_input: torch.Tensor
) -> Any:
    return _gradient("gelu_backward" if approximate == "none" else "gelu_tanh_backward", grad, x, grad_input)


def _gradient(name: str, grad: torch.Tensor, x: torch.Tensor, grad_input: torch.Tensor) -> Any:
    if any(each.dtype not in FLOATS for each in (grad, x, grad_input)):
        return NotImplemented
    if grad_input.numel():
        launch(f"aten::{name}", _gradient_build, (grad_input,), (grad, x), (name,))
    return grad_input


def _gradient_build(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], name: str) -> None:
    target = float_target(npu, outputs[0])
    grad, x = (widened(npu, each) for each in inputs)
    if name == "silu_backward":
        npu.silu_backward(grad, x, out=target)
    else:
        npu.gelu_backward(grad, x, approximate="none" if name == "gelu_backward" else "tanh", out=target)
    narrowed(npu, target, outputs[0])
