"""Elementwise operations. Operands broadcast as in numpy; a number is a parameter of the command.

docs/numerics.md defines the results to the bit.
"""

import math
from typing import Any, Final, Literal

import numpy as np

from echo_npu.commands.builders import add_command
from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.broadcast import compute, is_array, result_shape
from echo_npu.ops.operands import FLOAT32, check_out, kind, require_float32, upload
from echo_npu.ops.rows import Parameter, overlap, run
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.kernels.elementwise import elementwise
from echo_npu.vector.kernels.math import power_parameters

_CONDITIONS: Final = frozenset(
    np.dtype(each) for each in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float32")
)


def unary(device: CommandDevice, op: str, x: Any, *, out: DeviceTensor | None = None) -> Any:
    """Apply a function to each element.

    Args:
        op: neg, abs, relu, reciprocal, sqrt, rsqrt, exp, log, sin, cos, tanh, sigmoid, silu, gelu, gelu_tanh.
        x: float32 of any shape; a DeviceTensor with any strides.
        out: a DeviceTensor of x's shape to write to; it may be x.

    Returns: float32 of x's shape; a DeviceTensor if `x` or `out` is one.

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: an empty array, or an `out` of another shape.
    """
    require_float32(op, x=x)
    return compute(device, op, elementwise(op, "s"), {"x": x}, out)


def binary(device: CommandDevice, op: str, a: Any, b: Any, *, out: DeviceTensor | None = None) -> Any:
    """Apply a function to pairs of elements.

    Args:
        op: sub, mul, div, minimum, maximum, eq, ne, lt, le, gt, ge. A comparison gives 1.0 or 0.0.
        a, b: float32, shapes that broadcast; one of them may be a number, rounded to float32.
        out: a DeviceTensor of the result's shape to write to; it may be an operand.

    Returns: float32 of the broadcast shape; a DeviceTensor if `a`, `b` or `out` is one.

    Raises:
        TypeError: a dtype other than float32, or no array among the operands.
        ValueError: shapes that do not broadcast, or an empty array.
    """
    return _mixed(device, op, op, {"a": a, "b": b}, out)


def add(
    device: CommandDevice, a: Any, b: Any, alpha: Parameter = 1.0, *, out: DeviceTensor | None = None
) -> Any:
    """Compute `a + alpha * b`: one rounded product, one rounded sum.

    Args:
        a, b: as in `binary`.
        alpha: rounded to float32.
        out: a DeviceTensor of the result's shape to write to; it may be an operand.

    Returns, raises: as `binary`.
    """
    if is_array(a) and is_array(b) and a.shape == b.shape and _suits_add_tensor(a, b, out):
        return _add_tensor(device, a, b, alpha, out)
    if _float32(alpha) == 1.0:
        return _mixed(device, "add", "add", {"a": a, "b": b}, out)
    return _mixed(device, "add", "add_scaled", {"a": a, "b": b}, out, alpha=alpha)


def _suits_add_tensor(a: Any, b: Any, out: Any) -> bool:
    """Return whether ADD_TENSOR can take them: float32, dense, and `out` is an operand or overlaps none."""
    if any(each.dtype != FLOAT32 for each in (a, b)):
        return False
    tensors = [each for each in (a, b, out) if isinstance(each, DeviceTensor)]
    if not all(each.is_contiguous for each in tensors):
        return False
    return not isinstance(out, DeviceTensor) or all(
        each.ptr == out.ptr or not overlap(each, out) for each in tensors
    )


def _add_tensor(device: CommandDevice, a: Any, b: Any, alpha: Parameter, out: DeviceTensor | None) -> Any:
    shape = result_shape("add", {"a": a, "b": b})
    check_out(device, "add", out, shape)
    left = upload(device, a, "activation")
    right = left if a is b else upload(device, b, "activation")
    target = device.empty(shape) if out is None else out
    command = add_command(left.ptr, right.ptr, target.ptr, left.size, alpha=float(_float32(alpha)))
    return run(device, f"ADD_TENSOR {shape} alpha={alpha}", [command], target, out, [a, b])


