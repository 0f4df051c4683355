"""Sums and products with broadcasting, functions of one tensor, gated functions."""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from echo_npu.device import Device
from echo_npu.ops.broadcast import compute
from echo_npu.server.operations.base import FLOATS, Emitter, first, require, same_shape
from echo_npu.server.operations.table import GraphOperation
from echo_npu.server.protocol import GraphNode, GraphTensor
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels import math
from echo_npu.vector.kernels.elementwise import BODIES, Body
from echo_npu.vector.program import Builder, Program

Function = Callable[[Device, DeviceTensor, DeviceTensor | None], Any]
"""Of a float32 tensor, written to the given one or to a new one."""

EXACT_FROM: Final = 8388608.0
"""From here on every float32 is a whole number."""


# --- two tensors --------------------------------------------------------------------------------------------


def repeated(target: DeviceTensor, *sources: DeviceTensor) -> tuple[DeviceTensor, ...]:
    """Split axes so that sources which repeat along the target's axes broadcast to it.

    Args:
        target: of any shape.
        sources: of as many axes; each count divides the target's.

    Returns: the target and the sources, with the same number of axes.
    """
    shapes: list[list[int]] = [[] for _ in range(1 + len(sources))]
    strides: list[list[int]] = [[] for _ in range(1 + len(sources))]
    views = (target, *sources)
    for axis, count in enumerate(target.shape):
        period = next((v.shape[axis] for v in sources if 1 < v.shape[axis] < count), count)
        for i, view in enumerate(views):
            own, step = view.shape[axis], view.strides[axis]
            if own == count:
                shapes[i] += [count // period, period]
                strides[i] += [period * step, step]
            else:
                shapes[i] += [1, own]
                strides[i] += [0, step]
    return tuple(
        DeviceTensor.borrow(view.device, view.ptr, tuple(shape), tuple(stride), view.dtype)
        for view, shape, stride in zip(views, shapes, strides, strict=True)
    )


def repeats(few: GraphTensor, many: GraphTensor) -> bool:
    """Return whether a tensor can be repeated to another one's shape."""
    return all(own and not count % own for own, count in zip(few.elements, many.elements, strict=True))


def check_binary(device: Device, node: GraphNode) -> None:
    """Take two tensors of floats, the second one repeated to the first one's shape."""
    left, right = first(node), first(node, 1)
    require(all(each.type in FLOATS for each in (left, right, node.destination)), "a type that is no float")
    require(same_shape(left, node.destination), "a result of another shape")
    require(repeats(right, left), "a second operand that does not repeat")


def emit_binary(emitter: Emitter, node: GraphNode) -> None:
    """Compute in float32."""
    device = emitter.device
    function = {"ADD": device.add, "SUB": device.sub, "MUL": device.mul, "DIV": device.div}[node.op]
    left, right = emitter.floats(first(node)), emitter.floats(first(node, 1))
    out = emitter.target(node.destination)
    whole = device.empty(left.shape) if out is None else out
    if right.shape == left.shape:
        function(left, right, out=whole)
    else:
        target, *operands = repeated(whole, left, right)
        function(*operands, out=target)
    emitter.finish(whole, node.destination)


# --- one tensor ---------------------------------------------------------------------------------------------


def _step(device: Device, x: DeviceTensor, out: DeviceTensor | None) -> Any:
    return device.gt(x, 0.0, out=out)


def _sign(device: Device, x: DeviceTensor, out: DeviceTensor | None) -> Any:
    return device.sub(device.gt(x, 0.0), device.lt(x, 0.0), out=out)


def _elu(device: Device, x: DeviceTensor, out: DeviceTensor | None) -> Any:
    return device.where(device.gt(x, 0.0), x, _expm1(device, x, None), out=out)


def _expm1(device: Device, x: DeviceTensor, out: DeviceTensor | None) -> Any:
    return device.sub(device.exp(x), 1.0, out=out)


def _quick(b: Builder, dst: Operand, x: Operand) -> None:
    """Compute x * sigmoid(1.702 x)."""
    t = b.vector()
    b.mul(t, x, 1.702)
    math.sigmoid(b, t, t)
    b.mul(dst, x, t)
    b.free(t)


@cache
def _quick_program() -> Program:
    b = Builder("gelu_quick")
    x = b.stream(0)
    with b.chunks(advance=[x]):
        _quick(b, b.out, x)
    return b.build()


def _gelu_quick(device: Device, x: DeviceTensor, out: DeviceTensor | None) -> Any:
    return compute(device, "gelu_quick", _quick_program(), {"x": x}, out)


def _hard_sigmoid(device: Device, x: DeviceTensor, out: DeviceTensor | None) -> Any:
    return device.clamp(device.mul(device.add(x, 3.0), 1 / 6), 0.0, 1.0, out=out)


def _hard_swish(device: Device, x: DeviceTensor, out: DeviceTensor | None) -> Any:
    return device.mul(x, _hard_sigmoid(device, x, None), out=out)


def _softplus(device: Device, x: DeviceTensor, out: DeviceTensor | None) -> Any:
    curve = device.log(device.add(device.exp(device.minimum(x, 20.0)), 1.0))
    return device.where(device.gt(x, 20.0), x, curve, out=out)


def _whole(device: Device, x: DeviceTensor, near: DeviceTensor, out: DeviceTensor | None) -> Any:
    """Return `near`, but x itself where it is too large for int32 and a whole number anyway."""
    return device.where(device.lt(device.abs(x), EXACT_FROM), near, x, out=out)


def _cut(device: Device, x: DeviceTensor) -> Any:
    return device.cast(device.cast(x, "int32"), "float32")


def _trunc(device: Device, x: DeviceTensor, out: DeviceTensor | None) -> Any:
    return _whole(device, x, _cut(device, x), out)


def _floor(device: Device, x: DeviceTensor, out: DeviceTensor | None) -> Any:
    cut = _cut(device, x)
    return _whole(device, x, device.sub(cut, device.gt(cut, x)), out)


def _ceil(device: Device, x: DeviceTensor, out: DeviceTensor | None) -> Any:
    cut = _cut(device, x)
    return _whole(device, x, device.add(cut, device.lt(cut, x)), out)


def _round(device: Device, x: DeviceTensor, out: DeviceTensor | None) -> Any:
    cut = _cut(device, x)
    rest = device.sub(x, cut)
    away = device.sub(device.ge(rest, 0.5), device.le(rest, -0.5))
    return _whole(device, x, device.add(cut, away), out)


FUNCTIONS: Final[dict[str, Function]] = {
    "ABS": lambda device, x, out: device.abs(x, out=out),
    "SGN": _sign,
    "NEG": lambda device, x, out: device.neg(x, out=out),
    "STEP": _step,
    "TANH": lambda device, x, out: device.tanh(x, out=out),
    "ELU": _elu,
    "RELU": lambda device, x, out: device.relu(x, out=out),
    "SIGMOID": lambda device, x, out: device.sigmoid(x, out=out),
    "GELU": lambda device, x, out: device.gelu(x, "tanh", out=out),
    "GELU_ERF": lambda device, x, out: device.gelu(x, out=out),
    "GELU_QUICK": _gelu_quick,
    "SILU": lambda device, x, out: device.silu(x, out=out),
    "HARDSWISH": _hard_swish,
    "HARDSIGMOID": _hard_sigmoid,
    "EXP": lambda device, x, out: device.exp(x, out=out),
    "EXPM1": _expm1,
    "SOFTPLUS": _softplus,
    "FLOOR": _floor,
    "CEIL": _ceil,
    "ROUND": _round,
    "TRUNC": _trunc,
    "SQR": lambda device, x, out: device.mul(x, x, out=out),
    "SQRT": lambda device, x, out: device.sqrt(x, out=out),
    "RSQRT": lambda device, x, out: device.rsqrt(x, out=out),
    "RECIPROCAL": lambda device, x, out: device.reciprocal(x, out=out),
    "LOG": lambda device, x, out: device.log(x, out=out),
    "SIN": lambda device, x, out: device.sin(x, out=out),
    "COS": lambda device, x, out: device.cos(x, out=out),
}


def check_unary(device: Device, node: GraphNode) -> None:
    """Take a tensor of floats of any strides."""
    source = first(node)
    require(all(each.type in FLOATS for each in (source, node.destination)), "a type that is no float")
    require(same_shape(source, node.destination), "a result of another shape")


def emit_unary(emitter: Emitter, node: GraphNode) -> None:
    """Compute in float32."""
    x = emitter.floats(first(node))
    result = FUNCTIONS[node.op](emitter.device, x, emitter.target(node.destination))
    emitter.finish(result, node.destination)


def emit_scale(emitter: Emitter, node: GraphNode) -> None:
    """Compute `s * x + b`."""
    x, out = emitter.floats(first(node)), emitter.target(node.destination)
    scale, bias = node.number(0), node.number(1)
    if bias:
        result = emitter.device.add(emitter.device.mul(x, scale), bias, out=out)
    else:
        result = emitter.device.mul(x, scale, out=out)
    emitter.finish(result, node.destination)


def emit_clamp(emitter: Emitter, node: GraphNode) -> None:
    """Limit to the range of the parameters."""
    x, out = emitter.floats(first(node)), emitter.target(node.destination)
    emitter.finish(emitter.device.clamp(x, node.number(0), node.number(1), out=out), node.destination)


def emit_leaky_relu(emitter: Emitter, node: GraphNode) -> None:
    """Multiply what is below zero by the slope."""
    x, out = emitter.floats(first(node)), emitter.target(node.destination)
    device = emitter.device
    slope = device.mul(device.minimum(x, 0.0), node.number(0))
    emitter.finish(device.add(device.relu(x), slope, out=out), node.destination)


# --- gated functions ----------------------------------------------------------------------------------------

GATES: Final[dict[str, str]] = {
    "REGLU": "RELU",
    "GEGLU": "GELU",
    "SWIGLU": "SILU",
    "GEGLU_ERF": "GELU_ERF",
    "GEGLU_QUICK": "GELU_QUICK",
}
"""The function of each; its result is multiplied by the gate."""


_BODIES: Final[dict[str, Body]] = {
    "RELU": BODIES["relu"],
    "GELU": BODIES["gelu_tanh"],
    "SILU": BODIES["silu"],
    "GELU_ERF": BODIES["gelu"],
    "GELU_QUICK": _quick,
}


@cache
def gated(function: str) -> Program:
    """The vector program of a function of s0, times s1: the bits of the function's program and a product."""
    b = Builder(f"{function.lower()}_gated")
    x, gate, value = b.stream(0), b.stream(1), b.vector()
    with b.chunks(advance=[x, gate]):
        _BODIES[function](b, value, x)
        b.mul(b.out, value, gate)
    return b.build()


def check_gated(device: Device, node: GraphNode) -> None:
    """Take two tensors of one shape, or one whose rows hold both halves."""
    x, gate = first(node), node.source(1)
    tensors = [x, node.destination, *([] if gate is None else [gate])]
    require(all(each.type in FLOATS for each in tensors), "a type that is no float")
    if gate is None:
        halved = (x.elements[0] // 2, *x.elements[1:])
        require(halved == node.destination.elements, "rows of no two halves")
    else:
        require(same_shape(*tensors), "operands of different shapes")


def _halves(emitter: Emitter, node: GraphNode) -> tuple[DeviceTensor, DeviceTensor]:
    """Return the function's argument and the gate as float32."""
    x, given = emitter.floats(first(node)), node.source(1)
    if given is not None:
        return x, emitter.floats(given)
    half = x.shape[-1] // 2
    parts = x[..., :half], x[..., half : 2 * half]
    return (parts[1], parts[0]) if node.integer(1) else parts


def emit_gated(emitter: Emitter, node: GraphNode) -> None:
    """Compute `f(x) * gate` with one command."""
    x, gate = _halves(emitter, node)
    out = emitter.target(node.destination)
    result = compute(emitter.device, node.op, gated(GATES[node.op]), {"x": x, "gate": gate}, out)
    emitter.finish(result, node.destination)


def emit_gated_apart(emitter: Emitter, node: GraphNode) -> None:
    """Compute f(x) with a command, and the product with the gate with another one, which alone waits for the
    gate."""
    device, (x, gate) = emitter.device, _halves(emitter, node)
    value = FUNCTIONS[GATES[node.op]](device, x, None)
    emitter.finish(device.mul(value, gate, out=emitter.target(node.destination)), node.destination)


def emit_swiglu_oai(emitter: Emitter, node: GraphNode) -> None:
    """Compute `x * sigmoid(alpha * x) * (gate + 1)` of limited operands."""
    device, (x, gate) = emitter.device, _halves(emitter, node)
    alpha, limit = node.number(2), node.number(3)
    x = device.minimum(x, limit)
    value = device.mul(x, device.sigmoid(device.mul(x, alpha)))
    opened = device.add(device.clamp(gate, -limit, limit), 1.0)
    emitter.finish(device.mul(value, opened, out=emitter.target(node.destination)), node.destination)


OPERATIONS = {
    **dict.fromkeys(("ADD", "SUB", "MUL", "DIV"), GraphOperation(check_binary, emit_binary)),
    **dict.fromkeys(FUNCTIONS, GraphOperation(check_unary, emit_unary)),
    **dict.fromkeys(GATES, GraphOperation(check_gated, emit_gated)),
    "SWIGLU_OAI": GraphOperation(check_gated, emit_swiglu_oai),
    "SCALE": GraphOperation(check_unary, emit_scale),
    "CLAMP": GraphOperation(check_unary, emit_clamp),
    "LEAKY_RELU": GraphOperation(check_unary, emit_leaky_relu),
}