def gelu(
    device: CommandDevice,
    x: Any,
    approximate: Literal["none", "tanh"] = "none",
    *,
    out: DeviceTensor | None = None,
) -> Any:
    """Compute `x * (1 + erf(x / sqrt(2))) / 2`, x times the normal distribution at x.

    With `approximate="tanh"`, compute `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))`.

    Raises: as `unary`; ValueError for another approximation.
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f'gelu: approximate is {approximate!r}; it must be "none" or "tanh"')
    return unary(device, "gelu" if approximate == "none" else "gelu_tanh", x, out=out)


def clamp(
    device: CommandDevice,
    x: Any,
    min: Any = None,  # noqa: A002  (numpy's name)
    max: Any = None,  # noqa: A002
    *,
    out: DeviceTensor | None = None,
) -> Any:
    """Limit x, `minimum(maximum(x, min), max)`; NaN stays NaN, and a NaN limit makes every element NaN.

    Args:
        x: float32.
        min, max: numbers, or float32 arrays that broadcast with x; None: no limit.
        out: a DeviceTensor of the result's shape to write to; it may be an operand.

    Raises:
        TypeError: x is no float32 array, or a limit is neither that nor a number.
        ValueError: no limit at all, an empty array, or shapes that do not broadcast.
    """
    require_float32("clamp", x=x)
    limits = {"min": min, "max": max}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    if not given:
        raise ValueError("clamp takes a minimum, a maximum or both")
    name = "clamp" if len(given) == 2 else f"clamp_{next(iter(given))}"
    return _mixed(device, "clamp", name, {"x": x, **given}, out)


def power(device: CommandDevice, x: Any, exponent: Parameter, *, out: DeviceTensor | None = None) -> Any:
    """Raise x to the power of one number, rounded to float32, with the special cases of C's pow.

    As in numpy, an exponent of 0.5 gives the square root, also of -0 and -infinity.

    Args:
        x, out: as in `unary`.

    Raises: as `unary`; TypeError for an exponent that is no number.
    """
    require_float32("pow", x=x)
    number = float(_float32(_number("pow", "exponent", exponent)))
    if math.isnan(number):
        one = binary(device, "eq", x, 1.0)
        return where(device, one, 1.0, math.nan, out=out)
    if number == 0.0:
        return compute(device, "pow", elementwise("one", "s"), {"x": x}, out)
    name = {-1.0: "reciprocal", 0.5: "sqrt", 1.0: "mov", 2.0: "square", 3.0: "cube"}.get(number)
    if name is not None:
        return compute(device, "pow", elementwise(name, "s"), {"x": x}, out)
    limited, *bits = power_parameters(number)
    params = [limited, *bits]
    return compute(device, "pow", elementwise("power", "spppp"), {"x": x}, out, params=params)


def where(device: CommandDevice, condition: Any, a: Any, b: Any, *, out: DeviceTensor | None = None) -> Any:
    """Choose a where the condition is not zero (NaN is not zero), else b, bits untouched.

    Args:
        condition: an array of bool, float32 or integers of up to 32 bits; it broadcasts with a and b.
        a, b: float32, or numbers.
        out: a DeviceTensor of the result's shape to write to; it may be an operand.

    Raises:
        TypeError: another dtype.  ValueError: shapes that do not broadcast, or an empty array.
    """
    if not is_array(condition) or condition.dtype not in _CONDITIONS:
        raise TypeError(
            f"where: condition is {kind(condition)}; it must be an array of bool, float32 or integers of up "
            "to 32 bits"
        )
    name = "where_float" if condition.dtype == FLOAT32 else "where"
    return _mixed(device, "where", name, {"condition": condition, "a": a, "b": b}, out)


def masked_fill(
    device: CommandDevice, x: Any, mask: Any, value: Parameter, *, out: DeviceTensor | None = None
) -> Any:
    """Choose the number `value` where the mask is not zero, else x. As `where`."""
    return where(device, mask, _number("masked_fill", "value", value), x, out=out)


def addcmul(
    device: CommandDevice, x: Any, a: Any, b: Any, value: Parameter = 1.0, *, out: DeviceTensor | None = None
) -> Any:
    """Compute `x + value * (a * b)`: a rounded product a * b, then one rounding for the rest. As `binary`."""
    return _mixed(device, "addcmul", "addcmul", {"x": x, "a": a, "b": b}, out, value=value)


def addcdiv(
    device: CommandDevice, x: Any, a: Any, b: Any, value: Parameter = 1.0, *, out: DeviceTensor | None = None
) -> Any:
    """Compute `x + value * (a / b)`: a rounded quotient, then one rounding for the rest. As `binary`."""
    return _mixed(device, "addcdiv", "addcdiv", {"x": x, "a": a, "b": b}, out, value=value)


def _mixed(
    device: CommandDevice,
    op: str,
    name: str,
    operands: dict[str, Any],
    out: DeviceTensor | None,
    **numbers: Any,
) -> Any:
    """Run the program `name` on arrays and numbers; `numbers` are its last operands."""
    given = {**operands, **{key: _number(op, key, value) for key, value in numbers.items()}}
    arrays = {key: value for key, value in given.items() if is_array(value)}
    named = ", ".join(f"{key} is {kind(value)}" for key, value in operands.items())
    if not arrays:
        raise TypeError(f"{op} takes a float32 array: {named}")
    if any(value.dtype != FLOAT32 for key, value in arrays.items() if key != "condition"):
        raise TypeError(f"{op} takes float32 arrays and numbers: {named}")
    params = [_float32(_number(op, key, value)) for key, value in given.items() if not is_array(value)]
    letters = "".join("s" if is_array(value) else "p" for value in given.values())
    return compute(device, op, elementwise(name, letters), arrays, out, params=params)


def _number(op: str, name: str, value: Any) -> Parameter:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{op}: {name} must be a number, got {kind(value)}")
    return value


def _float32(value: Parameter) -> np.float32:
    with np.errstate(over="ignore"):
        return np.float32(value)
